package redlock

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/quorumlock/redlock/internal/redisconn"
)

// wait waits until the lock is held: first in this process's local queue, then, at the head of that, in the nodes'
// queues. last is the error of the attempt that failed before, or nil, and first the waiter that the nodes have put into
// their queues by it, or nil. More attempts would not help: after a split vote every client gives way to the oldest,
// while in a queue each waits its turn.
func (l *Locker) wait(ctx context.Context, want acquisition, last error, first *waiter) (*hold, error) {
	ended := l.ended(ctx)
	if !want.shared && ended == nil { // readers get the lock together, so each reader joins the nodes' queues itself
		line := l.local.join(want.key)
		defer l.local.leave(want.key)
		before := line.verdict.Load()
		if !line.turn.TryAcquire(1) {
			first.withdraw() // while it waited here, it could not use votes that the nodes hand it
			first, ended = nil, l.takeTurn(ctx, line.turn)
			if found := line.verdict.Load(); ended != nil && found != nil && found != before {
				last = nil // since the caller's own attempt
			}
		}
		if ended == nil {
			defer line.turn.Release(1)
			want.head = &line.verdict
			if last != nil {
				want.found(last)
			}
		}
	}
	if ended != nil {
		first.withdraw()
		if last == nil {
			last = l.notFirst(want.op, want.name, l.local.verdict(want.key))
		}
		return nil, waitEnded(last, ended)
	}
	h, err := l.queue(ctx, want, last, first)
	if err == nil {
		want.found(nil)
	}
	return h, err
}

// rest returns nil after d, or earlier with the reason why the wait has ended.
func (l *Locker) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	return l.ended(ctx)
}

// maxAsking is how many calls may ask for a lock at a time: as many as a connection takes requests. The others come in
// turn, which costs less than to ask in vain, and leaves the processor to those that read the answers.
const maxAsking = redisconn.MaxQueue / 2

// takeTurn waits for the caller's turn, or returns why the wait ended before it came. The caller must release a turn
// that it got.
func (l *Locker) takeTurn(ctx context.Context, turn *semaphore.Weighted) error {
	if !turn.TryAcquire(1) {
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)() //nolint:contextcheck // Close ends all waits
		if turn.Acquire(waiting, 1) != nil {
			return l.ended(ctx)
		}
	}
	ended := l.ended(ctx)
	if ended != nil { // the turn may be free only because the caller ahead had the same deadline
		turn.Release(1)
	}
	return ended
}

// admit waits for an attempt's turn, for half of the node timeout at most: the other half is for the nodes. begun is
// when the node timeout began, or nil if it begins with the attempt, and so is what admit returns: if the attempt
// waited, validity, too, counts from before that. The caller must release the turn if it got one.
func (l *Locker) admit(ctx context.Context, begun *instant) (*instant, bool) {
	if l.turns.TryAcquire(1) {
		return begun, true
	}
	if begun == nil {
		now := l.opts.clock.now()
		begun = &now
	}
	bounded, cancel := context.WithDeadline(ctx, begun.local.Add(l.opts.nodeTimeout/2))
	defer cancel()
	return begun, l.takeTurn(bounded, l.turns) == nil
}

// notAsked returns the error of a call that asked no node, because too many others of this process were ahead. ended is
// what ended the caller's wait, or nil.
func (l *Locker) notAsked(op, name string, ended error) *QuorumError {
	e := &QuorumError{
		Op: op, Name: name, reason: ErrNoQuorum, ctx: ended,
		detail: "this process was late: too many of its calls were ahead",
	}
	e.measure(l.electorate, 0)
	for i, n := range l.nodes {
		part := NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: OutcomeUnasked}
		if _, down := n.conn.State(); down != nil {
			part.Outcome, part.Err = OutcomeFailed, down
		}
		e.Nodes = append(e.Nodes, part)
	}
	return e
}

// notFirst returns the error of a caller that never sent a request, because other callers in this process were ahead.
// It is what the one at the head was told last, head. If that is nil, then because one of them just got the lock.
func (l *Locker) notFirst(op, name string, head *QuorumError) *QuorumError {
	const behind = "behind other callers in this process"
	if head != nil {
		e := *head
		e.Op, e.Name, e.ctx, e.detail = op, name, nil, strings.TrimPrefix(e.detail+"; "+behind, "; ")
		return &e
	}
	e := &QuorumError{Op: op, Name: name, reason: ErrTaken, detail: behind}
	e.measure(l.electorate, 0)
	for i, n := range l.nodes {
		e.Nodes = append(e.Nodes, NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: OutcomeUnasked})
	}
	return e
}

// localQueues holds one queue per key for the callers in this process. Only the caller at the head of a local queue
// joins the nodes' queues, so those hold one entry per process and not one per goroutine.
type localQueues struct {
	clock clock
	size  atomic.Int32 // len(of): contended takes no mutex while there is no local queue

	mu      sync.Mutex             // guards the fields below
	of      map[string]*localQueue // by key
	pruneAt int                    // prune does nothing while there are fewer queues
}

// localQueue is the local queue for one key. Its fields are guarded by localQueues.mu, except turn and verdict.
type localQueue struct {
	turn           *semaphore.Weighted // of weight 1, granted first come, first served
	callers        int                 // callers that have the turn or wait for it
	contendedUntil time.Time
	verdict        verdictAtHead
}

// verdict returns what the caller at the head of the local queue for a key found last, or nil.
func (s *localQueues) verdict(key string) *QuorumError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if q := s.of[key]; q != nil && q.callers > 0 {
		return q.verdict.Load()
	}
	return nil
}

// contendedFor is how long a lock counts as contended after a wait for it. Meanwhile, callers join the queue at once:
// an attempt would most likely fail.
const contendedFor = time.Second

// contended reports whether a caller should join the queue without an attempt.
func (s *localQueues) contended(key string) bool {
	if s.size.Load() == 0 {
		return false
	}
	now := s.clock.local()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of[key]
	return q != nil && (q.callers > 0 || now.Before(q.contendedUntil))
}

// join adds the caller to the local queue for a key, and returns the queue. The caller must call leave.
func (s *localQueues) join(key string) *localQueue {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of[key]
	if q == nil {
		s.prune()
		q = &localQueue{turn: semaphore.NewWeighted(1)}
		s.of[key] = q
		s.size.Store(int32(len(s.of)))
	}
	q.callers++
	return q
}

func (s *localQueues) leave(key string) {
	now := s.clock.local()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of[key]
	q.contendedUntil = now.Add(contendedFor)
	q.callers--
}

// manyQueues is how many local queues are kept, used or not.
const manyQueues = 1024

// prune deletes unused queues when there are many, and again when there are twice as many as it has left. So it looks
// at no more than two for each that was made, however many of them are in use. Called with mu held.
func (s *localQueues) prune() {
	if len(s.of) < max(s.pruneAt, manyQueues) {
		return
	}
	now := s.clock.local()
	for key, q := range s.of {
		if q.callers == 0 && now.After(q.contendedUntil) {
			delete(s.of, key)
		}
	}
	s.pruneAt = 2 * len(s.of)
}
