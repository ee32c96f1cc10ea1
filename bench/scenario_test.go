package main

import (
	"slices"
	"testing"
)

// What a scenario does to the masters is kept from a contestant that shows what it would be without.
func TestASparedContestantReachesTheMastersThemselves(t *testing.T) {
	c := &cluster{nodes: []string{"proxy", "refused"}}
	for _, addr := range []string{"one", "two"} {
		c.servers = append(c.servers, &server{addr: addr})
	}
	b := &bench{cluster: c}
	two := contestant{name: "two", nodes: 2}
	for _, of := range []struct {
		c    contestant
		want []string
	}{{two, []string{"proxy", "refused"}}, {healthy(two), []string{"one", "two"}}} {
		if got, err := b.nodesFor(of.c); err != nil || !slices.Equal(got, of.want) {
			t.Errorf("%s: got %v, %v; want %v", of.c.name, got, err, of.want)
		}
	}
	if _, err := b.nodesFor(contestant{nodes: 3}); err == nil {
		t.Error("three of two masters")
	}
}

// Names tell the rows of a scenario apart.
func TestScenariosAndTheirContestantsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]bool{}
	for _, sc := range scenarios {
		if seen[sc.name] {
			t.Errorf("two scenarios %q", sc.name)
		}
		seen[sc.name] = true
		rows := map[string]bool{}
		for _, c := range sc.contestants {
			if rows[c.name] {
				t.Errorf("%s: two contestants %q", sc.name, c.name)
			}
			rows[c.name] = true
		}
	}
}
