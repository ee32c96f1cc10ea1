package simtest

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// A call may say that it has reached no majority only if fewer nodes than that could have answered it: not because
// another client has the lock, nor because others of its Locker wait.

// troubles are what faults have done to links, and until when that can be felt.
type troubles struct {
	mu  sync.Mutex // protects the field below, and what it contains
	all []*trouble
}

type trouble struct {
	link sim.Link
	over time.Time // zero: not yet
}

func (t *troubles) begin(l sim.Link) (over func()) {
	is := &trouble{link: l}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, is)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		is.over = time.Now()
	}
}

// spares reports whether nothing can be felt on a link that was over for so long by then.
func (t *troubles) spares(l sim.Link, by time.Time, lasts time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return !slices.ContainsFunc(t.all, func(is *trouble) bool {
		hits := (is.link.Client == "" || is.link.Client == l.Client) && (is.link.Node == "" || is.link.Node == l.Node)
		return hits && (is.over.IsZero() || is.over.Add(lasts).After(by))
	})
}

// roundTrip is how long a question may take on links that are in order.
func (w *world) roundTrip() time.Duration {
	d := w.scenario.Delay
	if d.Slow > 0 {
		return 2 * d.SlowMax
	}
	return 2 * d.Max
}

// reached judges a call that says that it has reached no majority.
func (w *worker) reached(verb string, asked time.Time, a *asking, err error) {
	enough := 4*w.roundTrip() + 2*time.Millisecond
	term, by := a.ttl, w.locker.Load()
	if a.limit > 0 {
		term = min(term, a.limit)
	}
	known := w.liar == nil && w.crowd == nil && w.scenario.Login == 0 // what was wrong
	if !known || time.Since(asked) < enough || asked.Sub(by.since) < enough+by.timeout || term/4 < enough {
		return
	}
	for _, list := range by.kind.lists {
		well := 0
		for _, n := range list {
			if w.troubles.spares(sim.Link{Client: w.name, Node: n.Addr()}, asked, w.scenario.settle()) {
				well++
			}
		}
		if well < len(list)/2+1 {
			return
		}
	}
	w.blame("out of reach", "%s: %s, begun at %v, says at %v that it has reached no majority, but nothing was wrong: %s",
		w.label, verb, since(asked), since(time.Now()), strings.ReplaceAll(err.Error(), "\n", " "))
}
