package redlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// lines lets those that wait for one name in this process stand in line, so
// that a single one of them contends with other processes: the nodes' queues
// hold processes, not goroutines.
type lines struct {
	clock clock
	known atomic.Int32 // len(of): spares the look-up while nobody waits for anything

	mu sync.Mutex
	of map[string]*line // by key; guarded by mu
}

// line is the line for one key. Guarded by lines.mu.
type line struct {
	busy bool            // somebody is at the head, and contends on the nodes
	rest []chan struct{} // the others, in order; a channel is closed when its turn has come
	hot  time.Time       // until when the lock counts as contended
}

// hotFor is for how long after a wait the next one goes to the nodes' queues at once, without
// a try that would most likely fail.
const hotFor = time.Second

// contended reports whether to stand in line at once.
func (s *lines) contended(key string) bool {
	if s.known.Load() == 0 {
		return false
	}
	now := s.clock.local()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.of[key]
	return at != nil && (at.busy || now.Before(at.hot))
}

// enter returns when the caller is at the head of the line; it must then call
// leave. It returns false where the wait was ended before, by ctx or by closed.
func (s *lines) enter(ctx context.Context, closed <-chan struct{}, key string) bool {
	s.mu.Lock()
	at := s.of[key]
	if at == nil {
		s.prune()
		at = &line{}
		s.of[key] = at
		s.known.Store(int32(len(s.of)))
	}
	if !at.busy {
		at.busy = true
		s.mu.Unlock()
		return true
	}
	turn := make(chan struct{})
	at.rest = append(at.rest, turn)
	s.mu.Unlock()
	select {
	case <-turn:
		return true
	case <-ctx.Done():
	case <-closed:
	}
	s.mu.Lock()
	for i, c := range at.rest {
		if c == turn {
			at.rest = append(at.rest[:i], at.rest[i+1:]...)
			s.mu.Unlock()
			return false
		}
	}
	s.mu.Unlock()
	s.leave(key) // the turn came at the same moment
	return false
}

// leave gives the head of the line to the next.
func (s *lines) leave(key string) {
	now := s.clock.local()
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.of[key]
	at.hot = now.Add(hotFor)
	if len(at.rest) == 0 {
		at.busy = false
		return
	}
	close(at.rest[0])
	at.rest = at.rest[1:]
}

// prune forgets lines that nobody stands in, when there are many. Called with mu held.
func (s *lines) prune() {
	if len(s.of) < 1024 {
		return
	}
	now := s.clock.local()
	for key, at := range s.of {
		if !at.busy && now.After(at.hot) {
			delete(s.of, key)
		}
	}
}
