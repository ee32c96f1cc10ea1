package main

import (
	"slices"
	"testing"
)

// What a scenario does to the masters is kept from a contestant that shows what it would be without.
func TestASparedContestantReachesMastersThatAreWell(t *testing.T) {
	b := &bench{cluster: &cluster{nodes: []string{"late", "refused"}, well: []string{"in time", "two"}}}
	two := contestant{name: "two", nodes: 2}
	for _, of := range []struct {
		c    contestant
		want []string
	}{{two, []string{"late", "refused"}}, {healthy(two), []string{"in time", "two"}}} {
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
