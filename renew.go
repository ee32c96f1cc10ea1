package redlock

import (
	"container/heap"
	"fmt"
	"runtime"
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

// lease is a hold's place among those that wait for their next moment.
type lease struct {
	due   time.Time
	index int // in the heap, plus one; 0: not in it
}

// leases wakes each hold when its validity ends or its renewal is due: one
// goroutine and one timer for all holds of a Locker.
type leases struct {
	clock   clock
	kick    chan struct{} // holds a value when there is something new
	stop    chan struct{} // closed to end run
	stopped chan struct{} // closed by run

	mu      sync.Mutex // guards the fields below; taken after hold.mu, never before
	heap    dueHeap
	armed   time.Time // when run will look at the heap next; zero: not before a kick
	decided []*call   // extensions whose outcome is certain
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
	left := append([]*hold(nil), s.heap...)
	s.mu.Unlock()
	for _, h := range left {
		h.mu.Lock()
		if h.err == nil {
			h.finish(ErrClosed)
		}
		h.mu.Unlock()
	}
}

// set wakes the hold at the time due, instead of at an earlier set one.
func (s *leases) set(h *hold, due time.Time) {
	s.mu.Lock()
	h.lease.due = due
	if h.lease.index == 0 {
		heap.Push(&s.heap, h)
	} else {
		heap.Fix(&s.heap, h.lease.index-1)
	}
	wake := s.armed.IsZero() || due.Before(s.armed)
	if wake {
		s.armed = due
	}
	s.mu.Unlock()
	if wake {
		s.wake()
	}
}

func (s *leases) remove(h *hold) {
	s.mu.Lock()
	if h.lease.index > 0 {
		heap.Remove(&s.heap, h.lease.index-1)
	}
	s.mu.Unlock()
}

// report takes an extension whose outcome is certain. It is called by a node's
// reader, which must not be kept.
func (s *leases) report(c *call) {
	s.mu.Lock()
	s.decided = append(s.decided, c)
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
	var decided []*call
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
		for len(s.heap) > 0 && !s.heap[0].lease.due.After(now) {
			due = append(due, heap.Pop(&s.heap).(*hold))
		}
		s.mu.Unlock()
		for _, c := range decided {
			c.hold.renewed(c)
		}
		for _, h := range due {
			h.tick()
		}
		clear(decided)
		clear(due)
		s.mu.Lock()
		s.armed = time.Time{}
		if len(s.heap) > 0 {
			s.armed = s.heap[0].lease.due
			timer.Reset(s.armed.Sub(s.clock.local()))
		}
		s.mu.Unlock()
	}
}

// renewAfter returns the pause between renewals: a third of the TTL, so that
// two may fail before the hold is in danger.
func (o *options) renewAfter() time.Duration { return o.ttl / 3 }

// retryAfter returns the pause after a failed renewal.
func (o *options) retryAfter() time.Duration { return max(o.ttl/20, time.Millisecond) }

// watch makes the leases keep an eye on a new hold.
func (h *hold) watch(k *Lock) {
	h.handles = 1
	h.renewal.stopped = !h.opts.renew
	if h.opts.renew {
		if h.opts.warns {
			h.caller.record()
		}
		h.renewal.at = h.start.local.Add(h.opts.renewAfter())
		h.renewal.handle = k
	}
	h.locker.leases.set(h, h.next(h.start.local))
}

// next returns when the hold must be looked at again. Called with mu held, or
// before the hold is shared.
func (h *hold) next(now time.Time) time.Time {
	end := h.end()
	if !h.renewal.stopped && !h.renewal.asking && h.renewal.at.Before(end) {
		end = h.renewal.at
	}
	if end.Before(now) {
		return now
	}
	return end
}

// tick is run when the hold is due: it ends the hold or asks to extend it.
func (h *hold) tick() {
	now := h.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	if h.err != nil {
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
	due := h.next(now.local)
	h.mu.Unlock()
	h.locker.leases.set(h, due)
	if ask {
		_, _ = h.ask(h.locker.leases.report) // an error says that the hold has ended meanwhile
	}
}

// renewed is run when the outcome of a renewal is certain.
func (h *hold) renewed(c *call) {
	err := h.answered(c, tally(c.votes.Load()), nil)
	c.release()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewal.asking = false
	if h.err != nil {
		return
	}
	if now := h.opts.clock.local(); err == nil {
		h.renewal.at = h.start.local.Add(h.opts.renewAfter())
	} else {
		h.renewal.at = now.Add(h.opts.retryAfter())
		h.opts.logger.Warn("renewal failed", "name", h.name, "error", err)
	}
	h.locker.leases.set(h, h.next(h.start.local))
}

// forgotten is run when nobody can reach the handle any more. The hold ends with its validity.
func (h *hold) forgotten() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err != nil || h.renewal.stopped {
		return
	}
	h.renewal.stopped = true
	h.opts.logger.Warn("lock was never unlocked and nobody can unlock it any more: it is renewed no longer",
		"name", h.name, "acquired at", h.caller.String())
}

// callers remembers where a hold was acquired, as cheaply as can be.
type callers [4]uintptr

func (c *callers) record() { runtime.Callers(4, c[:]) }

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

// dueHeap orders holds by when they are due; for container/heap.
type dueHeap []*hold

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].lease.due.Before(d[j].lease.due) }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].lease.index, d[j].lease.index = i+1, j+1
}

// Push and Pop are heap.Interface's.
func (d *dueHeap) Push(x any) {
	h := x.(*hold)
	*d = append(*d, h)
	h.lease.index = len(*d)
}

func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	h := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	h.lease.index = 0
	return h
}
