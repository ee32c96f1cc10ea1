package redlock

import (
	"context"
	"time"
)

// wait tries for a permit and then waits for one. At most as many callers as there are slots do so at a time; the
// others wait in the local queue.
func (s *Semaphore) wait(ctx context.Context, want *acquisition) (*hold, error) {
	if want.opts.maxAttempts == 1 {
		h, _, err := s.try(ctx, want)
		return h, err
	}
	l := s.locker
	if ended := l.takeTurn(ctx, s.turns); ended != nil {
		return nil, waitEnded(l.notFirst("acquire", s.name, s.head.Load()), ended)
	}
	defer s.turns.Release(1)
	h, seen, err := s.try(ctx, want)
	want.head = &s.head
	want.found(err)
	if err == nil {
		return h, nil
	}
	if ended := l.ended(ctx); ended != nil {
		return nil, waitEnded(err, ended)
	}
	if h, err = s.queue(ctx, want, seen, err); h != nil {
		want.found(nil)
	}
	return h, err
}

// queue waits in the queue of one slot after the other until it holds one. The place in each queue depends on when the
// wait began, so moving to another queue loses no time.
func (s *Semaphore) queue(ctx context.Context, want *acquisition, seen *survey, last error) (*hold, error) {
	defer func() { s.setContended(want.opts.clock.local()) }()
	for at := s.shortestQueue(seen, noSlot); ; at = s.shortestQueue(seen, at) {
		var h *hold
		var err error
		if h, seen, err = s.waitOn(ctx, at, want, seen, last); h != nil || seen == nil {
			return h, err
		}
		if ended := s.locker.ended(ctx); ended != nil {
			return nil, waitEnded(last, ended)
		}
	}
}

// noSlot is no slot's index.
const noSlot = -1

// surveysPerSlot is after how many surveys, about a second, a waiter moves to the queue of another slot in any case:
// stuck sees no turns of holds without a token.
const surveysPerSlot = 8

// waitOn waits in the queue of slot i, which it joins after the survey joined, nil for none. After each back-off it
// surveys the slots and takes one that has become free. When it is time to wait for another slot, it returns no hold
// and the last survey.
func (s *Semaphore) waitOn(
	ctx context.Context, i int, want *acquisition, joined *survey, last error,
) (*hold, *survey, error) {
	l := s.locker
	s.addCallers(i, 1)
	defer s.addCallers(i, -1)
	type outcome struct {
		h   *hold
		err error
	}
	got := make(chan outcome, 1)
	queued, end := context.WithCancel(ctx)
	defer end()
	go func() { // every return below waits for its outcome
		h, err := l.queue(queued, want.ofSlot(&s.all[i]), last, nil)
		got <- outcome{h, err}
		end() // a survey in flight is not needed any more
	}()
	seen := joined
	for surveys := 1; ; surveys++ {
		pause := time.NewTimer(s.pause(want.opts, surveys, seen))
		select {
		case q := <-got:
			pause.Stop()
			s.record(i, q.h)
			return q.h, nil, q.err
		case <-pause.C:
		}
		_ = l.restUntilReady(queued) // before that, a survey shows nothing that could be had; queue may end it
		if fresh, err := s.survey(queued); err == nil {
			fresh.follow(seen)
			if seen = fresh; joined == nil {
				joined = fresh
			}
			if other := s.tryFree(queued, want, seen); other != nil {
				end()
				if q := <-got; q.h != nil {
					q.h.withdraw()
				}
				return other, nil, nil
			}
		}
		// A holder that keeps one slot must not block that slot's waiters while the other slots change hands.
		over := seen != nil && (surveys >= surveysPerSlot || seen.stuck(i, joined))
		if over && len(s.all) > 1 && want.opts.maxAttempts == 0 {
			end()
			q := <-got
			s.record(i, q.h)
			return q.h, seen, nil
		}
	}
}

// tryFree attempts the slot that is most likely free, if any is.
func (s *Semaphore) tryFree(ctx context.Context, want *acquisition, seen *survey) *hold {
	l := s.locker
	free := s.free(seen, l.electorate)
	if len(free) == 0 {
		return nil
	}
	h, _ := s.attempt(ctx, free[0], want)
	return h
}

// pause returns how long to wait before the next survey: the back-off, longer by a quarter for each other waiter per
// slot, so that many waiters together survey no more often than one.
func (s *Semaphore) pause(o *options, surveys int, seen *survey) time.Duration {
	pause, others := o.backoff(surveys), -1
	if seen != nil {
		for _, at := range seen.slots {
			others += at.waiters
		}
	}
	return pause + pause*time.Duration(min(max(others, 0)/len(s.all), 128))/4
}
