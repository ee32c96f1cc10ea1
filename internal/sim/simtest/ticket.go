package simtest

import (
	"context"
	"time"
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
	adopter := *w
	adopter.client = c
	a := adopter.ask(0, Adopt)
	a.names, a.waits = lock.names, lock.waits
	defer w.meetings.end(a.use)
	asked := time.Now()
	by := c.locker.Load()
	adopted, err := by.Adopt(context.Background(), text, a.opts...)
	w.bounded("Adopt", asked, by.timeout)
	if err != nil {
		w.log(w.label, "Adopt %s: %s", lock.Name(), kindOf(err))
		adopter.failed("Adopt", asked, a, err)
		return
	}
	w.adopted(lock.Owner())
	w.has("Adopt", wanted, held{Lock: adopted, of: by, kind: by.kind, asking: a})
}

// adopted notes that whoever adopted a hold may end it from now on.
func (w *world) adopted(owner string) {
	// Else the hold had ended before there was a ticket, and the nodes have yet to be told.
	if _, is := w.tickets.Load(owner); is {
		w.tickets.Store(owner, time.Time{})
	}
}
