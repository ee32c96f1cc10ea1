package redlock

import (
	"context"
	"time"
)

// wait tries, and then waits, one for each slot at a time; the others of this process stand in line.
func (s *Semaphore) wait(ctx context.Context, a *acquisition) (*hold, error) {
	if a.opts.maxAttempts == 1 {
		h, _, err := s.try(ctx, a)
		return h, err
	}
	l := s.locker
	if ended := l.takeTurn(ctx, s.turns); ended != nil {
		return nil, waitEnded(l.behindOthers("acquire", s.name), ended)
	}
	defer s.turns.Release(1)
	h, seen, err := s.try(ctx, a)
	if err == nil {
		return h, nil
	}
	if ended := l.ended(ctx); ended != nil {
		return nil, waitEnded(err, ended)
	}
	return s.queue(ctx, a, seen, err)
}

// queue stands in the queue of one slot after the other until it holds one. The place in each goes by when the
// wait began, so a move costs no turn.
func (s *Semaphore) queue(ctx context.Context, a *acquisition, seen *survey, last error) (*hold, error) {
	defer func() { s.contended(a.opts.clock.local()) }()
	for at := s.shortest(seen, nowhereYet); ; at = s.shortest(seen, at) {
		var h *hold
		var err error
		if h, seen, err = s.waitOn(ctx, at, a, last); h != nil || seen == nil {
			return h, err
		}
		if ended := s.locker.ended(ctx); ended != nil {
			return nil, waitEnded(last, ended)
		}
	}
}

// nowhereYet is the slot of who does not wait for one.
const nowhereYet = -1

// looksPerSlot is how many looks at the other slots a waitOn in one queue is long, a second or so: a slot whose holder
// stays must not keep those that wait for it while the others go from hand to hand.
const looksPerSlot = 8

// waitOn waits in the queue of slot i, and looks at each back-off for one that is free meanwhile. Where it is time
// to wait for another, it returns no hold and what it saw of all.
func (s *Semaphore) waitOn(ctx context.Context, i int, a *acquisition, last error) (*hold, *survey, error) {
	l := s.locker
	s.enlist(i, 1)
	defer s.enlist(i, -1)
	type outcome struct {
		h   *hold
		err error
	}
	got := make(chan outcome, 1)
	queued, end := context.WithCancel(ctx)
	defer end()
	go func() { // waited for by every return below
		h, err := l.queue(queued, a.at(&s.all[i]), a.opts, last)
		got <- outcome{h, err}
		end() // and of a look that is under way
	}()
	var seen *survey
	for looks := 1; ; looks++ {
		pause := time.NewTimer(s.pause(a.opts, looks, seen))
		select {
		case q := <-got:
			pause.Stop()
			s.learn(i, q.h)
			return q.h, nil, q.err
		case <-pause.C:
		}
		if fresh, err := s.survey(queued); err == nil {
			seen = fresh
			if other := s.pickUp(queued, a, seen); other != nil {
				end()
				if q := <-got; q.h != nil {
					q.h.withdraw()
				}
				return other, nil, nil
			}
		}
		if looks >= looksPerSlot && seen != nil && len(s.all) > 1 && a.opts.maxAttempts == 0 {
			end()
			q := <-got
			s.learn(i, q.h)
			return q.h, seen, nil
		}
	}
}

// pickUp tries the slot that is most likely free, if there is one.
func (s *Semaphore) pickUp(ctx context.Context, a *acquisition, seen *survey) *hold {
	l := s.locker
	free := s.free(seen, len(l.nodes)-l.need)
	if len(free) == 0 {
		return nil
	}
	h, _ := s.attempt(ctx, free[0], a)
	return h
}

// pause returns when to look again: a quarter later for each other that waits, slot for slot, so that the looks of many
// together come no more often.
func (s *Semaphore) pause(o *options, looks int, seen *survey) time.Duration {
	pause, others := o.backoff(looks), -1
	if seen != nil {
		for _, at := range seen.slots {
			others += at.waiters
		}
	}
	return pause + pause*time.Duration(min(max(others, 0)/len(s.all), 128))/4
}
