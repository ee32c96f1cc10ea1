package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/quorumlock/redlock/internal/localqueue"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/slots"
)

// Why there are never more holders than permits: a permit is a slot, and each slot is a lock with its own name,
// acquired, extended, lost and released like any other. Any two majorities share a node, so each slot has at most one
// valid hold at a time, and k slots have at most k. How a slot is chosen (internal/slots) affects speed only.
//
// The alternative, a counter of k on each of the N nodes, lets in up to N·k/M for a majority M (docs/spec/permits.md).

// Semaphore admits a number of holders at a time. Any number of goroutines may use it at once. Keep and share it: it
// remembers which slots it used last, and its callers in this process wait in one local queue.
type Semaphore struct {
	locker *Locker
	name   string
	err    error               // why name or permits are invalid, or nil
	base   string              // the slots' keys without their numbers
	turns  *semaphore.Weighted // one per slot: only a caller that has a turn competes on the nodes
	all    []slot
	slots  *slots.Slots
}

// slot is one of the locks that the permits are.
type slot struct {
	name string
	key  string
}

// Semaphore returns the semaphore of the given name and number of permits, 1 to 1000. It sends nothing to the nodes. If
// name or permits are invalid, Acquire and TryAcquire return an error that satisfies errors.Is for [ErrInvalid].
//
// A permit is a slot: one of as many exclusive locks as there are permits, named "redlock:permit:", the semaphore's
// name, ":" and a number from 0. No other lock has such a name: a semaphore and a lock of one name are independent.
//
// All clients of a name should use the same number of permits. If they do not, for example during a deployment, there
// are never more holders than the largest number allows: its slots include those of the smaller ones.
func (l *Locker) Semaphore(name string, permits int) *Semaphore {
	s := &Semaphore{locker: l, name: name}
	switch _, err := l.key(name); {
	case err != nil:
		s.err = err
	case permits < 1 || permits > maxPermits:
		s.err = invalid("%d permits: want 1 to %d", permits, maxPermits)
	default:
		s.base = l.opts.prefix + permitsName + name + ":"
		s.turns = semaphore.NewWeighted(int64(permits))
		s.all = make([]slot, permits)
		for i := range s.all {
			number := strconv.Itoa(i)
			s.all[i] = slot{permitsName + name + ":" + number, s.base + number}
		}
		s.slots = slots.New(permits, l.electorate)
	}
	return s
}

// permitsName is the prefix of all slots' names.
const permitsName = ownNames + "permit:"

