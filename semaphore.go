package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/semaphore"
)

// Semaphore admits a number of holders at a time. Any number of goroutines may
// use it at once. Keep and share it: it remembers which slots it used last, and its waiters
// in this process stand in one line.
type Semaphore struct {
	locker *Locker
	name   string
	err    error               // why no permit can be had: the name or the number
	base   string              // the slots' keys without their numbers
	count  any                 // string: how many slots, for the wire
	turns  *semaphore.Weighted // one for each slot: who has one competes on the nodes; the others get it in order
	slots
}

// Semaphore returns the semaphore of the given name and number of permits, 1 to
// 1000. It asks no node; Acquire and TryAcquire say, with [ErrInvalid], where name or permits cannot be.
//
// A permit is a slot: one of as many exclusive locks as there are permits, named
// "redlock:permit:", the semaphore's name, ":" and a number from 0. No lock of a user's can
// have such a name, so a semaphore and a lock of one name do not touch.
//
// All that use a name should agree on the number of permits. While they do not, as
// during a deployment, there are never more holders than the largest number
// allows, since the slots of the smaller number are among those of the larger one.
func (l *Locker) Semaphore(name string, permits int) *Semaphore {
	s := &Semaphore{locker: l, name: name}
	switch _, err := l.key(name); {
	case err != nil:
		s.err = err
	case permits < 1 || permits > maxPermits:
		s.err = invalid("%d permits: want 1 to %d", permits, maxPermits)
	default:
		s.base, s.count = l.opts.prefix+permitsName+name+":", strconv.Itoa(permits)
		s.turns = semaphore.NewWeighted(int64(permits))
		s.all = make([]slot, permits)
		for i := range s.all {
			number := strconv.Itoa(i)
			s.all[i].name, s.all[i].key = permitsName+name+":"+number, s.base+number
		}
	}
	return s
}

// permitsName is what the names of all slots begin with.
const permitsName = ownNames + "permit:"

// heldKey returns the key of a name that a hold may have: a lock's or a slot's.
func (l *Locker) heldKey(name string) (string, error) {
	inner, isSlot := strings.CutPrefix(name, permitsName)
	if !isSlot {
		return l.key(name)
	}
	end := max(0, strings.LastIndexByte(inner, ':'))
	if _, err := l.key(inner[:end]); err != nil {
		return "", err
	}
	if n, err := strconv.Atoi(inner[end+1:]); err != nil || n < 0 || n >= maxPermits {
		return "", invalid("the name %q is no slot's", name)
	}
	return l.opts.prefix + name, nil
}

// maxPermits bounds what one look at all slots costs the nodes.
const maxPermits = 1000

// Acquire waits until a permit is held and returns the hold: a [Lock] like any
// other, renewed and lost and unlocked in the same way. Its Name is the slot's, and its Token grows from
// hold to hold of that slot; tokens of different slots say nothing about each
// other. Options are those of [Locker.Lock]. It takes a permit of its own also inside a context that carries one.
//
// Who waits stands in the queue of one slot, in the order in which the waits began, and
// looks at the others at each back-off (docs/permits.md).
//
// The error is usually a [*QuorumError], as from [Locker.Lock], about one slot or about all of them.
func (s *Semaphore) Acquire(ctx context.Context, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, true, opts)
}

// TryAcquire looks for a free permit and does not wait for one. The error satisfies errors.Is for [ErrTaken] where
// all slots were taken on so many nodes that no majority was possible, or where other
// contenders were faster eight times in a row. It returns within three times the node timeout.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, false, opts)
}

func (s *Semaphore) acquire(ctx context.Context, wait bool, opts []Option) (*Lock, error) {
	if s.err != nil {
		return nil, failed("acquire", s.name, s.err)
	}
	w := acquireRequest{op: "acquire", name: s.name}
	return s.locker.call(ctx, &w, opts, func(o *options) (h *hold, err error) {
		w.waitsSince = s.locker.tokens.time(o.clock.now())
		a := &acquisition{acquireRequest: w, opts: o}
		if wait {
			h, err = s.wait(ctx, a)
		} else {
			h, _, err = s.try(ctx, a)
		}
		return h, s.named(err)
	})
}

// named is the error with the semaphore's name in place of a slot's, which means nothing to the caller.
func (s *Semaphore) named(err error) error {
	var q *QuorumError
	if !errors.As(err, &q) {
		return err
	}
	ours := *q
	ours.Name = s.name
	return &ours
}

