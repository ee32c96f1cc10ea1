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

	"github.com/quorumlock/redlock/internal/quorum"
)

// Semaphore admits a number of holders at a time. Any number of goroutines may use it at once. Keep and share it: it
// remembers which slots it used last, and its callers in this process wait in one local queue.
type Semaphore struct {
	locker *Locker
	name   string
	err    error               // why name or permits are invalid, or nil
	base   string              // the slots' keys without their numbers
	count  any                 // string: the number of slots, as a command argument
	turns  *semaphore.Weighted // one per slot: only a caller that has a turn competes on the nodes
	head   verdictAtHead       // of any of these
	slots
}

// Semaphore returns the semaphore of the given name and number of permits, 1 to 1000. It sends nothing to the nodes. If
// name or permits are invalid, Acquire and TryAcquire return an error that satisfies errors.Is for [ErrInvalid].
//
// A permit is a slot: one of as many exclusive locks as there are permits, named "redlock:permit:", the semaphore's
// name, ":" and a number from 0. No other lock can have such a name, so a semaphore and a lock of the same name are
// independent.
//
// All clients of a name should use the same number of permits. If they do not, for example during a deployment, there
// are never more holders than the largest number allows, since the slots of the smaller number are among those of the
// larger one.
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

// permitsName is the prefix of all slots' names.
const permitsName = ownNames + "permit:"

// heldKey returns the key of a hold's name, which may be that of a lock or of a slot.
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
		return "", invalid("the name %q is not the name of a semaphore's slot", name)
	}
	return l.opts.prefix + name, nil
}

// maxPermits bounds what a survey of all slots costs the nodes.
const maxPermits = 1000

// Acquire waits until a permit is held and returns the hold: a [Lock] that is renewed, lost and unlocked like any
// other. Its Name is the slot's. Its Token grows from hold to hold of that slot; tokens of different slots cannot be
// compared. Options are those of [Locker.Lock]. Acquire takes a new permit even inside a context that carries one.
//
// A waiter joins the queue of one slot, which is ordered by the time at which each wait began, and looks at the other
// slots after each back-off (docs/recipes.md).
//
// The error is usually a [*QuorumError], as from [Locker.Lock], about one slot or about all of them.
func (s *Semaphore) Acquire(ctx context.Context, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, true, opts)
}

// TryAcquire takes a free permit and does not wait for one. It returns within three times the node timeout. The error
// satisfies errors.Is for [ErrTaken] if every slot was taken on so many nodes that no majority was possible, or if
// other clients were faster eight times in a row.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...Option) (*Lock, error) {
	return s.acquire(ctx, false, opts)
}

func (s *Semaphore) acquire(ctx context.Context, wait bool, opts []Option) (*Lock, error) {
	if s.err != nil {
		return nil, failed("acquire", s.name, s.err)
	}
	want := acquisition{op: "acquire", name: s.name, waits: wait}
	return s.locker.call(ctx, want, opts, func(l *Locker, ctx context.Context, want acquisition) (h *hold, err error) {
		want.waitsSince = l.tokens.time(l.opts.clock.now())
		if wait {
			h, err = s.wait(ctx, &want)
		} else {
			h, _, err = s.try(ctx, &want)
		}
		var q *QuorumError
		if errors.As(err, &q) {
			named := *q
			named.Name = s.name // in place of a slot's, which the caller does not know
			err = &named
		}
		return h, err
	})
}

// ofSlot returns the acquisition of one slot, of those for any.
func (want acquisition) ofSlot(s *slot) acquisition {
	want.name, want.key, want.observed = s.name, s.key, want.observed.under(s.name)
	return want
}

// maxTries is how many slots try attempts, while other clients are faster, before it reports that all are taken.
const maxTries = 8

