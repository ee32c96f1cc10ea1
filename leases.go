package redlock

import (
	"container/heap"
	"sync"
	"time"
)

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
	closed  bool
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
	s.closed = true
	left := append([]*hold(nil), s.heap...)
	s.mu.Unlock()
	for _, h := range left {
		h.abandon()
	}
}

// abandon ends a hold that nobody will wake any more.
func (h *hold) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.err == nil {
		h.finish(ErrClosed)
	}
}

// set wakes the hold at the time due, instead of at an earlier set one. It reports
// whether that will happen: not where the Locker was closed.
func (s *leases) set(h *hold, due time.Time) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
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
	return true
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
