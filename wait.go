package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// wait waits until the lock is held: in the queue of this process first, and at its head in the nodes' queues. Readers
// get their turns together, so each of them goes to the nodes' queues itself. last is why an attempt has failed, if
// there was one. More attempts would be of no use: after a split vote everyone gives way to the oldest, while in a
// queue each waits its turn.
func (l *Locker) wait(ctx context.Context, w acquireRequest, o *options, last error) (*hold, error) {
	if l.ended(ctx) != nil {
		return nil, l.endedInQueue(ctx, w.op, w.name, last)
	}
	if w.shared {
		return l.queue(ctx, w, o, last)
	}
	return l.waitAlone(ctx, w, o, last)
}

// waitAlone is wait for all but readers.
func (l *Locker) waitAlone(ctx context.Context, w acquireRequest, o *options, last error) (*hold, error) {
	q := l.local.join(w.key)
	defer l.local.leave(w.key)
	if !l.takeTurn(ctx, q) {
		return nil, l.endedInQueue(ctx, w.op, w.name, last)
	}
	defer q.Release(1)
	return l.queue(ctx, w, o, last)
}

// takeTurn returns when the caller is at the head of a queue of this process: it must then release its turn. It returns
// false where ctx or Close ended the wait before.
func (l *Locker) takeTurn(ctx context.Context, q *semaphore.Weighted) bool {
	if q.TryAcquire(1) {
		return true
	}
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)() //nolint:contextcheck // Close ends all waits
	if q.Acquire(waiting, 1) != nil {
		return false
	}
	if l.ended(ctx) != nil { // as it had for the one before us, which made room
		q.Release(1)
		return false
	}
	return true
}

// endedInQueue is the error of a caller whose wait ended in the queue of this process.
func (l *Locker) endedInQueue(ctx context.Context, op, name string, last error) error {
	if last == nil {
		// It never got to ask the nodes: others of this process did, and wait.
		e := &QuorumError{Op: op, Name: name, Need: l.need, reason: ErrTaken, detail: "others in this process were first"}
		for _, n := range l.nodes {
			e.Nodes = append(e.Nodes, NodeError{Addr: n.addr(), Outcome: OutcomeLate})
		}
		last = e
	}
	return waitEnded(op, name, last, l.ended(ctx))
}

// localQueues let those that wait for one name in this process wait in turn, so that one of them alone competes with
// other processes: the nodes' queues hold processes, not goroutines.
type localQueues struct {
	clock clock
	known atomic.Int32 // len(of): spares the look-up while nobody waits for anything

	mu sync.Mutex
	of map[string]*localQueue // by key; guarded by mu
}

// localQueue is the queue for one key. Guarded by localQueues.mu, but for turn.
type localQueue struct {
	turn    *semaphore.Weighted // of one: who has it competes on the nodes; the others get it in order
	callers int                 // that have it or wait for it
	hot     time.Time           // until when the lock counts as contended
}

// hotFor is for how long after a wait the next one goes to the nodes' queues at once, without
// a try that would most likely fail.
const hotFor = time.Second

// contended reports whether to join the queue at once.
func (s *localQueues) contended(key string) bool {
	if s.known.Load() == 0 {
		return false
	}
	now := s.clock.local()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of[key]
	return q != nil && (q.callers > 0 || now.Before(q.hot))
}

// join returns the queue for a key. It is kept until the caller leaves.
func (s *localQueues) join(key string) *semaphore.Weighted {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of[key]
	if q == nil {
		s.prune()
		q = &localQueue{turn: semaphore.NewWeighted(1)}
		s.of[key] = q
		s.known.Store(int32(len(s.of)))
	}
	q.callers++
	return q.turn
}

func (s *localQueues) leave(key string) {
	now := s.clock.local()
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.of[key]
	q.hot = now.Add(hotFor)
	q.callers--
}

// prune forgets queues that nobody is in, when there are many. Called with mu held.
func (s *localQueues) prune() {
	if len(s.of) < 1024 {
		return
	}
	now := s.clock.local()
	for key, q := range s.of {
		if q.callers == 0 && now.After(q.hot) {
			delete(s.of, key)
		}
	}
}
