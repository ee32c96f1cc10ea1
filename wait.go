package redlock

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// wait waits until the lock is held: first in this process's local queue, then, at the head of that, in the nodes'
// queues. last is the error of the attempt that failed before, or nil, and first the waiter that stands by it, or
// nil. More attempts would not help: after a split vote every client gives way to the oldest, while in a queue each
// waits its turn.
func (l *Locker) wait(ctx context.Context, w acquireRequest, o *options, last error, first *waiter) (*hold, error) {
	ended := l.ended(ctx)
	if !w.shared && ended == nil { // readers get the lock together, so each reader joins the nodes' queues itself
		line := l.local.join(w.key)
		defer l.local.leave(w.key)
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
			w.head = &line.verdict
			if last != nil {
				w.found(last)
			}
		}
	}
	if ended != nil {
		first.withdraw()
		if last == nil {
			last = l.notFirst(w.op, w.name, l.local.verdict(w.key))
		}
		return nil, waitEnded(last, ended)
	}
	h, err := l.queue(ctx, w, o, last, first)
	if err == nil {
		w.found(nil)
	}
	return h, err
}

// futileEvery is how often a call fails for lack of a majority that is connected, unless the node timeout is short.
const futileEvery = 250 * time.Millisecond

// awaitMajority holds a caller that tries again at once while no majority is connected, since all that it could do is
// fail: until there is a majority, or for futileEvery since the last call that found none, but for half of the node
// timeout at most. It returns at once, and nil, if there was no such call; otherwise, when the caller came.
func (l *Locker) awaitMajority(ctx context.Context) *instant {
	now := l.opts.clock.now()
	last := time.Duration(l.futile.Load())
	defer func() { l.futile.Store(int64(l.opts.clock.local().Sub(l.opened))) }()
	rest := min(l.opened.Add(last).Add(futileEvery).Sub(now.local), l.opts.nodeTimeout/2)
	if last == 0 || rest <= 0 {
		return nil
	}
	over := time.NewTimer(rest)
	defer over.Stop()
	for {
		changed := l.peers.states.next() // before the majority is looked for
		if l.peers.enough.Load() {
			return &now
		}
		select {
		case <-changed:
		case <-over.C:
			return &now
		case <-ctx.Done():
			return &now
		case <-l.ctx.Done():
			return &now
		}
	}
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
