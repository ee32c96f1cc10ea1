package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// wait waits until the lock is held: in the queue of this process first, and at its head in the nodes' queues. last is
// why an attempt has failed, if there was one. More attempts would be of no use: after a split vote everyone gives way
// to the oldest, while in a queue each waits its turn.
func (l *Locker) wait(ctx context.Context, w acquireRequest, o *options, last error) (*hold, error) {
	ended := l.ended(ctx)
	if !w.shared && ended == nil { // readers get their turns together, so each of them goes to the nodes' queues itself
		turn := l.local.join(w.key)
		defer l.local.leave(w.key)
		if ended = l.takeTurn(ctx, turn); ended == nil {
			defer turn.Release(1)
		}
	}
	if ended != nil && last == nil {
		last = l.behindOthers(w.op, w.name)
	}
	if ended != nil {
		return nil, waitEnded(last, ended)
	}
	return l.queue(ctx, w, o, last)
}

// takeTurn waits for the caller's turn in a queue of this process, which it must release, or returns why the wait was
// ended before.
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
	if ended != nil { // as it had for the one before us, which made room
		turn.Release(1)
	}
	return ended
}

// behindOthers is the reason of a caller that never got to ask the nodes: others of this process did, and wait.
func (l *Locker) behindOthers(op, name string) *QuorumError {
	e := &QuorumError{Op: op, Name: name, Need: l.need, reason: ErrTaken, detail: "others in this process were first"}
	for _, n := range l.nodes {
		e.Nodes = append(e.Nodes, NodeError{Addr: n.addr(), Outcome: OutcomeLate})
	}
	return e
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
