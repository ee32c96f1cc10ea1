// Package line has the callers of one process that want the same key stand in line, first come, first served: in what
// the pages call the local queue. The caller at the head may leave a note for those behind it.
//
// It knows keys. It must not know what the caller at the head does with its turn.
package line

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Lines are the lines for all keys. N is what a note is.
type Lines[N any] struct {
	now  func() time.Time
	size atomic.Int32 // len(of): Contended takes no mutex while there is no line

	mu      sync.Mutex          // guards the fields below
	of      map[string]*Line[N] // by key
	pruneAt int                 // prune does nothing while there are fewer lines
}

// Line is the line for one key.
type Line[N any] struct {
	Turn *semaphore.Weighted // of weight 1: the caller at the head has it
	Note atomic.Pointer[N]   // what the caller at the head has left

	callers        int // that have the turn or wait for it; guarded by Lines.mu, as the field below
	contendedUntil time.Time
}

// Init begins with no line. now is the clock.
func (s *Lines[N]) Init(now func() time.Time) { s.now, s.of = now, make(map[string]*Line[N]) }

// Note returns what the caller at the head of the line for a key has left last, or nil.
func (s *Lines[N]) Note(key string) *N {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.of[key]; l != nil && l.callers > 0 {
		return l.Note.Load()
	}
	return nil
}

// ContendedFor is how long a key counts as contended after somebody has stood in line for it.
const ContendedFor = time.Second

// Contended reports whether callers stand in line for a key, or did a moment ago.
func (s *Lines[N]) Contended(key string) bool {
	if s.size.Load() == 0 {
		return false
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	return l != nil && (l.callers > 0 || now.Before(l.contendedUntil))
}

// Join adds the caller to the line for a key, and returns the line. The caller must call Leave.
func (s *Lines[N]) Join(key string) *Line[N] {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	if l == nil {
		s.prune()
		l = &Line[N]{Turn: semaphore.NewWeighted(1)}
		s.of[key] = l
		s.size.Store(int32(len(s.of)))
	}
	l.callers++
	return l
}

// Leave takes the caller out of the line for a key.
func (s *Lines[N]) Leave(key string) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.of[key]
	l.contendedUntil = now.Add(ContendedFor)
	l.callers--
}

// manyLines is how many lines are kept, used or not.
const manyLines = 1024

// prune deletes unused lines when there are many, and again when there are twice as many as it has left. So it looks at
// no more than two for each that was made, however many of them are in use. Called with mu held.
func (s *Lines[N]) prune() {
	if len(s.of) < max(s.pruneAt, manyLines) {
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
