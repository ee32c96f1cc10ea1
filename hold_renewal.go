package redlock

import (
	"container/heap"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// renewal is how a hold stands with its extensions. Guarded by hold.mu.
type renewal struct {
	at      time.Time // when to ask next
	asking  bool      // an extension is on its way
	stopped bool      // asks no more: off by option, or the handle was forgotten
	handle  *Lock     // keeps the handle reachable until the first renewal, which watches it
}

// renewAfter returns the pause between renewals: a third of the TTL, so that
// two may fail before the hold is in danger.
func (o *options) renewAfter() time.Duration { return o.ttl / 3 }

// retryAfter returns the pause after a failed renewal.
func (o *options) retryAfter() time.Duration { return max(o.ttl/20, time.Millisecond) }

// renewed is run when the outcome of a renewal is certain.
func (h *hold) renewed(x extension) {
	err := h.answered(x, tally(x.round.votes.Load()), nil)
	x.round.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended() != nil {
		return
	}
	h.renewal.asking = false
	if now := h.opts.clock.local(); err == nil {
		h.renewal.at = h.start.local.Add(h.opts.renewAfter())
	} else {
		h.renewal.at = now.Add(h.opts.retryAfter())
	}
	h.locker.leases.set(h, h.next(h.start.local))
}

// forgotten is run when nobody can reach the handle any more. The hold ends with its validity.
func (h *hold) forgotten() {
	h.mu.Lock()
	over := h.ended() != nil || h.renewal.stopped
	var caller callers
	if !over {
		h.renewal.stopped, caller = true, h.caller
	}
	h.mu.Unlock()
	if over {
		return
	}
	h.locker.opts.logger.Warn("lock was never unlocked and nobody can unlock it any more: it is renewed no longer",
		"name", h.name, "acquired at", caller.String())
}

// callers remembers where a hold was acquired, as cheaply as can be.
type callers [4]uintptr

func (c *callers) record() { runtime.Callers(5, c[:]) }

// String returns the first file and line outside of this package.
func (c *callers) String() string {
	frames := runtime.CallersFrames(c[:])
	for {
		frame, more := frames.Next()
		if !strings.HasPrefix(frame.Function, "github.com/quorumlock/redlock.(") || !more {
			return fmt.Sprintf("%s:%d", frame.File, frame.Line)
		}
	}
}

// lease is a hold that waits for its next moment.
type lease struct {
	due  time.Time
	hold *hold
}

// leases wakes each hold when its validity ends or its renewal is due: one
// goroutine and one timer for all holds of a Locker.
type leases struct {
	clock   clock
	kick    chan struct{} // holds a value when there is something new
	stop    chan struct{} // closed to end run
	stopped chan struct{} // closed by run

	mu      sync.Mutex // guards the fields below; taken after hold.mu, never before
	closed  bool
	heap    dueHeap
	armed   time.Time   // when run will look at the heap next; zero: not before a kick
	decided []extension // extensions whose outcome is certain
}

func (s *leases) start(c clock) {
	s.clock = c
	s.kick, s.stop, s.stopped = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go s.run()
}

// close ends run; every hold that is left ends with ErrClosed.
func (s *leases) close() {
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	s.closed = true
	left := slices.Clone(s.heap)
	s.mu.Unlock()
	for _, at := range left {
		at.hold.abandon()
	}
}

// abandon ends a hold that nobody will wake any more.
func (h *hold) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended() == nil {
		h.finish(ErrClosed, false)
	}
}

// set wakes the hold at the time due, instead of at an earlier set one. It reports
// whether that will happen: not where the Locker was closed. Called with h.mu held, and not for a hold that has ended:
// nobody would take that off again.
func (s *leases) set(h *hold, due time.Time) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	if h.lease == 0 {
		s.heap = append(s.heap, lease{hold: h}) // heap.Push would box it
		h.lease = int32(len(s.heap))
	}
	s.heap[h.lease-1].due = due
	heap.Fix(&s.heap, int(h.lease-1))
	wake := s.armed.IsZero() || due.Before(s.armed)
	if wake {
		s.armed = due
	}
	s.mu.Unlock()
	if wake {
		s.wake()
	}
	return true
}

func (s *leases) remove(h *hold) {
	s.mu.Lock()
	if h.lease > 0 {
		heap.Remove(&s.heap, int(h.lease-1))
	}
	s.mu.Unlock()
}

// report takes an extension whose outcome is certain. It is called by a node's
// reader, which must not be kept.
func (s *leases) report(x extension) {
	s.mu.Lock()
	s.decided = append(s.decided, x)
	s.mu.Unlock()
	s.wake()
}

func (s *leases) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *leases) run() {
	defer close(s.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []*hold
	var decided []extension
	for {
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.stop:
			return
		}
		now := s.clock.local()
		s.mu.Lock()
		decided, s.decided = s.decided, decided[:0]
		due = due[:0]
		for len(s.heap) > 0 && !s.heap[0].due.After(now) {
			due = append(due, heap.Pop(&s.heap).(*hold))
		}
		s.mu.Unlock()
		for _, x := range decided {
			x.hold.renewed(x)
		}
		for _, h := range due {
			h.tick()
		}
		clear(decided)
		clear(due)
		s.mu.Lock()
		s.armed = time.Time{}
		if len(s.heap) > 0 {
			s.armed = s.heap[0].due
			timer.Reset(s.armed.Sub(s.clock.local()))
		}
		s.mu.Unlock()
	}
}

// watch makes the leases keep an eye on a new hold.
func (h *hold) watch(k *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handles = 1
	h.renewal.stopped = !h.opts.renew
	if h.opts.renew {
		if h.opts.warns {
			h.caller.record()
		}
		h.renewal.at = h.start.local.Add(h.opts.renewAfter())
		h.renewal.handle = k
	}
	if !h.locker.leases.set(h, h.next(h.start.local)) {
		h.finish(ErrClosed, false) // it was won while Close was under way
	}
}

// next returns when the hold must be looked at again.
func (t *tenure) next(now time.Time) time.Time {
	end := t.end()
	if !t.renewal.stopped && !t.renewal.asking && t.renewal.at.Before(end) {
		end = t.renewal.at
	}
	if end.Before(now) {
		return now
	}
	return end
}

// tick is run when the hold is due: it ends the hold or asks to extend it.
func (h *hold) tick() {
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	if h.ended() != nil {
		h.mu.Unlock()
		return
	}
	ask := !h.renewal.stopped && !h.renewal.asking && !now.local.Before(h.renewal.at)
	h.renewal.asking = h.renewal.asking || ask
	if k := h.renewal.handle; ask && k != nil {
		// From now on only the user keeps the handle. Watching it from the first renewal on,
		// and not from the start, spares short holds the cost.
		runtime.AddCleanup(k, (*hold).forgotten, h)
		h.renewal.handle = nil
	}
	h.locker.leases.set(h, h.next(now.local))
	h.mu.Unlock()
	if ask {
		_, _ = h.ask(h.locker.leases.report) // an error says that the hold has ended meanwhile
	}
}

// dueHeap orders holds by when they are due; for container/heap.
type dueHeap []lease

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].hold.lease, d[j].hold.lease = int32(i+1), int32(j+1)
}

// Push is heap.Interface's, and not used: see set.
func (d *dueHeap) Push(x any) { *d = append(*d, x.(lease)) }

// Pop is heap.Interface's. It returns the hold.
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	h := (*d)[last].hold
	(*d)[last] = lease{}
	*d = (*d)[:last]
	h.lease = 0
	return h
}
