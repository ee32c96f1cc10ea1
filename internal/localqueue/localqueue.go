// Package localqueue has the callers of one process that want the same key wait for each other, first come, first
// served. Each may leave a note for the others.
//
// It knows keys. It must not know what the caller at the head does with its turn.
package localqueue

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Queues are the queues for all keys. N is what a note is.
type Queues[N any] struct {
	now  func() time.Time
	size atomic.Int32 // len(of): Contended takes no mutex while there is no queue

	mu      sync.Mutex           // guards the fields below
	of      map[string]*Queue[N] // by key
	pruneAt int                  // prune does nothing while there are fewer queues
}

// Queue is the queue for one key.
type Queue[N any] struct {
	Turn *semaphore.Weighted // of weight 1: the caller at the head has it
	Note atomic.Pointer[N]   // what a caller has left last

	callers        int // that have the turn or wait for it; guarded by Queues.mu, as the field below
	contendedUntil time.Time
}

// Init begins with no queue. now is the clock.
func (s *Queues[N]) Init(now func() time.Time) { s.now, s.of = now, make(map[string]*Queue[N]) }

// ContendedFor is how long a key counts as contended after somebody has waited for it.
const ContendedFor = time.Second

// Contended reports whether callers wait for a key, or did a moment ago.
func (s *Queues[N]) Contended(key string) bool { return s.contended(key) != nil }

// Note returns where callers leave notes for a key, or nil if the key is not contended.
func (s *Queues[N]) Note(key string) *atomic.Pointer[N] {
	if l := s.contended(key); l != nil {
		return &l.Note
	}
	return nil
}

// contended returns the queue for a key, or nil if the key is not contended.
func (s *Queues[N]) contended(key string) *Queue[N] {
	if s.size.Load() == 0 {
		return nil
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of[key]; l != nil && (l.callers > 0 || now.Before(l.contendedUntil)) {
		return l
	}
	return nil
}

// Join adds the caller to the queue for a key, and returns the queue. The caller must call Leave.
func (s *Queues[N]) Join(key string) *Queue[N] {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	if l == nil {
		s.prune()
		l = &Queue[N]{Turn: semaphore.NewWeighted(1)}
		s.of[key] = l
		s.size.Store(int32(len(s.of)))
	}
	l.callers++
	return l
}

// Leave takes the caller out of the queue for a key.
func (s *Queues[N]) Leave(key string) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	l.contendedUntil = now.Add(ContendedFor)
	l.callers--
}

// manyQueues is how many queues are kept, used or not.
const manyQueues = 1024

// prune deletes unused queues when there are many, and again when there are twice as many as it has left. So it looks
// at no more than two for each that was made, however many of them are in use. Called with mu held.
func (s *Queues[N]) prune() {
	if len(s.of) < max(s.pruneAt, manyQueues) {
		return
	}
	now := s.now()
	for key, l := range s.of {
		if l.callers == 0 && now.After(l.contendedUntil) {
			delete(s.of, key)
		}
	}
	s.pruneAt = 2 * len(s.of)
}
