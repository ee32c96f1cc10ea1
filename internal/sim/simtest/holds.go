package simtest

import (
	"context"
	"errors"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// holds are what one lock is in the history: a hold of each of its names, so that each is judged by itself.
type holds []*sim.Hold

func (w *worker) granted(wanted []string, lock held) (all holds) {
	start, until := startOf(lock), lock.Deadline()
	if lock.said != nil {
		start = lock.said.set // an extension has brought the value
	}
	switch {
	case lock.reads:
		w.count("holds to read", 1)
		return holds{w.history.GrantedToRead(wanted[0], w.label, start, until)}
	case len(wanted) > 1:
		w.count("holds of several", 1)
	}
	if fenced := lock.Token() != 0; fenced == lock.unfenced {
		w.blame("honesty", "%s: a hold has the token %d, asked for without one: %t", w.label, lock.Token(), lock.unfenced)
	}
	w.holdsFrom(wanted, lock)
	for _, name := range wanted {
		all = append(all, w.history.Granted(name, w.label, lock.Token(), start, until))
	}
	return all
}

func (all holds) each(record func(*sim.Hold)) {
	for _, h := range all {
		record(h)
	}
}

// watch records the end of the hold at the instant at which the holder is told.
func (w *worker) watch(lock held, hold holds) {
	<-lock.Done()
	err := lock.Err()
	if errors.Is(err, redlock.ErrUnlocked) {
		return // end has recorded it, or handOn
	}
	if errors.Is(err, redlock.ErrClosed) {
		lock.of.cut.Store(true)
		w.cuts(w.label, lock.of)
	}
	w.revokedOwner(lock, w.label)
	until := w.leaves(lock, hold, w.history.Done)
	if !time.Now().Before(until) { // else a majority said that they had it no more
		w.supported(lock, ended)
	} else {
		w.endedByMany(lock)
	}
	w.log(w.label, "told of the end of %s token %d: %s", lock.Name(), lock.Token(), kindOf(err))
}

// leaves records that the holder does not trust the hold any more, and until when it has been valid.
func (w *worker) leaves(lock held, hold holds, how func(*sim.Hold)) (until time.Time) {
	until = lock.Deadline()
	hold.each(func(h *sim.Hold) { w.history.Renewed(h, until) })
	hold.each(how)
	return until
}

// bounded judges how long a call has taken.
func (w *worker) bounded(what string, asked time.Time, limit time.Duration) {
	if took := time.Since(asked); took > limit+time.Millisecond {
		w.blame("bounded", "%s: %s took %v, want %v at most", w.label, what, took, limit)
	}
}

// startOf returns when the winning attempt was begun: the end of validity is counted from there. It is earlier than
// that where the hold has a limit, which ends it before.
func startOf(lock held) time.Time { return lock.Deadline().Add(-lock.validity()) }

// workOn goes on with the work of a hold that has ended at its maximum, as work does that was told of it a moment ago.
// It may do so for longer than the hold is kept for it.
func (w *worker) workOn(lock held, hold holds) {
	if lock.limit == 0 || !errors.Is(lock.Err(), redlock.ErrMaxHold) {
		return
	}
	until := lock.valid
	time.Sleep(scaled(w.scenario.TTL, w.apart, 1./100, 1))
	if time.Now().Before(until) {
		until = time.Now()
		w.supported(lock, workedOn)
	}
	hold.each(func(h *sim.Hold) { w.history.WorkedOn(h, until) })
	w.count("works beyond their maximum", 1)
	w.log(w.label, "works on after the maximum of %s token %d", lock.Name(), lock.Token())
}

// lasts waits for so long, unless something ends before, and reports whether it has lasted.
func lasts(d time.Duration, ended <-chan struct{}) bool {
	stay := time.NewTimer(d)
	defer stay.Stop()
	select {
	case <-ended:
		return false
	case <-stay.C:
		return true
	}
}

// keep holds the lock for a while, now and then extending it, or until it is lost.
func (w *worker) keep(lock held, hold holds) {
	if w.minded(w.scenario.Habits.Long) {
		w.keepOn(lock, hold)
		return
	}
	mean, extend := float64(w.scenario.Habits.Stay), w.scenario.Habits.Part[Extend]
	if w.inclined(w.scenario.Habits.Last) { // most that can go wrong goes wrong in the end
		mean, extend = 6*float64(w.scenario.TTL), 0
	}
	ended := lock.Done()
	if w.minded(w.scenario.Habits.Part[Wanted]) {
		w.meetings.does(lock.use, Wanted)
		ended = lock.Wanted()
		defer w.givesWay(lock, ended)
	}
	for range 1 + w.r.IntN(4) {
		stay := min(time.Duration(w.r.ExpFloat64()*mean), 4*w.scenario.TTL) + time.Duration(w.r.IntN(1000))
		if !lasts(stay, ended) {
			return
		}
		if w.inclined(extend) {
			w.extend(lock, hold)
		}
		w.setValue(lock)
	}
}

// awaits notes that so many more calls wait for each of the names, and returns how many have waited for them so far.
func (w *world) awaits(names []string, more int) (all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		w.waited[name] += more
		all += w.waited[name]
	}
	return all
}

// givesWay judges that a hold that is wanted is so by somebody: another call has waited for one of its names.
func (w *worker) givesWay(lock held, wanted <-chan struct{}) {
	if lasts(0, wanted) || lock.Err() != nil {
		return
	}
	w.count("gave way", 1)
	w.log(w.label, "%s token %d is wanted", lock.Name(), lock.Token())
	own := lock.waits * len(lock.names)
	if w.awaits(lock.names, 0) == own && (w.liar == nil || own == 0) { // an honest node may have the holder in its queue
		w.blame("honesty", "%s: %s token %d is wanted, and nobody has waited for it", w.label, lock.Name(), lock.Token())
	}
}

// keepOn holds the lock for several TTLs, extending it all the time.
func (w *worker) keepOn(lock held, hold holds) {
	for end := time.Now().Add(scaled(w.scenario.TTL, w.apart, 2, 16)); time.Now().Before(end); {
		if !lasts(scaled(w.scenario.TTL, w.apart, 1./4, 2./3), lock.Done()) {
			return
		}
		w.extend(lock, hold)
		w.setValue(lock)
	}
}

func (w *worker) extend(lock held, hold holds) {
	w.meetings.does(lock.use, Extend)
	asked := time.Now()
	err := lock.Extend(context.Background())
	// Until is not told: a renewal that was answered at the same instant may or may not have moved it further.
	w.log(w.label, "Extend %s token %d: %s", lock.Name(), lock.Token(), kindOf(err))
	if err == nil {
		lock.outlasts(asked)
		hold.each(func(h *sim.Hold) { w.history.Extended(h, lock.Deadline()) })
	}
}

func (w *worker) end(lock held, hold holds) {
	if lock.Err() == nil {
		w.supported(lock, givenBack)
	}
	until := w.leaves(lock, hold, w.history.Releasing)
	asked := time.Now()
	err := lock.Unlock()
	hold.each(func(h *sim.Hold) { w.history.Unlocked(h, asked, err) })
	w.log(w.label, "Unlock %s token %d: %s", lock.Name(), lock.Token(), kindOf(err))
	w.bounded("Unlock", asked, lock.of.timeout)
	if lock.Deadline().Before(until) {
		w.blame("honesty", "%s: Unlock of token %d has moved the end of the hold from %v to %v",
			w.label, lock.Token(), since(until), since(lock.Deadline()))
	}
	if lock.Err() == nil {
		w.blame("honesty", "%s: Err is nil after Unlock of token %d", w.label, lock.Token())
	}
}
