package schedule_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/schedule"
)

// night is a schedule in virtual time, and what has happened since it began, each with the second.
type night struct {
	schedule.Schedule
	t       *testing.T
	begun   time.Time
	emptied atomic.Int64 // how often it was

	mu    sync.Mutex // guards the fields below
	looks int
	log   []string
}

func begin(t *testing.T, f func(n *night)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := &night{t: t, begun: time.Now()}
		n.Start(func() time.Time {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.looks++
			return time.Now()
		}, func() { n.emptied.Add(1) })
		f(n)
	})
}

func (n *night) at(second int) time.Time { return n.begun.Add(time.Duration(second) * time.Second) }

func (n *night) note(what string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, fmt.Sprint(what, " at ", time.Since(n.begun).Seconds()))
}

// expect fails the test unless this alone has happened since the last call. It returns how often the clock was read.
func (n *night) expect(want ...string) (looks int) {
	n.t.Helper()
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Equal(n.log, want) {
		n.t.Errorf("got %q, want %q", n.log, want)
	}
	looks, n.looks, n.log = n.looks, 0, nil
	return looks
}

type sleeper struct {
	*night
	name     string
	position int32
	then     func() // run in Wake, or nil
}

func (s *sleeper) Name() string { return s.name }

func (s *sleeper) Position() *int32 { return &s.position }
func (s *sleeper) Abandon()         { s.note(s.name + " abandoned") }

func (s *sleeper) Wake() {
	if s.note(s.name); s.then != nil {
		s.then()
	}
}

func TestSleepersWakeWhenTheyAreDue(t *testing.T) {
	begin(t, func(n *night) {
		a, b, c := &sleeper{night: n, name: "a"}, &sleeper{night: n, name: "b"}, &sleeper{night: n, name: "c"}
		a.then = func() { a.then = nil; n.Set(a, n.at(8)) } // as a hold does that is to be extended again
		n.Set(c, n.at(2))
		n.Set(a, n.at(3))
		n.Set(b, n.at(4))
		n.Set(b, n.at(1)) // replaces 4
		n.Remove(c)
		n.Remove(c) // which is not in
		n.Do(func() { n.note("x"); n.Do(func() { n.note("z") }) })
		n.Do(func() { n.note("y") })
		n.expect("x at 0", "y at 0", "z at 0")
		time.Sleep(5 * time.Second)
		n.Set(c, n.at(0)) // is over
		time.Sleep(time.Minute)
		n.expect("b at 1", "a at 3", "c at 5", "a at 8")
		n.Set(b, n.at(66)) // while nothing is due
		time.Sleep(2 * time.Second)
		n.expect("b at 66")
		n.Set(a, n.at(99))
		if left := n.Close(); left != 1 || !n.Waits() || n.Set(b, n.at(70)) {
			t.Errorf("%d were left, want 1; or one was taken after the end", left)
		}
		n.expect("a abandoned at 67")
	})
}

// A sleeper that is being woken may come back, and until then the schedule is not empty.
func TestAScheduleIsNotEmptyWhileItWakes(t *testing.T) {
	begin(t, func(n *night) {
		yes := func() bool { return true }
		a := &sleeper{night: n, name: "a"}
		a.then = func() {
			if n.EmptyAnd(yes) || n.emptied.Load() > 0 {
				t.Error("empty while it wakes")
			}
			if time.Since(n.begun) < 3*time.Second {
				n.Set(a, n.at(3))
			}
		}
		n.Set(a, n.at(1))
		if left := n.Sleepers(); len(left) != 1 || n.EmptyAnd(yes) {
			t.Errorf("%v are left", left)
		}
		time.Sleep(time.Minute)
		n.expect("a at 1", "a at 3")
		if !n.EmptyAnd(yes) || n.EmptyAnd(func() bool { return false }) || n.emptied.Load() != 1 {
			t.Errorf("not empty, or emptied %d times, want 1", n.emptied.Load())
		}
		n.Set(a, n.at(99))
		n.Remove(a)
		if n.emptied.Load() != 2 {
			t.Error("not emptied by Remove")
		}
		n.Close()
	})
}

// One goroutine and one timer wake all, and it looks at the clock only when some are due.
func TestManySleepersNeedOneGoroutine(t *testing.T) {
	begin(t, func(n *night) {
		goroutines, want := runtime.NumGoroutine(), make([]string, 1000)
		for _, i := range rand.Perm(len(want)) {
			s := &sleeper{night: n, name: "some"}
			n.Set(s, n.at(1+rand.IntN(200)))
			n.Set(s, n.at(100+i/10))
			want[i] = fmt.Sprint("some at ", 100+i/10)
		}
		n.expect()
		time.Sleep(time.Hour)
		if looks, more := n.expect(want...), runtime.NumGoroutine()-goroutines; more > 0 || looks > 2*(100+1) {
			t.Errorf("%d more goroutines, and for 100 moments and one that was replaced %d looks at the clock", more, looks)
		}
		n.Close()
	})
}