// try attempts one slot that is probably free, then surveys the slots and attempts the free ones. It returns the last
// survey, or nil if there was none.
func (s *Semaphore) try(ctx context.Context, want *acquisition) (h *hold, seen *survey, err error) {
	l, tries := s.locker, 0
	begun := l.opts.clock.local()
	if i := s.guess(begun); i >= 0 {
		tries++
		if h, err = s.attempt(ctx, i, want); err == nil || !slotTaken(err) {
			return h, nil, err
		}
	}
	// An attempt that begins within twice the node timeout ends within three times the node timeout.
	enough := func() bool {
		late := l.opts.clock.local().Sub(begun) > 2*l.opts.nodeTimeout
		return err != nil && (tries >= maxTries || late || l.ended(ctx) != nil)
	}
	for !enough() {
		var failure error
		if seen, failure = s.survey(ctx); failure != nil {
			return nil, nil, failure
		}
		free := s.free(seen, l.electorate)
		if len(free) == 0 {
			soonest := slices.MinFunc(seen.slots, func(a, b slotState) int { return cmp.Compare(a.remaining, b.remaining) })
			failure := &QuorumError{
				Op: "acquire", Name: s.name, Nodes: seen.nodes, reason: ErrTaken,
				detail: fmt.Sprintf("all %d permits, the next for another %s", len(s.all), brief(soonest.remaining)),
			}
			failure.measure(l.electorate, 0)
			return nil, seen, failure
		}
		for _, i := range free {
			if enough() {
				break
			}
			tries++
			if h, err = s.attempt(ctx, i, want); err == nil || !slotTaken(err) {
				return h, seen, err
			}
		}
	}
	return nil, seen, err
}

// attempt makes one attempt for slot i.
func (s *Semaphore) attempt(ctx context.Context, i int, want *acquisition) (*hold, error) {
	s.addCallers(i, 1)
	defer s.addCallers(i, -1)
	h, _, err := s.locker.attempt(ctx, want.ofSlot(&s.all[i]))
	s.record(i, h)
	return h, err
}

// survey asks all nodes about all slots, in one round, and again if connections broke under it.
func (s *Semaphore) survey(ctx context.Context) (*survey, error) {
	l := s.locker
	asked := l.opts.clock.local() // all rounds together have one node timeout
	var r *round
	var votes quorum.Count
	var err error
	for breaks := 0; ; breaks++ {
		r = l.rounds.Get().(*round)
		r.set(surveySlots, s.base, uuid.Nil, 0)
		r.args[0] = s.count
		r.send(l.nodes, l.electorate.All, asked)
		if votes, err = r.wait(ctx); err != nil || breaks == maxBreaks || !r.broke(votes) {
			break
		}
		r.abandon()
	}
	defer r.abandon()
	failure := r.failure("acquire", s.name, ErrTaken, votes, endOf(ctx, err))
	if err != nil || votes.Verdict() != quorum.Won {
		return nil, failure
	}
	replies, answered := make([][]int64, len(l.nodes)), quorum.Set(0)
	granted := votes.Who(quorum.Granted)
	for i := range l.nodes {
		if !granted.Has(i) {
			continue
		}
		numbers := votes.Answer(i).Reply.([]int64)
		if len(numbers) != perSlot*len(s.all) {
			failure.Nodes[i].Outcome, failure.Nodes[i].Err = OutcomeFailed, surveySlots.unexpected(numbers)
			continue
		}
		replies[i], answered = numbers, answered.With(i)
		failure.Nodes[i].Outcome = OutcomeTaken
	}
	if !l.electorate.Suffice(answered) {
		return nil, failure
	}
	return &survey{slots: slotStates(replies, len(s.all), l.electorate), nodes: failure.Nodes}, nil
}

// slotTaken reports whether an attempt failed because of its slot, so that another slot may be free, and not because
// nodes or time were missing.
func slotTaken(err error) bool {
	var q *QuorumError
	return errors.As(err, &q) && q.ctx == nil && slices.ContainsFunc(q.Nodes, func(n NodeError) bool {
		return n.Outcome == OutcomeTaken || n.Outcome == OutcomeAbsent
	})
}
