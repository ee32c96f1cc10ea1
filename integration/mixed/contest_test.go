package main

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/integration/tokens"
	"github.com/quorumlock/redlock/internal/cases"
)

const permits = 2

// works are what each client does, over and over.
var works = []command{
	{Do: lock, Name: "a"},
	{Do: lock, Name: "b"},
	{Do: read, Name: "book"},
	{Do: lock, Name: "book"},
	{Do: permit, Name: "gpu", Most: permits},
}

type turn struct {
	tokens.Hold
	version string
}

type contest struct {
	over    atomic.Bool
	workers sync.WaitGroup

	mu     sync.Mutex // guards what follows
	turns  []turn
	counts []int // how many turns each client has had of each work lately
	failed []string
	ended  map[string]int // how many holds ended otherwise than by a release
}

func contend(t *testing.T, clients ...*process) *contest {
	t.Helper()
	x := &contest{counts: make([]int, len(clients)*len(works)), ended: map[string]int{}}
	for i, p := range clients {
		for j, w := range works {
			x.workers.Go(func() {
				for !x.over.Load() {
					w.Brief, w.Rest = true, rand.N(3*time.Millisecond)
					x.note(p, w, p.ask(w), i*len(works)+j)
					time.Sleep(rand.N(8 * time.Millisecond))
				}
			})
		}
	}
	t.Cleanup(x.stop)
	return x
}

func (x *contest) stop() {
	x.over.Store(true)
	x.workers.Wait()
}

func (x *contest) note(p *process, w command, a answer, worker int) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if a.Kind != "" {
		x.ended[a.Kind]++
	}
	if a.Kind == other || a.Ended == 0 {
		x.over.Store(true)
		x.failed = append(x.failed, fmt.Sprintf("%s client: %s %q: %s: %s", p.version, w.Do, w.Name, a.Kind, a.Error))
		return
	}
	x.counts[worker]++
	x.turns = append(x.turns, turn{tokens.Hold{
		Name: a.Name, Reads: w.Do == read, Token: a.Token, Asked: a.Asked, Granted: a.Granted, Ended: a.Ended,
	}, p.version})
}

// await waits until each client has had so many more turns of each work.
func (x *contest) await(t *testing.T, turns int) {
	t.Helper()
	x.mu.Lock()
	clear(x.counts)
	x.mu.Unlock()
	if !fleet.Soon(func() bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return len(x.failed) > 0 || slices.Min(x.counts) >= turns
	}) {
		t.Fatalf("each client, one old and one new in turn, is to have %d turns of each of its works, and has had %v",
			turns, slices.Collect(slices.Chunk(x.counts, len(works))))
	}
}

func (x *contest) end(t *testing.T) {
	t.Helper()
	x.stop()
	if len(x.failed) > 0 {
		t.Fatalf("%d failed, such as %s", len(x.failed), x.failed[0])
	}
	slices.SortFunc(x.turns, func(a, b turn) int { return cmp.Compare(a.Granted, b.Granted) })
	var holds []tokens.Hold
	counts, handed, last, slots, overtaken := map[string]int{}, map[string]int{}, map[string]turn{}, map[string]bool{}, 0
	shared, read := 0, time.Duration(0) // holds to read beside another, and until when there is one
	for i, h := range x.turns {
		holds = append(holds, h.Hold)
		counts[h.version]++
		if !slices.ContainsFunc(works, func(w command) bool { return w.Name == h.Name }) {
			slots[h.Name] = true // of the semaphore, which has a queue for each
			continue
		}
		if h.Reads {
			if h.Granted < read {
				shared++
			}
			read = max(read, h.Ended)
			continue
		}
		if before, ok := last[h.Name]; ok && h.Asked < before.Ended {
			handed[before.version+" to "+h.version]++
		}
		last[h.Name] = h
		by := 0 // those who asked later, and got it sooner
		for j := i - 1; j >= 0 && x.turns[j].Granted > h.Asked; j-- {
			if g := x.turns[j]; g.Name == h.Name && !g.Reads && g.Asked > h.Asked {
				by++
			}
		}
		overtaken = max(overtaken, by)
	}
	v := tokens.Judge(holds, true)
	t.Logf("holds by version: %v; handed to one who waited: %v; overtaken by %d at most; read beside each other: %d; "+
		"ended otherwise: %v; %v", counts, handed, overtaken, shared, x.ended, v)
	if len(v.Broken) > 0 || len(slots) > permits {
		fleet.Unsafe(t, "holds are not in order, or of %d permits there were %d: %v", permits, len(slots), v)
	}
	if handed["old to new"] == 0 || handed["new to old"] == 0 || shared == 0 {
		t.Error("old clients, new ones or readers were never beside each other: this proves nothing")
	}
}

// Old and new clients want the same names, while one master after the other comes back empty.
func TestOldAndNewExcludeEachOtherAndTakeTurns(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 5, masters.Spec{})
	clients := startAll(t, fleet.Sized(3, 6), command{Nodes: masters.URLs(f.Nodes), Guard: ttl})
	began, restarts := time.Now(), 1
	for x := contend(t, clients...); ; restarts++ {
		x.await(t, 5)
		cases.NoError(t, f.Nodes[rand.IntN(len(f.Nodes))].Restart())
		x.await(t, 5)
		if time.Since(began) > fleet.Sized(0, 10*time.Minute) {
			x.end(t)
			break
		}
		wantHealthy(t, clients, len(f.Nodes)) // before the next one may forget
	}
	t.Logf("%d restarts of a master in %v", restarts, time.Since(began).Round(time.Second))
	endAll(t, clients...)
	f.WantClean(t)
}

// While nodes are changed, clients with both lists are old, and those with one are new, or the other way round.
func TestOldAndNewExcludeEachOtherWhileNodesAreChanged(t *testing.T) {
	for i, both := range versions {
		t.Run(both+" clients have both lists", func(t *testing.T) {
			t.Parallel()
			f := fleet.Start(t, 4)
			urls := masters.URLs(f.Nodes)
			from, to := urls[:3], urls[1:]
			open := func(version string, nodes, to []string) *process {
				p := start(t, version)
				p.must(t, command{Do: open, Nodes: nodes, To: to})
				return p
			}
			p, q := open(both, from, to), open(both, from, to)
			for _, list := range [][]string{from, to} {
				r, s := open(versions[1-i], list, nil), open(versions[1-i], list, nil)
				x := contend(t, p, q, r, s)
				x.await(t, fleet.Sized(5, 200))
				x.end(t)
				endAll(t, r, s)
			}
			endAll(t, p, q)
			f.WantClean(t)
		})
	}
}