// heldKey returns the key of a hold's name, which may be that of a lock or of a slot.
func (l *core) heldKey(name string) (string, error) {
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
// A waiter joins one slot's queue, in the order in which waits began, and looks at others each poll interval ([more]).
//
// The error is usually a [*QuorumError], as from [Locker.Lock], about one slot or about all of them.
//
// [more]: https://github.com/quorumlock/redlock/blob/main/docs/recipes.md
func (s *Semaphore) Acquire(ctx context.Context, opts ...LockOption) (*Lock, error) {
	return s.acquire(ctx, plan{waits: true}, opts)
}

// TryAcquire takes a free permit and does not wait for one: it returns within three node timeouts. The error satisfies
// errors.Is for [ErrTaken] if no slot was free on a majority, or if other clients were faster eight times in a row.
func (s *Semaphore) TryAcquire(ctx context.Context, opts ...LockOption) (*Lock, error) {
	return s.acquire(ctx, plan{}, opts)
}

// Do does for a permit what [Locker.Do] does for a lock.
func (s *Semaphore) Do(
	ctx context.Context, fn func(ctx context.Context, permit *Lock) error, opts ...LockOption,
) error {
	s.locker.work.begin()
	defer s.locker.work.end()
	permit, err := s.Acquire(ctx, opts...)
	if err != nil {
		return err
	}
	return permit.do(ctx, fn)
}

func (s *Semaphore) acquire(ctx context.Context, p plan, opts []LockOption) (*Lock, error) {
	if s.err != nil {
		return nil, notAcquiredError{failed("acquire", s.name, s.err)}
	}
	p.op, p.name, p.key = "acquire", s.name, s.base
	return s.locker.call(ctx, p, opts, func(l *Locker, ctx context.Context, p plan) (h *hold, err error) {
		p.since = l.tokens.time(l.opts.clock.now())
		if p.waits {
			h, err = s.wait(ctx, &p)
		} else {
			h, _, err = s.try(ctx, &p)
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

// ofSlot returns the plan for one slot, of that for any.
func (p plan) ofSlot(s *slot) plan {
	p.name, p.key = s.name, s.key
	return p
}

// maxTries is how many slots try attempts, while other clients are faster, before it reports that all are taken.
const maxTries = 8

// try attempts one slot that is probably free, then surveys all and attempts the free ones. It returns the last survey.
func (s *Semaphore) try(ctx context.Context, p *plan) (h *hold, seen *slots.Survey, err error) {
	l, tries := s.locker, 0
	begun := l.opts.clock.local()
	if i := s.slots.Guess(begun); i != slots.None {
		tries++
		if h, err = s.attempt(ctx, i, p); err == nil || !slotTaken(err) {
			return h, nil, err
		}
	}
	// An attempt that begins within twice the node timeout ends within three times the node timeout.
	enough := func() bool {
		late := l.opts.clock.local().Sub(begun) > 2*l.opts.nodeTimeout
		return err != nil && (tries >= maxTries || late || l.over(ctx) != nil)
	}
	for !enough() {
		var nodes []NodeError
		var failure error
		if seen, nodes, failure = s.survey(ctx, nil); failure != nil {
			return nil, nil, lastFound(err, failure)
		}
		free := s.slots.Free(seen)
		if len(free) == 0 {
			failure := &QuorumError{
				Op: "acquire", Name: s.name, Nodes: nodes, reason: ErrTaken,
				detail: fmt.Sprintf("all %d permits, the next for another %s", len(s.all), brief(seen.Soonest)),
			}
			failure.measure(l.electorate, 0)
			return nil, seen, failure
		}
		for _, i := range free {
			if enough() {
				break
			}
			tries++
			if h, err = s.attempt(ctx, i, p); err == nil || !slotTaken(err) {
				return h, seen, err
			}
		}
	}
	return nil, seen, err
}

// attempt makes one attempt for slot i.
func (s *Semaphore) attempt(ctx context.Context, i int, p *plan) (*hold, error) {
	s.slots.AddCallers(i, 1)
	defer s.slots.AddCallers(i, -1)
	got := s.locker.attempt(ctx, p.ofSlot(&s.all[i]), giveUp)
	s.record(i, got.hold)
	return got.hold, got.err
}

// record records this Semaphore's latest hold of slot i, or with nil that another client has the slot.
func (s *Semaphore) record(i int, h *hold) {
	if h == nil {
		s.slots.Record(i, nil)
	} else {
		s.slots.Record(i, h)
	}
}

// survey asks all nodes about all slots, in one round, and again if connections broke under it. It also returns what
// each node says, for the error if all slots are taken. before is the wait's survey before this one, or nil.
func (s *Semaphore) survey(ctx context.Context, before *slots.Survey) (*slots.Survey, []NodeError, error) {
	l := s.locker
	asked := l.opts.clock.local() // all rounds together have one node timeout
	var r *round
	var votes quorum.Count
	var err error
	for breaks := 0; ; breaks++ {
		r = l.rounds.Get().(*round)
		r.About(protocol.Survey, s.base)
		r.Slots = len(s.all)
		r.send(l.nodes, l.electorate.All, asked)
		if votes, err = r.wait(ctx); err != nil || breaks == maxBreaks || !r.broke(votes) {
			break
		}
		r.abandon()
	}
	defer r.abandon()
	failure := r.failure("acquire", s.name, ErrTaken, votes, endOf(ctx, err))
	if err != nil || votes.Verdict() != quorum.Won {
		return nil, nil, failure
	}
	replies, answered := make([][]slots.Reply, len(l.nodes)), quorum.Set(0)
	granted := votes.Who(quorum.Granted)
	for i := range l.nodes {
		if !granted.Has(i) {
			continue
		}
		numbers := votes.Answer(i).Reply.([]int64)
		if len(numbers) != perSlot*len(s.all) {
			failure.Nodes[i].Outcome, failure.Nodes[i].Err = outcomeFailed, protocol.Survey.Unexpected(numbers)
			continue
		}
		replies[i], answered = slotReplies(numbers), answered.With(i)
		failure.Nodes[i].Outcome = outcomeTaken
	}
	if !l.electorate.Suffice(answered) {
		return nil, nil, failure
	}
	return s.slots.Survey(replies, before), failure.Nodes, nil
}

// perSlot is how many numbers the nodes reply for each slot: see internal/lua/survey.lua.
const perSlot = 3

// slotReplies returns what the numbers say of each slot.
func slotReplies(numbers []int64) []slots.Reply {
	replies := make([]slots.Reply, 0, len(numbers)/perSlot)
	for at := range slices.Chunk(numbers, perSlot) {
		r := slots.Reply{Taken: at[0] != -2, Left: max(protocol.Left(at[0]), 0), Waiters: int(at[1]), Token: at[2]}
		if at[0] == -1 {
			r.Left = time.Hour // the key has no TTL
		}
		replies = append(replies, r)
	}
	return replies
}

// slotTaken reports whether an attempt failed because of its slot, and not because nodes or time were missing.
func slotTaken(err error) bool {
	var q *QuorumError
	return errors.As(err, &q) && q.ctx == nil && slices.ContainsFunc(q.Nodes, func(n NodeError) bool {
		return n.Outcome == outcomeTaken || n.Outcome == outcomeAbsent
	})
}

// wait tries for a permit, then waits for one. As many callers as there are slots do; others wait in the local queue.
func (s *Semaphore) wait(ctx context.Context, p *plan) (*hold, error) {
	l := s.locker
	queue := l.local.Join(s.base) // of all Semaphores of the name, whose callers may go by what the others are told
	defer l.local.Leave(s.base)
	p.head = &queue.Note
	if ended := l.takeTurn(ctx, s.turns, p.observed); ended != nil {
		return nil, waitEnded(l.notFirst("acquire", s.name, nil), ended)
	}
	defer s.turns.Release(1)
	h, seen, err := s.try(ctx, p)
	if err != nil {
		p.found(err)
		if ended := l.over(ctx); ended != nil {
			return nil, waitEnded(err, ended)
		}
		p.observed.waiting(err)
		h, err = s.queue(ctx, p, seen, err)
	}
	if h != nil {
		queue.Note.Store(nil) // there may be other permits
	}
	return h, err
}

// queue waits in one slot's queue after another. The place in each is by when the wait began: moving loses no time.
func (s *Semaphore) queue(ctx context.Context, p *plan, seen *slots.Survey, last error) (*hold, error) {
	defer func() { s.slots.Contend(p.opts.clock.local().Add(localqueue.ContendedFor)) }()
	for at := s.slots.ShortestQueue(seen, slots.None); ; at = s.slots.ShortestQueue(seen, at) {
		var h *hold
		var err error
		if h, seen, err = s.waitOn(ctx, at, p, seen, last); h != nil || seen == nil {
			return h, err
		}
		last = lastFound(last, err)
		if ended := s.locker.over(ctx); ended != nil {
			return nil, waitEnded(last, ended)
		}
	}
}

// surveysPerSlot is after how many surveys, about a second, a waiter moves on in any case: Stuck sees only tokens.
const surveysPerSlot = 8

// waitOn waits in the queue of slot i, which it joins after the survey joined, or nil. After each pause it surveys the
// slots and takes a free one. When it is time to wait for another slot, it returns the last survey and what was found.
func (s *Semaphore) waitOn(
	ctx context.Context, i int, p *plan, joined *slots.Survey, last error,
) (*hold, *slots.Survey, error) {
	l := s.locker
	s.slots.AddCallers(i, 1)
	defer s.slots.AddCallers(i, -1)
	got := make(chan outcome, 1)
	queued, end := context.WithCancel(ctx)
	defer end()
	go func() { // every return below waits for its outcome
		h, err := l.queue(queued, p.ofSlot(&s.all[i]), last, nil)
		got <- outcome{hold: h, err: err}
		end() // a survey in flight is not needed any more
	}()
	seen := joined
	for surveys := 1; ; surveys++ {
		pause := time.NewTimer(s.pause(p.opts, surveys, seen))
		select {
		case q := <-got:
			pause.Stop()
			s.record(i, q.hold)
			return q.hold, nil, q.err
		case <-pause.C:
		}
		_ = l.restUntilReady(queued) // before that, a survey shows nothing that could be had; queue may end it
		if fresh, _, err := s.survey(queued, seen); err == nil {
			if seen = fresh; joined == nil {
				joined = fresh
			}
			if other := s.tryFree(queued, p, seen); other != nil {
				end()
				if q := <-got; q.hold != nil {
					q.hold.discard()
				}
				return other, nil, nil
			}
		}
		// A holder that keeps one slot must not block that slot's waiters while the other slots change hands.
		over := seen != nil && (surveys >= surveysPerSlot || seen.Stuck(i, joined))
		if over && len(s.all) > 1 {
			end()
			q := <-got
			s.record(i, q.hold)
			return q.hold, seen, q.err
		}
	}
}

// tryFree attempts the slot that is most likely free, if any is.
func (s *Semaphore) tryFree(ctx context.Context, p *plan, seen *slots.Survey) *hold {
	free := s.slots.Free(seen)
	if len(free) == 0 {
		return nil
	}
	h, _ := s.attempt(ctx, free[0], p)
	return h
}

// pause returns how long to wait before the next survey: the poll interval, longer by a quarter for each other waiter
// per slot, so that many waiters together survey no more often than one.
func (s *Semaphore) pause(o *options, surveys int, seen *slots.Survey) time.Duration {
	pause, others := o.backoff(surveys), 0
	if seen != nil {
		others = max(seen.Waiters-1, 0)
	}
	return pause + pause*time.Duration(min(others/len(s.all), 128))/4
}
