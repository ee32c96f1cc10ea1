package simtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// client is one Locker, used by several workers.
type client struct {
	*world
	name   string
	locker atomic.Pointer[redlock.Locker] // replaced when the client is restarted
}

// restart closes the client's Locker under whatever the workers are doing with it, and makes another one: a process that was
// deployed anew. The new one knows nothing, and may at first reach other nodes than the old one did.
func (w *worker) restart() {
	w.log(w.label, "restarts its client")
	old := w.locker.Swap(w.connect(w.name))
	_ = old.Close()
	w.log(w.label, "has restarted its client")
}

// worker locks and unlocks until the end.
type worker struct {
	*client
	label string
	r     *rand.Rand
}

func (w *worker) run(end time.Time) {
	for {
		w.rest(0, w.scenario.TTL/8)
		switch {
		case time.Now().After(end):
			return
		case w.r.IntN(40) == 0:
			w.restart()
		default:
			w.once()
		}
	}
}

// rest sleeps for a random time. Its nanoseconds keep the events of workers apart.
func (w *worker) rest(shortest, longest time.Duration) {
	time.Sleep(shortest + time.Duration(w.r.Int64N(int64(longest-shortest))) + 1)
}

// once makes one attempt at one lock and, if it succeeds, holds it for a while.
func (w *worker) once() {
	name := names[w.r.IntN(w.scenario.Names)]
	opts := []redlock.Option{redlock.WithBackoff(w.backoff)}
	if w.r.IntN(2) == 0 {
		opts = append(opts, redlock.WithoutRenewal())
	}
	ctx, cancel := context.Background(), func() {}
	if patience := w.r.IntN(4); patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+w.r.Int64N(int64(w.scenario.TTL)<<patience>>2)))
	}
	defer cancel()
	locker := w.locker.Load()
	acquire, verb := locker.Lock, "Lock"
	if w.r.IntN(2) == 0 {
		acquire, verb = locker.TryLock, "TryLock"
	}
	asked := time.Now()
	lock, err := acquire(ctx, name, opts...)
	w.result.Calls.Add(1)
	took := time.Since(asked)
	if err != nil {
		w.log(w.label, "%s %s: %s", verb, name, kindOf(err))
		if verb == "TryLock" && took > w.scenario.Timeout+time.Millisecond {
			w.blame("bounded", "%s: TryLock took %v, the node timeout is %v", w.label, took, w.scenario.Timeout)
		}
		return
	}
	hold := w.history.Granted(name, w.label, lock.Token(), startOf(lock, w.scenario.TTL), lock.Until())
	w.log(w.label, "%s %s: token %d until %v", verb, name, lock.Token(), since(lock.Until()))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(lock, hold)
	}()
	w.keep(lock, hold)
	w.end(lock, hold)
	<-watched
}

// watch records the end of the hold at the instant at which the holder is told.
func (w *worker) watch(lock *redlock.Lock, hold *sim.Hold) {
	<-lock.Done()
	err := lock.Err()
	if errors.Is(err, redlock.ErrUnlocked) {
		return // end has recorded it
	}
	w.history.Renewed(hold, lock.Until())
	w.history.Done(hold)
	w.log(w.label, "told of the end of %s token %d: %s", lock.Name(), lock.Token(), kindOf(err))
}

// backoff is redlock.Jitter with the worker's own randomness, which can be replayed, and in the scale of the scenario.
func (w *worker) backoff(attempts int) time.Duration {
	longest := min(w.scenario.TTL/4, 2*time.Millisecond<<min(attempts, 6))
	return time.Millisecond + time.Duration(w.r.Int64N(int64(longest)))
}

// startOf returns when the winning attempt was begun: the end of validity is counted from there.
func startOf(lock *redlock.Lock, ttl time.Duration) time.Time {
	ttl = ttl.Truncate(time.Millisecond)
	return lock.Until().Add(-ttl + ttl/100 + 2*time.Millisecond)
}

// keep holds the lock for a while, now and then extending it, or until it is lost.
func (w *worker) keep(lock *redlock.Lock, hold *sim.Hold) {
	mean, extend := float64(w.scenario.TTL)/3, true
	switch w.r.IntN(3) {
	case 0: // to the end of its validity, or of what renewal makes of it: most that can go wrong goes wrong there
		mean, extend = 20*mean, false
	case 1:
		mean /= 5
	}
	for range 1 + w.r.IntN(4) {
		stay := time.NewTimer(min(time.Duration(w.r.ExpFloat64()*mean), 4*w.scenario.TTL) + time.Duration(w.r.IntN(1000)))
		select {
		case <-lock.Done():
			stay.Stop()
			return
		case <-stay.C:
		}
		if !extend || w.r.IntN(3) == 0 {
			continue
		}
		err := lock.Extend(context.Background())
		// Until is not told: a renewal that was answered at the same instant may or may not have moved it further.
		w.log(w.label, "Extend %s token %d: %s", lock.Name(), lock.Token(), kindOf(err))
		if err == nil {
			w.history.Extended(hold, lock.Until())
		}
	}
}

// end lets go.
func (w *worker) end(lock *redlock.Lock, hold *sim.Hold) {
	if lock.Err() == nil {
		w.history.Renewed(hold, lock.Until())
	}
	w.history.Releasing(hold)
	asked := time.Now()
	err := lock.Unlock(context.Background())
	w.history.Unlocked(hold, asked, err)
	w.log(w.label, "Unlock %s token %d: %s", lock.Name(), lock.Token(), kindOf(err))
	if took := time.Since(asked); took > w.scenario.Timeout+time.Millisecond {
		w.blame("bounded", "%s: Unlock took %v, the node timeout is %v", w.label, took, w.scenario.Timeout)
	}
	if lock.Err() == nil {
		w.blame("honesty", "%s: Err is nil after Unlock of token %d", w.label, lock.Token())
	}
}

// kindOf names an error without what differs between replays, such as owners.
func kindOf(err error) string {
	if err == nil {
		return "ok"
	}
	var kinds []string
	for _, k := range []struct {
		err  error
		name string
	}{
		{redlock.ErrTaken, "taken"},
		{redlock.ErrNoQuorum, "no quorum"},
		{redlock.ErrLost, "lost"},
		{redlock.ErrUnlocked, "unlocked"},
		{redlock.ErrClosed, "closed"},
		{context.DeadlineExceeded, "deadline"},
		{context.Canceled, "cancelled"},
	} {
		if errors.Is(err, k.err) {
			kinds = append(kinds, k.name)
		}
	}
	if kinds == nil {
		return "unexpected: " + err.Error()
	}
	return strings.Join(kinds, ",")
}
