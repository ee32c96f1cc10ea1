package redlock

import (
	"container/heap"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// renewal is the state of a hold's renewal. Guarded by hold.mu.
type renewal struct {
	at      time.Time // when the next extension is due
	pending bool      // an extension is in flight
	stopped bool      // no more extensions: switched off by option, or the handle was garbage collected
	handle  *Lock     // keeps the handle reachable until the first renewal, which adds the cleanup
}

// renewAfter returns the pause between renewals: a third of the TTL, so that two may fail before the hold is in danger.
func (o *options) renewAfter() time.Duration { return o.ttl / 3 }

// firstRenewal returns when a hold that was just acquired is to be extended. A lease has little to spare, so that is
// soon; but most holds of a lock that many want are shorter, and need no extension.
func (t *tenure) firstRenewal() time.Time {
	if t.term < t.opts.ttl {
		return t.opts.clock.local().Add(t.term / 10)
	}
	return t.start.local.Add(t.opts.renewAfter())
}

// retryAfter returns the pause after a failed renewal.
func retryAfter(ttl time.Duration) time.Duration { return max(ttl/20, time.Millisecond) }

// renewed is run when the outcome of a renewal is certain.
func (h *hold) renewed(x extension) {
	err := h.concludeExtension(x, quorum.Tally(x.round.votes.Load()), nil)
	x.round.Done()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended() != nil {
		return
	}
	h.renewal.pending = false
	if now := h.opts.clock.local(); err == nil {
		h.renewal.at = h.start.local.Add(h.opts.renewAfter())
	} else {
		h.renewal.at = now.Add(retryAfter(h.term))
	}
	h.locker.schedule.set(h, h.next(h.start.local))
}

// forgotten is run when the handle was garbage collected, and with it all contexts that end with the hold, so that
// nothing can unlock it. Renewal stops, and the hold ends with its validity.
func (h *hold) forgotten() {
	h.mu.Lock()
	over := h.ended() != nil || h.renewal.stopped
	var caller callers
	if !over {
		h.renewal.stopped, caller = true, h.caller
		h.detail = ": its handle was garbage collected without Unlock"
	}
	h.mu.Unlock()
	if over {
		return
	}
	h.locker.opts.logger.Warn("lock was never unlocked and its handle was garbage collected: it is no longer renewed",
		"name", h.name, "acquired at", caller.String())
}

// callers records where a hold was acquired. Program counters are cheap; only String resolves them.
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

// abandon ends a hold that the schedule no longer wakes, since the Locker is closed.
func (h *hold) abandon() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended() == nil {
		h.finish(ErrClosed, false)
	}
	h.unkeep() // as with a hold that is valid, what the nodes have protects work that is still running
}

func (h *hold) position() *int32 { return &h.scheduled }

// watch enters a new hold in the schedule. k is its first handle, or nil.
func (h *hold) watch(k *Lock) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.handles = 1
	h.renewal.stopped = !h.opts.renew
	if h.opts.renew {
		if h.opts.warns {
			h.caller.record()
		}
		h.renewal.at = h.firstRenewal()
		h.renewal.handle = k
	}
	if !h.locker.schedule.set(h, h.next(h.start.local)) {
		h.finish(ErrClosed, false) // it was acquired during Close
	}
}

// next returns when the schedule must wake the hold: at its end, or before that for its renewal; not before now.
func (t *tenure) next(now time.Time) time.Time {
	end := t.end()
	if !t.renewal.stopped && !t.renewal.pending && t.renewal.at.Before(end) {
		end = t.renewal.at
	}
	if end.Before(now) {
		return now
	}
	return end
}

// wake is run when the hold is due: it ends the hold if its time is up, and else extends it if its renewal is due.
func (h *hold) wake() {
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	if h.ended() != nil {
		if h.isKept() && h.valid(now) <= 0 { // else it is in the schedule: it was kept after it had become due
			h.letGo()
		}
		h.mu.Unlock()
		return
	}
	extend := !h.renewal.stopped && !h.renewal.pending && !now.local.Before(h.renewal.at)
	h.renewal.pending = h.renewal.pending || extend
	if k := h.renewal.handle; extend && k != nil {
		// From now on only the program keeps the handle reachable. The cleanup is added at the first renewal, and not at the
		// start, to spare short holds its cost.
		runtime.AddCleanup(k, (*hold).forgotten, h)
		h.renewal.handle = nil
	}
	h.locker.schedule.set(h, h.next(now.local))
	h.mu.Unlock()
	if extend {
		_, _ = h.sendExtension(h.renewed) // an error says that the hold has ended meanwhile
	}
}

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

// close ends run, and abandons the sleepers that are still in the heap. It returns how many these are.
func (s *schedule) close() int {
	close(s.stop)
	<-s.stopped
	s.mu.Lock()
	s.closed = true
	left := slices.Clone(s.heap)
	s.mu.Unlock()
	for _, item := range left {
		item.sleeper.abandon()
	}
	return len(left)
}

// waits reports whether there are sleepers.
func (s *schedule) waits() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.heap) > 0
}

// set schedules the sleeper for the time due, which replaces the time that was set before. It returns false, and does
// nothing, if the schedule is closed. A hold calls it with hold.mu held, and only before it has ended or to be kept:
// otherwise nothing would remove it from the heap.
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