// acquisition is what one call is about.
type acquisition struct {
	acquireRequest // of any slot
	opts           *options
}

// at is the same for one slot.
func (a *acquisition) at(s *slot) acquireRequest {
	w := a.acquireRequest
	w.name, w.key, w.observed = s.name, s.key, w.observed.under(s.name)
	return w
}

// maxTries is how many slots are tried before it counts as taken what others keep taking first.
const maxTries = 8

// try asks for one slot that may well be free, and then, having looked, for those that are.
// It returns what it saw of the slots, if it looked.
func (s *Semaphore) try(ctx context.Context, a *acquisition) (h *hold, seen *survey, err error) {
	l, tries := s.locker, 0
	begun := l.opts.clock.local()
	if i := s.guess(begun); i >= 0 {
		tries++
		if h, err = s.attempt(ctx, i, a); err == nil || !elsewhere(err) {
			return h, nil, err
		}
	}
	// What is begun within twice the node timeout takes one more at most.
	enough := func() bool {
		late := l.opts.clock.local().Sub(begun) > 2*l.opts.nodeTimeout
		return err != nil && (tries >= maxTries || late || l.ended(ctx) != nil)
	}
	for !enough() {
		var failure error
		if seen, failure = s.survey(ctx); failure != nil {
			return nil, nil, failure
		}
		free := s.free(seen, len(l.nodes)-l.need)
		if len(free) == 0 {
			return nil, seen, s.allTaken(seen)
		}
		for _, i := range free {
			if enough() {
				break
			}
			tries++
			if h, err = s.attempt(ctx, i, a); err == nil || !elsewhere(err) {
				return h, seen, err
			}
		}
	}
	return nil, seen, err
}

// attempt asks once for a slot.
func (s *Semaphore) attempt(ctx context.Context, i int, a *acquisition) (*hold, error) {
	s.enlist(i, 1)
	defer s.enlist(i, -1)
	h, err := s.locker.attempt(ctx, a.at(&s.all[i]), a.opts)
	s.learn(i, h)
	return h, err
}

// survey asks all nodes about all slots, in one question.
func (s *Semaphore) survey(ctx context.Context) (*survey, error) {
	l := s.locker
	r := l.rounds.Get().(*round)
	r.set(surveySlots, s.base, uuid.Nil, 0)
	r.args[0] = s.count
	r.send(l.nodes, l.all, l.need, l.opts.clock.local())
	votes, err := r.wait(ctx)
	defer r.abandon()
	failure := r.failure("acquire", s.name, ErrTaken, votes, endOf(ctx, err))
	if err != nil || votes.verdict(len(l.nodes), l.need) != verdictWon {
		return nil, failure
	}
	var told [][]int64
	for i := range r.answers {
		if !votes.voted(i) || r.answers[i].vote != voteGranted {
			continue
		}
		numbers := r.answers[i].reply.([]int64)
		if len(numbers) != 2*len(s.all) { // not what the script replies
			failure.Nodes[i].Outcome, failure.Nodes[i].Err = OutcomeFailed, unexpected(numbers)
			continue
		}
		told = append(told, numbers)
		failure.Nodes[i].Outcome = OutcomeTaken
	}
	if len(told) < l.need {
		return nil, failure
	}
	return &survey{slots: outlooks(told, len(s.all), l.need), nodes: failure.Nodes}, nil
}

// elsewhere reports whether another slot may be had where an attempt at one has failed: not where
// it failed for want of nodes.
func elsewhere(err error) bool {
	var q *QuorumError
	return errors.As(err, &q) && q.ctx == nil && slices.ContainsFunc(q.Nodes, func(n NodeError) bool {
		return n.Outcome == OutcomeTaken || n.Outcome == OutcomeAbsent
	})
}

// allTaken is the error where no slot can be had.
func (s *Semaphore) allTaken(seen *survey) *QuorumError {
	soonest := slices.MinFunc(seen.slots, func(a, b outlook) int { return cmp.Compare(a.remains, b.remains) })
	return &QuorumError{
		Op: "acquire", Name: s.name, Need: s.locker.need, Nodes: seen.nodes, reason: ErrTaken,
		detail: fmt.Sprintf("all %d permits, the next for %s", len(s.all), soonest.remains),
	}
}
