package simtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// settle is how long Lockers may need to be well again after the last fault. A connection that became a black hole
// while nothing was asked is noticed by the next probe, within 15 s; it is given up after four node timeouts of
// silence, one second at least; and there may be a pause before the next. In a crowd, others are answered meanwhile, so
// it is spared.
func (s *Scenario) settle() time.Duration {
	silence := max(time.Second, 4*s.slowest())
	if s.Crowd != nil {
		return 15*time.Second + 9*silence + 10*time.Second
	}
	return 15*time.Second + silence + 4*time.Second
}

// aftermath is run when all faults are mended and all workers have ended: it checks progress, cleanliness and the
// history. back is by how much the nodes' clocks were set in all, which keeps keys that much longer.
func (w *world) aftermath(back time.Duration) {
	time.Sleep(w.scenario.settle() + w.scenario.TTL + back)
	w.leftovers("one TTL after the last fault", "redlock:wa") // waiters, and watches, which live for 15 s
	time.Sleep(placeLives)
	w.leftovers("a while after the last fault", "")
	if len(w.steps) > 0 {
		time.Sleep(placeLives) // a minute in all: so long counts the list of a client that crashed
	}
	if w.crowd == nil && !w.scenario.Actions {
		w.trials()
	}
	for _, c := range w.clients {
		_ = c.locker.Load().Close()
	}
	w.leftovers("after Close, without faults", "")
	if w.crowd != nil {
		w.dispersed()
	}
	w.result.Violations = append(w.result.Violations,
		w.history.Check(sim.Assume{Clocks: w.scenario.Sound && !w.doubles(), Emptied: w.emptied, Excuse: w.strangers})...)
	w.admitted()
	w.checkRead()
	switch {
	case !w.scenario.Remembers() || w.doubles():
	case w.scenario.forgetsJobs():
		w.jobs.checkForgotten(w.scenario.DoneTTL, w.blame)
	default:
		w.jobs.check(w.blame)
	}
	runs, over := w.jobs.count()
	w.count("runs", runs)
	w.count("jobs over", over)
	w.count("holds", len(w.history.Holds()))
	w.close()
}

// trials are what clients are told to do when all is in order.
func (w *world) trials() {
	if w.lies() {
		w.besideLiar()
		return
	}
	for _, c := range w.clients {
		w.progress(c, "free", c.locker.Load().TryLock)
		w.quiet()
		w.progress(c, "free", c.locker.Load().TryRLock)
		w.quiet()
	}
	w.backedUp()
	w.limited()
	w.handedOn()
	w.late()
	w.contest()
	w.races()
	w.endsJobs()
	w.met()
	w.broken()
	w.expire(w.clients[0])
	// The last: Close is to wait for what it undoes.
	w.progress(w.clients[0], contested, w.clients[0].locker.Load().TryLock)
}

// backedUp: a backup of all masters is in nobody's way, once clients have seen it.
func (w *world) backedUp() {
	if w.scenario.Seed%4 != 0 {
		return
	}
	for _, n := range w.nodes {
		n.BackUp()
	}
	time.Sleep(16 * time.Second) // the next probe
	for _, c := range w.clients {
		w.progress(c, "free", c.locker.Load().TryLock)
		w.quiet()
	}
}

// admitted: each slot is exclusive, as the history's check has it, so k of them are k holders at most.
func (w *world) admitted() {
	slots := make(map[string]bool)
	for _, h := range w.history.Holds() {
		if strings.HasPrefix(h.Name, "redlock:permit:") {
			slots[h.Name] = true
		}
	}
	if most := w.scenario.Permits * w.scenario.Names; most > 0 && len(slots) > most {
		w.blame("exclusion", "%d slots for %d permits", len(slots), most)
	}
}

// quiet lets releases arrive: who unlocks waits for a majority of them alone, and where a node abstains the others all
// count.
func (w *world) quiet() {
	time.Sleep(2*w.scenario.Delay.SlowMax + 2*w.scenario.Delay.Max + time.Microsecond)
}

// contested is the name that all want at once.
const contested = "stock:4713"

// contest has everybody try the same name at the same time, so that votes split. Whatever the outcome, nothing may be
// left of it once all have returned: a failed attempt is undone before the next request of the same Locker is executed.
func (w *world) contest() {
	for range 5 {
		var wg sync.WaitGroup
		for i, c := range w.clients {
			try := c.locker.Load().TryLock
			switch {
			case i%2 == 1:
				try = func(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error) {
					return c.locker.Load().TryLockAll(ctx, []string{name, names[0]}, opts...)
				}
			case w.scenario.Habits.Part[RLock] > 0:
				try = c.locker.Load().TryRLock
			}
			wg.Go(func() {
				lock, err := try(context.Background(), contested)
				if err == nil {
					_ = lock.Unlock()
				}
			})
		}
		wg.Wait()
		w.quiet()
	}
}

// kept are the keys that stay on the nodes.
var kept = []string{
	"redlock:tokens", "redlock:node", "redlock:floor", "redlock:settings", "redlock:lists", "redlock:revoked",
}

// lasting are those of them that have no time to live.
var lasting = []string{"redlock:node", "redlock:floor"}

// placeLives is how long a node keeps the places of waiters that are gone, if nobody asks there.
const placeLives = 30 * time.Second

// leftovers: what nobody holds or waits for is not on the nodes, except for keys that begin with late, if that is not
// empty. What is kept goes by itself when all clients are gone.
func (w *world) leftovers(when, late string) {
	nodes := w.nodes
	if w.lies() {
		nodes, _ = w.others()
	}
	for _, v := range sim.Leftovers(nodes, func(key string) bool {
		return slices.Contains(kept, key) || strings.HasPrefix(key, "redlock:once:") ||
			strings.HasPrefix(key, "redlock:label:") || strings.HasPrefix(key, "redlock:clients:") ||
			late != "" && strings.HasPrefix(key, late)
	}) {
		w.blame(v.Invariant, "%s: %s", when, v.Text)
	}
	for _, n := range nodes {
		for _, key := range n.Keys() {
			lasts := slices.Contains(lasting, key) || key == "redlock:tokens" && w.abandoned(n)
			if !lasts && n.Do("PTTL", key) == int64(-1) {
				w.blame("clean", "%s: %s has %q for ever", when, n.Addr(), key)
			}
		}
	}
}

// abandoned reports whether a node is in no client's list any more. A fault may have come between the last call that
// has its tokens end and the last token: then nobody is left to see to it.
func (w *world) abandoned(n *sim.Node) bool {
	return len(w.scenario.Faults) > 0 && !slices.ContainsFunc(w.clients, func(c *client) bool {
		return slices.ContainsFunc(c.locker.Load().kind.lists, func(l []*sim.Node) bool { return slices.Contains(l, n) })
	})
}

// progress: a free name is acquired within one attempt of its only contender, when all nodes are in order.
func (w *world) progress(c *client, name string, try lockCall) {
	lock, err := try(context.Background(), name)
	if err != nil {
		w.blame("progress", "%s could not lock the free name %s after the faults: %v", c.name, name, err)
		return
	}
	if err := lock.Unlock(); err != nil {
		w.blame("progress", "%s could not unlock %s after the faults: %v", c.name, name, err)
	}
}
