package migration_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/integration/tokens"
)

// step moves clients to other lists, one after the other.
type step struct {
	to     lists
	half   bool // the others keep theirs
	breaks int  // when it is done, the master of this number is restarted and a client killed; -1: no
}

// Clients are restarted with other lists, one by one, while all of them lock the same names.
func TestClientsAreMovedToOtherMastersUnderLoad(t *testing.T) {
	five, replaced := []int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 5}
	three, others := []int{0, 1, 2}, []int{3, 4, 5}
	for _, c := range []struct {
		name    string
		clients int
		first   lists
		steps   []step
	}{
		{"one of five is replaced", fleet.Sized(8, 20), only(five), []step{
			{to: during(five, replaced), breaks: 2},
			{to: only(replaced), breaks: -1},
		}},
		{"taken back half-way", fleet.Sized(8, 20), only(five), []step{
			{to: during(five, replaced), half: true, breaks: 5},
			{to: only(five), half: true, breaks: -1},
		}},
		{"three to five to three", 6, only(three), []step{
			{to: during(three, five), breaks: 0},
			{to: only(five), breaks: -1},
			{to: during(five, three), breaks: -1},
			{to: only(three), breaks: -1},
		}},
		{"all three are replaced", 6, only(three), []step{
			{to: during(three, others), breaks: 4},
			{to: only(others), breaks: -1},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			fleet.ParallelUnlessJudged(t)
			fleet.Measure(t, func(m *fleet.Measurement) {
				d := deploy(t, c.clients, c.first)
				for _, s := range c.steps {
					began := now()
					for i := range d.clients {
						if !s.half || i < len(d.clients)/2 {
							d.move(t, i, s.to)
							d.wantCounted(t)
						}
					}
					if s.breaks >= 0 {
						d.breakSome(t, d.fleet.Nodes[s.breaks])
					}
					fleet.Eventually(t, "clients with the new lists have acquired each name but the one that is kept",
						func() bool { return d.all.since(s.to, began) == len(turnNames) })
				}
				d.end(m)
			})
		})
	}
}

// deployment is clients at work.
type deployment struct {
	fleet   fleet.Fleet
	clients []*process
	all     *history
	began   time.Duration // the load: the first client has acquired
	moves   int
	killed  int // holds of clients that were killed
	kills   int // clients that were killed
}

// deploy starts the clients, and returns when all have acquired. The last one keeps a name for as long as it lives.
func deploy(t *testing.T, clients int, l lists) *deployment {
	t.Helper()
	d := &deployment{fleet: fleet.StartSpec(t, 6, masters.Spec{}), all: newHistory()}
	t.Cleanup(func() { d.all.complain(t) }) // where the test did not come to its end
	d.clients = make([]*process, clients)
	for i := range d.clients {
		d.start(t, i, l)
	}
	fleet.Eventually(t, "all clients have acquired", func() bool {
		return !slices.ContainsFunc(d.clients, func(p *process) bool { return !p.serves() })
	})
	d.began = now()
	d.wantCounted(t)
	return d
}

func (d *deployment) start(t *testing.T, i int, l lists) {
	t.Helper()
	d.clients[i] = startClient(t, d.fleet, l, job{Lasting: i%4 == 0, Keeps: i == len(d.clients)-1}, d.all)
}

// move restarts a client with other lists. It returns when the client has acquired, and after the start of the move a
// client of each kind that is out. So each of them serves between any two moves.
func (d *deployment) move(t *testing.T, i int, l lists) {
	t.Helper()
	d.clients[i].stop(t)
	began := now()
	d.start(t, i, l)
	d.moves++
	d.awaitAll(t, began, d.clients[i])
}

func (d *deployment) awaitAll(t *testing.T, began time.Duration, newcomer *process) {
	t.Helper()
	fleet.Eventually(t, "the new client has acquired", newcomer.serves)
	for _, p := range d.clients {
		fleet.Eventually(t, "a client with "+p.lists.String()+" has acquired",
			func() bool { return d.all.since(p.lists, began) > 0 })
	}
}

// breakSome kills a client that holds, which is replaced, and restarts a master that forgets everything.
func (d *deployment) breakSome(t *testing.T, n *masters.Node) {
	t.Helper()
	victim := -1
	fleet.Eventually(t, "a client has a hold that lasts", func() bool {
		// Not the one that keeps a name.
		victim = slices.IndexFunc(d.clients[:len(d.clients)-1], (*process).holdsLong)
		return victim >= 0
	})
	l := d.clients[victim].lists
	d.killed += d.clients[victim].kill(t)
	d.kills++
	began := now()
	fleet.Must(t, n.Restart())
	d.start(t, victim, l)
	d.awaitAll(t, began, d.clients[victim])
}

// end stops all clients and judges.
func (d *deployment) end(m *fleet.Measurement) {
	m.Helper()
	t, ended := m.T, now()
	var stopping sync.WaitGroup
	for _, p := range d.clients {
		stopping.Go(func() { p.stop(t) })
	}
	stopping.Wait()
	stopped := time.Now()
	d.fleet.WantClean(t) // what a killed client left has a TTL
	clean := time.Since(stopped)

	all := d.all
	gap := longestGap(all.holds, d.began, ended)
	v := tokens.Judge(all.holds)
	var counts []string
	for kind, n := range all.counts {
		counts = append(counts, fmt.Sprintf("%d by clients with %s", n, kind))
	}
	slices.Sort(counts)
	t.Logf("%d clients, %d moves in %v; acquisitions: %s; %d holds of a killed client, %d lost, "+
		"%d unlocks without a majority; clean %v after the end; %v",
		len(d.clients), d.moves, (ended - d.began).Round(time.Millisecond), strings.Join(counts, ", "), d.killed,
		len(all.mishaps[lost]), all.unanswered, clean.Round(time.Millisecond), v)
	if v.Violations() > 0 {
		fleet.Unsafe(t, "holds are not in order: %v", v)
	}
	all.complain(t)
	m.Bound(gap <= time.Second, "nobody acquired anything for %v at the longest, want at most a second",
		gap.Round(time.Millisecond))
}

// longestGap returns for how long nobody acquired any name between two times.
func longestGap(holds []tokens.Hold, from, to time.Duration) (longest time.Duration) {
	var at []time.Duration
	for _, h := range holds {
		if h.Granted > from && h.Granted < to {
			at = append(at, h.Granted)
		}
	}
	slices.Sort(at)
	for _, granted := range append(at, to) {
		longest, from = max(longest, granted-from), granted
	}
	return longest
}

func TestTheLongestGap(t *testing.T) {
	grants := func(at ...time.Duration) (holds []tokens.Hold) {
		for _, granted := range at {
			holds = append(holds, tokens.Hold{Granted: granted})
		}
		return holds
	}
	for _, c := range []struct {
		holds []tokens.Hold
		want  time.Duration
	}{
		{nil, 10},
		{grants(16, 12, 11), 4},
		{grants(13, 17, 19), 4},
		{grants(17), 7},
		{grants(5, 18, 25), 8}, // only what was granted in between counts
	} {
		if got := longestGap(c.holds, 10, 20); got != c.want {
			t.Errorf("%+v: got %d, want %d", c.holds, got, c.want)
		}
	}
}
