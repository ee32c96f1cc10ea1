package simtest

import (
	"context"
	"time"

	"github.com/quorumlock/redlock"
)

// handOn ends a hold with a ticket, and has somebody go on with it, of the same client or of another; or nobody.
func (w *worker) handOn(wanted []string, lock held, hold holds) {
	if lock.Err() == nil {
		w.supported(lock, handedOver)
	}
	until := w.leaves(lock, hold, w.history.Releasing)
	text, err := lock.Ticket()
	handed := err == nil
	w.log(w.label, "Ticket %s token %d: %s", lock.Name(), lock.Token(), kindOf(lock.Err()))
	if handed {
		w.tickets.Store(lock.Owner(), until)
	}
	if err := lock.Unlock(); handed && err != nil {
		w.blame("honesty", "%s: Unlock after Ticket of token %d: %v", w.label, lock.Token(), err)
	}
	time.Sleep(scaled(w.scenario.TTL, w.apart, 1./100, 1./2))
	if handed && time.Now().Before(until) {
		w.supported(lock, notAdopted)
	}
	if w.apart.IntN(6) == 0 {
		return
	}
	c := w.client
	if w.apart.IntN(3) > 0 {
		c = w.clients[w.apart.IntN(len(w.clients))]
	}
	adopted, err := w.adopt(c, lock, text)
	if err == nil {
		w.has("Adopt", wanted, adopted, nil, false)
	}
}

// adopt goes on with a hold.
func (w *worker) adopt(c *client, lock held, text string) (held, error) {
	var opts []redlock.LockOption
	if w.apart.IntN(2) == 0 {
		opts = append(opts, redlock.WithoutRenewal())
	}
	asked := time.Now()
	by := c.locker.Load()
	adopted, err := by.Adopt(context.Background(), text, opts...)
	w.bounded("Adopt", asked, w.scenario.Timeout)
	if err != nil {
		w.log(w.label, "Adopt %s: %s", lock.Name(), kindOf(err))
		return held{}, err
	}
	w.adopted(lock.Owner())
	return held{Lock: adopted, of: by, kind: by.kind}, nil
}

// adopted notes that whoever adopted a hold may end it from now on.
func (w *world) adopted(owner string) {
	// Else the hold had ended before there was a ticket, and the nodes have yet to be told.
	if _, is := w.tickets.Load(owner); is {
		w.tickets.Store(owner, time.Time{})
	}
}
