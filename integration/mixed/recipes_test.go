package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// What recipes promise that a contest does not show, with a part for an old client and one for a new client, and then
// the other way round.
func TestOldAndNewShareEveryRecipe(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	clients := startAll(t, 3, command{Nodes: masters.URLs(f.Nodes)})
	for _, recipe := range []struct {
		name string
		// play is given the clients, one version and the other in turn, and a name that nobody has used.
		play func(t *testing.T, clients []*process, name string)
	}{
		{"tickets", handOn}, {"jobs", runOnce},
	} {
		for round := range 2 * fleet.Sized(1, 50) {
			from := round % 2
			t.Run(fmt.Sprintf("%s, %s first", recipe.name, versions[from]), func(t *testing.T) {
				recipe.play(t, clients[from:len(clients)-1+from], fmt.Sprint(recipe.name, round))
			})
		}
	}
	endAll(t, clients...)
	fleet.Eventually(t, "nothing is left but the runs of jobs", func() bool {
		return !slices.ContainsFunc(f.Leftovers(t), func(key string) bool { return !strings.Contains(key, " redlock:once:") })
	})
}

// handOn hands a hold from one client to the next, and the last one lets go.
func handOn(t *testing.T, clients []*process, name string) {
	t.Helper()
	a := clients[0].must(t, command{Do: lock, Name: name})
	p := clients[0]
	for _, q := range clients[1:] {
		adopts := command{Do: adopt, Ticket: p.must(t, command{Do: ticket, Of: a.ID}).Ticket}
		q.fails(t, command{Do: try, Name: name}, taken)
		b := q.must(t, adopts)
		p.fails(t, adopts, taken)
		if b.Token <= a.Token {
			fleet.Unsafe(t, "%s to %s: token %d after %d", p.version, q.version, b.Token, a.Token)
		}
		a, p = b, q
	}
	p.must(t, command{Do: release, Of: a.ID})
	if b := clients[0].must(t, command{Do: lock, Name: name, Brief: true}); b.Token <= a.Token {
		fleet.Unsafe(t, "token %d after %d", b.Token, a.Token)
	}
}

// runOnce lets all clients start a job at once, and then again, and one after the other a job that fails.
func runOnce(t *testing.T, clients []*process, name string) {
	t.Helper()
	c := command{Do: job, Name: name, Most: 3, Rest: 5 * time.Millisecond}
	ran := map[string]int{}
	var hears []<-chan answer
	for _, p := range clients {
		hears = append(hears, p.tell(c))
	}
	for i, p := range clients {
		a := p.hear(hears[i])
		ran[fmt.Sprint(a.Ran, a.Kind)]++
	}
	if ran["true"] != 1 || ran["false"+done] != len(clients)-1 {
		fleet.Unsafe(t, "a job that is to run once: %v", ran)
	}
	for _, p := range clients {
		p.fails(t, c, done)
	}

	c.Name, c.Fails = name+" that fails", true
	var last int64
	for i, p := range clients {
		a := p.ask(c)
		if want := i < c.Most; a.Ran != want || !want && a.Kind != exhausted || want && a.Token <= last {
			fleet.Unsafe(t, "%s client: run %d of %d: %+v after token %d", p.version, i+1, c.Most, a, last)
		}
		last = a.Token
	}
}

// A client whose list of nodes conflicts with that of clients at work is refused, whichever of them is old.
func TestAConflictingListIsRefusedWhicheverClientIsOld(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 4)
	urls := masters.URLs(f.Nodes)
	for i, v := range versions {
		t.Run(v+" first", func(t *testing.T) {
			first, second, third := start(t, v), start(t, versions[1-i]), start(t, versions[1-i])
			first.must(t, command{Do: open, Nodes: urls[:3]})
			c := command{Do: open, Nodes: urls[1:]}
			fleet.Eventually(t, "the newcomer is refused", func() bool {
				a := second.ask(c)
				c = command{Do: try, Name: "refused", Brief: true} // New did not wait for a node that was slow to connect
				return a.Kind == conflict
			})
			first.must(t, command{Do: lock, Name: "still", Brief: true})
			endAll(t, first, second)
			third.must(t, command{Do: open, Nodes: urls[1:]})
			third.must(t, command{Do: lock, Name: "now", Brief: true})
			endAll(t, third)
		})
	}
	f.WantClean(t)
}

// Clients with different restart guards find that out, the old one and the new one, once both have asked for a lock.
func TestDifferentSettingsAreFoundFromBothSides(t *testing.T) {
	for i, v := range versions {
		t.Run("no guard in the "+v+" client", func(t *testing.T) {
			t.Parallel()
			f := fleet.Start(t, 3)
			clients := []*process{start(t, v), start(t, versions[1-i])}
			for j, p := range clients {
				p.must(t, command{Do: open, Nodes: masters.URLs(f.Nodes), Guard: ttl * time.Duration(j)})
				p.must(t, command{Do: lock, Name: "a", Brief: true})
			}
			for _, p := range clients {
				fleet.Eventually(t, "the "+p.version+" client finds that settings differ", func() bool {
					return slices.Contains(p.must(t, command{Do: look}).Findings, "settings")
				})
			}
			endAll(t, clients...)
		})
	}
}
