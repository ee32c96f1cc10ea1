package redlockgocron_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/quorumlock/redlock"
	redlockgocron "github.com/quorumlock/redlock/gocron"
	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/sim"
)

func TestMain(m *testing.M) {
	boottime.Disable() // virtual time has no such clock
	os.Exit(m.Run())
}

// world is modelled masters in virtual time, and what machines with real schedulers did.
type world struct {
	*testing.T
	net   *sim.Network
	nodes []*sim.Node
	begun time.Time

	mu   sync.Mutex
	runs []ran // guarded by mu
}

// ran is one run of a job.
type ran struct {
	machine string
	at      time.Duration // since the beginning
}

func bubble(t *testing.T, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &world{T: t, net: sim.NewNetwork(1), begun: time.Now()}
		for i := range 3 {
			node := sim.NewNode(fmt.Sprintf("n%d:6379", i), uint64(i))
			w.net.Attach(node)
			w.nodes = append(w.nodes, node)
		}
		t.Cleanup(func() {
			for _, n := range w.nodes {
				n.Close()
			}
		})
		f(w)
	})
}

func (w *world) locker(machine string) *redlock.Locker {
	w.Helper()
	var urls []string
	for _, n := range w.nodes {
		urls = append(urls, "redis://"+n.Addr())
	}
	l := cases.Must(redlock.New(urls, redlock.WithNodeConfig(redlock.NodeConfig{Dial: w.net.Dialer(machine)})))(w)
	w.Cleanup(func() { _ = l.Close() })
	return l
}

// schedule has a machine run the job every so often, beginning after late.
func (w *world) schedule(
	machine string, every, late, length time.Duration, share gocron.SchedulerOption,
) gocron.Scheduler {
	w.Helper()
	s := cases.Must(gocron.NewScheduler(share))(w)
	job := func() {
		w.mu.Lock()
		w.runs = append(w.runs, ran{machine, time.Since(w.begun)})
		w.mu.Unlock()
		time.Sleep(length)
	}
	cases.Must(s.NewJob(gocron.DurationJob(every), gocron.NewTask(job), gocron.WithName("report"),
		gocron.WithStartAt(gocron.WithStartDateTime(w.begun.Add(every+late)))))(w)
	s.Start()
	return s
}

func (w *world) shutdown(all ...gocron.Scheduler) {
	w.Helper()
	for _, s := range all {
		cases.NoError(w, s.Shutdown())
	}
}

// ticks returns in which ticks the job was run, and by whom.
func (w *world) ticks(every time.Duration) (ticks []int, machines map[string]int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	machines = make(map[string]int)
	for _, r := range w.runs {
		ticks = append(ticks, int(r.at/every))
		machines[r.machine]++
	}
	slices.Sort(ticks)
	return ticks, machines
}

// Two schedulers, one job: it is run once a tick, also where one wakes when the other has finished.
func TestAJobIsRunOnceATick(t *testing.T) {
	const every = 10 * time.Second
	for _, late := range []time.Duration{0, time.Microsecond, 3 * time.Millisecond, 900 * time.Millisecond} {
		bubble(t, func(w *world) {
			a := w.schedule("a", every, 0, 50*time.Millisecond,
				gocron.WithDistributedLocker(redlockgocron.NewLocker(w.locker("a"), time.Second)))
			b := w.schedule("b", every, late, 50*time.Millisecond,
				gocron.WithDistributedLocker(redlockgocron.NewLocker(w.locker("b"), time.Second)))
			time.Sleep(10*every + every/2)
			w.shutdown(a, b)
			ticks, machines := w.ticks(every)
			if want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}; late > 0 && !slices.Equal(ticks, want) {
				w.Errorf("late by %v: run in the ticks %v, want %v", late, ticks, want)
			}
			// At the very same instant votes may split, and if the older asks again in vain, nobody has the tick; never both.
			if len(slices.Compact(slices.Clone(ticks))) != len(ticks) {
				w.Errorf("late by %v: run in the ticks %v: twice in one", late, ticks)
			}
			w.Logf("late by %v: %v in the ticks %v", late, machines, ticks)
		})
	}
}

