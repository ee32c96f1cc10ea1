package localqueue

import (
	"context"
	"strconv"
	"testing"
	"time"
)

// A key is contended while callers wait for it, and a moment longer. So long can be read what one of them has left.
func TestAQueue(t *testing.T) {
	var s Queues[string]
	now := time.Now()
	s.Init(func() time.Time { return now })
	if s.Contended("a") || s.Note("a") != nil {
		t.Error("contended before anybody has come")
	}
	first, second := s.Join("a"), s.Join("a")
	if first != second || !s.Contended("a") || s.Contended("b") {
		t.Error("two callers for one key are not in one queue")
	}
	if !first.Turn.TryAcquire(1) || second.Turn.TryAcquire(1) {
		t.Error("the turn is not that of one caller")
	}
	note := "taken"
	first.Note.Store(&note)
	first.Turn.Release(1)
	s.Leave("a")
	if err := second.Turn.Acquire(context.Background(), 1); err != nil || s.Note("a").Load() != &note {
		t.Errorf("the next one: %v, note %v", err, s.Note("a"))
	}
	s.Leave("a")
	if now = now.Add(ContendedFor - 1); !s.Contended("a") || s.Note("a").Load() != &note {
		t.Error("a moment later: not contended, or the note is lost")
	}
	if now = now.Add(1); s.Contended("a") || s.Note("a") != nil {
		t.Error("contended for ever")
	}
}

// What it costs to keep queues does not grow with the number of keys for which callers wait: queues that
// are in use are looked at a few times each, and not once for each key that comes later.
func TestPruningLooksAtEachQueueAFewTimes(t *testing.T) {
	for _, names := range []int{2_000, 20_000} {
		looks := 0
		var s Queues[string]
		now := time.Now()
		s.Init(func() time.Time { // read once for each time that prune looks at all queues
			looks += len(s.of)
			return now
		})
		for name := range names {
			s.Join(strconv.Itoa(name))
		}
		if len(s.of) != names {
			t.Errorf("%d queues of %d that are in use", len(s.of), names)
		}
		if looks > 2*names {
			t.Errorf("%d names: looked at %d queues, want at most %d", names, looks, 2*names)
		}
		for _, l := range s.of { // as Leave leaves them
			l.callers, l.contendedUntil = 0, now
		}
		now = now.Add(ContendedFor + 1)
		for name := range names + manyQueues {
			s.Join(strconv.Itoa(names + name))
		}
		if most := names + 2*manyQueues; len(s.of) > most {
			t.Errorf("%d names in use: %d queues, want at most %d", names+manyQueues, len(s.of), most)
		}
	}
}
