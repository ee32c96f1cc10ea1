package redlock

import (
	"container/heap"
	"slices"
	"sync"
	"time"
)

// schedule wakes each hold when its validity ends or its renewal is due: one goroutine and one timer for all holds of a
// Locker. It knows holds only as sleepers.
type schedule struct {
	clock   clock
	kick    chan struct{} // holds a value when run must look at the heap or the tasks
	stop    chan struct{} // closed to end run
	stopped chan struct{} // closed by run when it ends

	mu     sync.Mutex // guards the fields below; taken after hold.mu, never before
	closed bool
	heap   dueHeap
	armed  time.Time // when run looks at the heap next; zero: not before a kick
	tasks  []func()  // for run to carry out
}

// sleeper is what a schedule wakes.
type sleeper interface {
	wake()            // called when it is due
	abandon()         // called if the schedule is closed before it is due
	position() *int32 // its index in the heap plus one; 0: it is not in the heap; guarded by schedule.mu
}

func (s *schedule) start(c clock) {
	s.clock = c
	s.kick, s.stop, s.stopped = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go s.run() // until close, which waits for it
}

// close ends run, and abandons the sleepers that are still in the heap.
func (s *schedule) close() {
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	s.closed = true
	left := slices.Clone(s.heap)
	s.mu.Unlock()
	for _, item := range left {
		item.sleeper.abandon()
	}
}

// set schedules the sleeper for the time due, which replaces the time that was set before. It returns false, and does
// nothing, if the schedule is closed. A hold calls it with hold.mu held and only before it has ended: afterwards
// nothing would remove it from the heap.
func (s *schedule) set(p sleeper, due time.Time) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	at := p.position()
	if *at == 0 {
		s.heap = append(s.heap, scheduled{sleeper: p}) // heap.Push would allocate
		*at = int32(len(s.heap))
	}
	s.heap[*at-1].due = due
	heap.Fix(&s.heap, int(*at-1))
	sooner := s.armed.IsZero() || due.Before(s.armed)
	if sooner {
		s.armed = due
	}
	s.mu.Unlock()
	if sooner {
		s.rouse()
	}
	return true
}

func (s *schedule) remove(p sleeper) {
	s.mu.Lock()
	if at := *p.position(); at > 0 {
		heap.Remove(&s.heap, int(at-1))
	}
	s.mu.Unlock()
}

// do has run carry out a task. Its caller is the goroutine that reads a node's replies, which must not be held up.
func (s *schedule) do(task func()) {
	s.mu.Lock()
	s.tasks = append(s.tasks, task)
	s.mu.Unlock()
	s.rouse()
}

func (s *schedule) rouse() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *schedule) run() {
	defer close(s.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []sleeper
	var tasks []func()
	for {
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.stop:
			return
		}
		now := s.clock.local()
		s.mu.Lock()
		tasks, s.tasks = s.tasks, tasks[:0]
		due = due[:0]
		for len(s.heap) > 0 && !s.heap[0].due.After(now) {
			due = append(due, heap.Pop(&s.heap).(sleeper))
		}
		s.mu.Unlock()
		for _, task := range tasks {
			task()
		}
		for _, p := range due {
			p.wake()
		}
		clear(tasks)
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

// dueHeap orders sleepers by when they are due; for container/heap.
type dueHeap []scheduled

type scheduled struct {
	due     time.Time
	sleeper sleeper
}

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	*d[i].sleeper.position(), *d[j].sleeper.position() = int32(i+1), int32(j+1)
}

// Push implements heap.Interface. It is not used: see set.
func (d *dueHeap) Push(x any) { *d = append(*d, x.(scheduled)) }

// Pop implements heap.Interface. It returns the sleeper.
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	p := (*d)[last].sleeper
	(*d)[last] = scheduled{}
	*d = (*d)[:last]
	*p.position() = 0
	return p
}