// The lock is not let go of before others that are late have come, and then it is.
func TestALockOutlivesAShortRun(t *testing.T) {
	bubble(t, func(w *world) {
		a, b := redlockgocron.NewLocker(w.locker("a"), time.Second), redlockgocron.NewLocker(w.locker("b"), time.Second)
		run := cases.Must(a.Lock(w.Context(), "report"))(w)
		cases.NoError(w, run.Unlock(w.Context()))
		time.Sleep(990 * time.Millisecond)
		if _, err := b.Lock(w.Context(), "report"); !errors.Is(err, redlock.ErrTaken) {
			w.Errorf("within the splay: got %v, want ErrTaken", err)
		}
		time.Sleep(20 * time.Millisecond)
		second := cases.Must(b.Lock(w.Context(), "report"))(w) // after the splay
		time.Sleep(2 * time.Second)                            // longer than the splay: let go of at once
		cases.NoError(w, second.Unlock(w.Context()))
		if _, err := a.Lock(w.Context(), "report"); err != nil {
			w.Errorf("after a long run: %v", err)
		}
	})
}

// A job, and what the leader runs, may lock the name of the job, or of the leadership.
func TestAJobMayLockItsOwnName(t *testing.T) {
	bubble(t, func(w *world) {
		l := w.locker("a")
		cases.Must(redlockgocron.NewLocker(l, time.Second).Lock(w.Context(), "report"))(w)
		cases.NoError(w, redlockgocron.NewElector(l, "leader").IsLeader(w.Context()))
		for _, name := range []string{"report", "leader"} {
			cases.Must(l.TryLock(w.Context(), name))(w)
		}
	})
}

// One leader runs everything. When its hold ends it knows so by itself, and another follows.
func TestOneLeader(t *testing.T) {
	const every = 10 * time.Second
	bubble(t, func(w *world) {
		a, b := redlockgocron.NewElector(w.locker("a"), "leader"), redlockgocron.NewElector(w.locker("b"), "leader")
		sa := w.schedule("a", every, 0, 0, gocron.WithDistributedElector(a))
		sb := w.schedule("b", every, time.Second, 0, gocron.WithDistributedElector(b))
		time.Sleep(3*every + every/2)
		if _, machines := w.ticks(every); machines["a"] != 3 || machines["b"] != 0 {
			w.Errorf("in the first ticks: %v, want three by a", machines)
		}
		if a.Lock() == nil || b.Lock() != nil {
			w.Errorf("the leader is not a alone")
		}
		hold := a.Lock()
		// a is cut off: its hold cannot be renewed, and it is the leader no more before b can be.
		for _, n := range w.nodes {
			w.net.Drop(sim.Link{Client: "a", Node: n.Addr()}, sim.Both)
		}
		<-hold.Done()
		if err := a.IsLeader(w.Context()); err == nil || a.Lock() != nil {
			w.Errorf("a is the leader without its hold")
		}
		time.Sleep(3 * every)
		ticks, machines := w.ticks(every)
		if machines["b"] < 2 || len(slices.Compact(slices.Clone(ticks))) != len(ticks) {
			w.Errorf("after the loss: %v in the ticks %v", machines, ticks)
		}
		w.shutdown(sa, sb)
		cases.NoError(w, b.Close(w.Context()))
		if err := b.IsLeader(w.Context()); !errors.Is(err, redlock.ErrClosed) {
			w.Errorf("after Close: got %v, want ErrClosed", err)
		}
		for _, n := range w.nodes {
			w.net.Heal(sim.Link{Client: "a", Node: n.Addr()}, sim.Both)
		}
		time.Sleep(20 * time.Second)
		if err := a.IsLeader(w.Context()); err != nil {
			w.Errorf("after the other has resigned: %v", err)
		}
		// Close lets go of a hold that the masters keep beyond its maximum, for jobs that still run.
		c := redlockgocron.NewElector(w.locker("c"), "term", redlock.WithMaxHold(time.Second))
		led := c.IsLeader(w.Context())
		time.Sleep(2 * time.Second)
		err := errors.Join(led, c.Close(w.Context()))
		if d := redlockgocron.NewElector(w.locker("d"), "term").IsLeader(w.Context()); err != nil || d != nil {
			w.Errorf("past the longest term: %v, and the next: %v", err, d)
		}
	})
}
