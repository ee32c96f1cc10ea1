// Package schedule wakes each of many sleepers when it is due, with one goroutine and timer. It knows nothing of them.
package schedule

import (
	"container/heap"
	"sync"
	"time"
)

// Schedule wakes sleepers until it is closed.
type Schedule struct {
	now     func() time.Time
	empty   func()        // called when no sleeper is left, without mu
	kick    chan struct{} // holds a value when run must look at the heap or the tasks
	stop    chan struct{} // closed to end run
	stopped chan struct{} // closed by run when it ends

	mu     sync.Mutex // guards the fields below; no sleeper and no task is called while it is held
	closed bool
	heap   dueHeap
	armed  time.Time // when run looks at the heap next; zero: not before a kick
	tasks  []func()  // for run to carry out
	waking bool      // run wakes sleepers that it took out, and that may come back
}

// Sleeper is what a schedule wakes.
type Sleeper interface {
	Wake()            // called when it is due
	Abandon()         // called if the schedule is closed before it is due
	Name() string     // for people
	Position() *int32 // its index in the heap plus one; 0: it is not in the heap; guarded by Schedule.mu
}

// Start begins to wake. now is the clock. empty is called, without a lock of the schedule, whenever no sleeper is left.
func (s *Schedule) Start(now func() time.Time, empty func()) {
	s.now, s.empty = now, empty
	s.kick, s.stop, s.stopped = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
	go s.run() // until Close, which waits for it
}

// Close ends run, and abandons the sleepers that are still in the heap. It returns how many these are.
func (s *Schedule) Close() int {
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	left := s.Sleepers()
	for _, p := range left {
		p.Abandon()
	}
	return len(left)
}

// Waits reports whether there are sleepers.
func (s *Schedule) Waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heap) > 0
}

// Set schedules the sleeper for the time due, in place of the one before. It returns false, and does nothing, if the
// schedule is closed. The caller sees to it that Remove comes later: nothing else takes it out before it is due.
func (s *Schedule) Set(p Sleeper, due time.Time) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	at := p.Position()
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

// Remove takes a sleeper out, if it is in.
func (s *Schedule) Remove(p Sleeper) {
	s.mu.Lock()
	if at := *p.Position(); at > 0 {
		heap.Remove(&s.heap, int(at-1))
	}
	empty := s.isEmpty()
	s.mu.Unlock()
	if empty {
		s.empty()
	}
}

// isEmpty reports whether no sleeper is left. One that is being woken may come back. The caller holds mu.
func (s *Schedule) isEmpty() bool { return len(s.heap) == 0 && !s.waking }

// EmptyAnd reports whether no sleeper is left and, at the same moment, also is true. also must not wait.
func (s *Schedule) EmptyAnd(also func() bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isEmpty() && also()
}

// Sleepers returns those that are left.
func (s *Schedule) Sleepers() (left []Sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range s.heap {
		left = append(left, item.sleeper)
	}
	return left
}

// Do has the goroutine that wakes sleepers carry out a task, and does not wait.
func (s *Schedule) Do(task func()) {
	s.mu.Lock()
	s.tasks = append(s.tasks, task)
	s.mu.Unlock()
	s.rouse()
}

func (s *Schedule) rouse() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

func (s *Schedule) run() {
	defer close(s.stopped)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var due []Sleeper
	var tasks []func()
	for {
		select {
		case <-timer.C:
		case <-s.kick:
		case <-s.stop:
			return
		}
		now := s.now()
		s.mu.Lock()
		tasks, s.tasks = s.tasks, tasks[:0]
		due = due[:0]
		for len(s.heap) > 0 && !s.heap[0].due.After(now) {
			due = append(due, heap.Pop(&s.heap).(Sleeper))
		}
		s.waking = len(due) > 0
		s.mu.Unlock()
		for _, task := range tasks {
			task()
		}
		for _, p := range due {
			p.Wake()
		}
		clear(tasks)
		clear(due)
		s.mu.Lock()
		empty := s.waking && len(s.heap) == 0
		s.waking = false
		s.armed = time.Time{}
		if len(s.heap) > 0 {
			s.armed = s.heap[0].due
			timer.Reset(s.armed.Sub(s.now()))
		}
		s.mu.Unlock()
		if empty {
			s.empty()
		}
	}
}

// dueHeap orders sleepers by when they are due; for container/heap.
type dueHeap []scheduled

type scheduled struct {
	due     time.Time
	sleeper Sleeper
}

func (d dueHeap) Len() int           { return len(d) }
func (d dueHeap) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dueHeap) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	*d[i].sleeper.Position(), *d[j].sleeper.Position() = int32(i+1), int32(j+1)
}

// Push implements heap.Interface. It is not used: see Set.
func (d *dueHeap) Push(x any) { *d = append(*d, x.(scheduled)) }

// Pop implements heap.Interface. It returns the sleeper.
func (d *dueHeap) Pop() any {
	last := len(*d) - 1
	p := (*d)[last].sleeper
	(*d)[last] = scheduled{}
	*d = (*d)[:last]
	*p.Position() = 0
	return p
}
