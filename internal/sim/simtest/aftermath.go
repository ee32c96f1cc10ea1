package simtest

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// settle is how long Lockers may need to be connected again after the last fault: the longest pause between attempts to
// connect, and the longest attempt.
const settle = 5 * time.Second

// aftermath is run when all faults are mended and all workers have ended: it checks progress, cleanliness and the history.
// back is by how much the nodes' clocks were set in all, which keeps keys that much longer.
func (w *world) aftermath(back time.Duration) {
	if len(w.scenario.Faults) > 0 {
		time.Sleep(settle)
	}
	var alone sync.WaitGroup
	for i, c := range w.clients {
		alone.Go(func() {
			time.Sleep(time.Duration(i) * 37 * time.Microsecond)
			w.progress(c, "free:"+c.name)
		})
	}
	alone.Wait()
	for _, c := range w.clients {
		_ = c.locker.Close()
	}
	if len(w.scenario.Faults) > 0 {
		time.Sleep(w.scenario.TTL + back + time.Second)
	}
	w.result.Violations = append(w.result.Violations, sim.Leftovers(w.nodes, func(key string) bool { return strings.HasPrefix(key, "redlock:") })...)
	w.result.Violations = append(w.result.Violations, w.history.Check(sim.Assume{Clocks: w.scenario.Sound})...)
	w.result.Grants = len(w.history.Holds())
	for _, n := range w.nodes {
		w.result.Attempts = max(w.result.Attempts, n.Calls("evalsha")+n.Calls("eval"))
		n.Close()
	}
}

// progress: a free name is acquired within one attempt of its only contender, when all nodes are in order.
func (w *world) progress(c *client, name string) {
	lock, err := c.locker.TryLock(context.Background(), name)
	if err != nil {
		w.blame("progress", "%s could not lock the free name %s after the faults: %v", c.name, name, err)
		return
	}
	if err := lock.Unlock(context.Background()); err != nil {
		w.blame("progress", "%s could not unlock %s after the faults: %v", c.name, name, err)
	}
}
