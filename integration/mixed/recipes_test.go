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

// What each recipe promises, with a part for an old client and one for a new client, and then the other way round.
func TestOldAndNewShareEveryRecipe(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	clients := startAll(t, 3, command{Nodes: masters.URLs(f.Nodes)})
	for _, recipe := range []struct {
		name string
		// play is given the clients, one version and the other in turn, and a name that nobody has used.
		play func(t *testing.T, clients []*process, name string)
	}{
		{"queue", waitInOrder}, {"readers", readTogether}, {"permits", sharePermits}, {"tickets", handOn}, {"jobs", runOnce},
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

// waitInOrder lets clients wait one after the other, a few times. They get the lock in the order of their owners; that
// of their calls may differ, by as much as their estimates of the nodes' time do. After a split vote one may overtake
// another (docs/safety.md), which happens on a busy machine, but not always.
func waitInOrder(t *testing.T, clients []*process, name string) {
	t.Helper()
	for i := range 5 {
		if inOrder(t, clients, fmt.Sprint(name, " ", i)) {
			return
		}
	}
	t.Error("waiters never got the lock in the order in which they came")
}

// inOrder lets clients wait one after the other, and reports whether they got the lock in the order of their owners.
func inOrder(t *testing.T, clients []*process, name string) bool {
	t.Helper()
	c := command{Do: lock, Name: name}
	at, before := 0, clients[0].must(t, c)
	hears := make([]<-chan answer, len(clients))
	for i, p := range clients[1:] {
		hears[i+1] = p.tell(c)
		awaitQueue(t, p, name, i+1)
	}
	var owners []string
	for left := len(clients) - 2; left >= 0; left-- {
		ended := clients[at].must(t, command{Do: release, Of: before.ID}).Ended
		fleet.Eventually(t, "a waiter has the lock", func() bool {
			at = slices.IndexFunc(hears, func(hear <-chan answer) bool { return len(hear) > 0 })
			return at >= 0
		})
		a := clients[at].succeeds(t, c, hears[at])
		if a.Granted < ended || a.Token <= before.Token {
			fleet.Unsafe(t, "%s client: %+v after %+v, which ended at %v", clients[at].version, a, before, ended)
		}
		awaitQueue(t, clients[at], name, left)
		before, owners = a, append(owners, a.Owner)
	}
	clients[at].must(t, command{Do: release, Of: before.ID})
	return slices.IsSorted(owners)
}

// awaitQueue waits until a majority knows of so many waiters. Another node may be free, and a waiter have its vote.
func awaitQueue(t *testing.T, p *process, name string, waiters int) {
	t.Helper()
	fleet.Eventually(t, fmt.Sprint("the queue has ", waiters), func() bool {
		return p.must(t, command{Do: queue, Name: name}).Count == waiters
	})
}

// readTogether lets readers of both versions in beside each other, and no writer beside them.
func readTogether(t *testing.T, clients []*process, name string) {
	t.Helper()
	reads, writes := command{Do: read, Name: name}, command{Do: lock, Name: name}
	readers := []answer{clients[0].must(t, reads), clients[1].must(t, reads)}
	for _, p := range clients {
		p.fails(t, command{Do: try, Name: name}, taken)
	}
	for _, p := range clients[2:4] { // writers, who let nobody in before them
		written := p.tell(writes)
		awaitQueue(t, p, name, 1)
		for i, q := range clients[:2] {
			q.fails(t, command{Do: tryRead, Name: name}, taken)
			q.must(t, command{Do: release, Of: readers[i].ID})
		}
		a := p.succeeds(t, writes, written)
		var hears []<-chan answer
		for _, q := range clients[:2] {
			q.fails(t, command{Do: tryRead, Name: name}, taken)
			hears = append(hears, q.tell(reads))
		}
		p.must(t, command{Do: release, Of: a.ID})
		for i, q := range clients[:2] { // both, before any lets go
			readers[i] = q.succeeds(t, reads, hears[i])
		}
	}
	for i, q := range clients[:2] {
		q.must(t, command{Do: release, Of: readers[i].ID})
	}
}

// sharePermits lets one client of each version have a permit, and the others wait for the next.
func sharePermits(t *testing.T, clients []*process, name string) {
	t.Helper()
	takes := command{Do: tryPermit, Name: name, Most: permits}
	waits := command{Do: permit, Name: name, Most: permits, Brief: true} // each waits for one of the two
	holds := []answer{clients[0].must(t, takes), clients[1].must(t, takes)}
	hears := make([]<-chan answer, len(clients))
	for i, p := range clients[2:] {
		p.fails(t, takes, taken)
		hears[i+2] = p.tell(waits)
	}
	for i, p := range clients {
		if i < permits {
			p.must(t, command{Do: release, Of: holds[i].ID})
		} else {
			p.succeeds(t, waits, hears[i])
		}
	}
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
