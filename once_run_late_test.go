package redlock

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/runs"
	"github.com/quorumlock/redlock/internal/sim"
)

// onceCall is the outcome of a call of Once in another goroutine.
type onceCall struct {
	err  error
	ran  bool
	done chan struct{}
}

func startOnce(t *testing.T, l *Locker, fn func(context.Context, *Lock) error, opts ...OnceOption) *onceCall {
	t.Helper()
	c := &onceCall{done: make(chan struct{})}
	go func() {
		defer close(c.done)
		c.err = l.Once(t.Context(), "job", func(ctx context.Context, lock *Lock) error {
			c.ran = true
			return fn(ctx, lock)
		}, opts...)
	}()
	return c
}

// slow delays what a client sends to nodes, or stops the delay if by is 0.
func (fl *fleet) slow(client string, by time.Duration, nodes ...int) {
	delay := sim.LAN
	if by > 0 {
		delay = sim.Delay{Min: by, Max: by}
	}
	for _, i := range nodes {
		fl.net.SetDelay(link0(client, i), sim.Up, delay)
	}
}

// A holds the lock on nodes 0, 1 and 3. Its success is on its way to 0 and 1 when B gets the lock on 2, 3 and 4. B must
// not count the registers of 0 and 1: they do not know B's token, and will accept A's success afterwards. Node 3, which
// has recorded the success, is slow.
func TestOnceCountsOnlyNodesThatRefuseEarlierHolders(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		for _, i := range []int{2, 4} {
			fl.net.Refuse(link0("a", i))
		}
		a, b, c := fl.locker("a", WithoutRenewal()), fl.locker("b", WithoutRenewal()), fl.locker("c")
		slowed := false
		fl.nodes[3].Observe(func(cmd sim.Command) {
			if cmd.Client == "b" && slices.Contains(cmd.Args, protocol.Acquire.Script.SHA) && !slowed {
				slowed = true
				fl.slow("b", 400*ms, 3)
				time.AfterFunc(500*ms, func() { fl.slow("b", 0, 3) })
			}
		})
		first := startOnce(t, a, func(context.Context, *Lock) error {
			fl.slow("a", 100*ms, 0, 1)
			return nil
		})
		time.Sleep(20 * ms)
		fl.nodes[3].Do("DEL", "job") // as if its clock had jumped
		second := startOnce(t, b, succeed)
		time.Sleep(150 * ms)
		third := c.TryOnce(t.Context(), "job", mustNotRun(t))
		<-first.done
		<-second.done
		if !slowed {
			t.Error("the node was never slow")
		}
		if !errors.Is(third, ErrAlreadyRun) || first.err != nil || second.ran || !errors.Is(second.err, ErrAlreadyRun) {
			t.Errorf("A got %v, B %v, C %v; want one success, and ErrAlreadyRun twice", first.err, second.err, third)
		}
	})
}

// The process is suspended right after the run, for longer than the nodes remember anything of the hold. They would
// still accept the success.
func TestOnceWritesNothingAfterTheHold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithoutRenewal())
		var stopped atomic.Bool
		suspended := func() time.Duration {
			if calledBy("succeed") {
				stopped.Store(true)
			}
			if stopped.Load() {
				return time.Hour
			}
			return 0
		}
		l.opts.clock.boot = func() time.Duration { return time.Second + suspended() }
		l.opts.clock.suspension.wall = func(now time.Time) int64 { return now.Add(suspended()).UnixNano() }
		err := l.Once(t.Context(), "job", succeed)
		fails(t, err, ErrLost)
		fl.wantRegister("job", "1 begun, 1 begun, 1 begun")
	})
}

// calledBy reports whether the given method of job is on this goroutine's call stack.
func calledBy(method string) bool {
	var pcs [32]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(1, pcs[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, "(*job)."+method) {
			return true
		}
		if !more {
			return false
		}
	}
}

// A success that arrives after its end does not count, although the nodes have dropped the tokens by then. Nor does it
// if an extension restores the key just before.
func TestOnceLateSuccessDoesNotCount(t *testing.T) {
	for _, c := range []struct {
		name    string
		ext     bool          // an extension is on its way, too
		late    time.Duration // how late they are
		another error         // what another call returns soon after that
	}{
		{"in time, and the key has ended", false, 15 * time.Second, nil},
		{"late", false, 3 * time.Minute, nil},
		{"in time, behind an extension", true, 40 * time.Second, ErrAlreadyRun},
		{"late, behind an extension", true, 3 * time.Minute, nil},
	} {
		subtest(t, c.name, 3, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a", WithDoneTTL(time.Minute)), fl.locker("b", WithDoneTTL(time.Minute))
			var ended time.Time
			first := startOnce(t, a, func(ctx context.Context, _ *Lock) error {
				for i := range fl.nodes[1:] {
					fl.net.Drop(link0("a", 1+i), sim.Both)
				}
				fl.net.Hold(link0("a", 0), sim.Up)
				if c.ext {
					lock, _ := FromContext(ctx)
					extended, cancel := context.WithTimeout(ctx, ms)
					defer cancel()
					_ = lock.Extend(extended)
				}
				ended = time.Now()
				return nil
			})
			<-first.done
			failsAlone(t, first.err, ErrNoQuorum, ErrLost)
			_ = a.Close()
			time.Sleep(c.late - time.Since(ended))
			fl.nodes[0].Do("DEL", tokensName) // trimmed
			fl.net.Release(link0("a", 0), sim.Up)
			settleNetwork()
			if c.another != nil {
				// After the key has expired on that node again, another call reads the success there. It ends as early as
				// if it had arrived at once.
				time.Sleep(11 * time.Second)
				fails(t, b.Once(t.Context(), "job", mustNotRun(t)), c.another, "the next call")
				time.Sleep(time.Minute + 2*time.Second - time.Since(ended))
			}
			equals(t, b.Once(t.Context(), "job", succeed), nil, "%s after the run, another one", time.Since(ended))
		})
	}
}

// A node that was away during the run gets the success when it is back, so that another node may lose it afterwards.
func TestOnceSuccessIsDeliveredToNodesThatWereAway(t *testing.T) {
	for _, keeps := range []bool{true, false} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			fl.nodes[2].Crash(keeps)
			succeeds(t, a.Once(t.Context(), "job", succeed))
			time.Sleep(20 * time.Minute)
			fl.nodes[2].Restart()
			time.Sleep(5 * time.Second)
			fl.wantRegister("job", "1 done, 1 done, 1 done")
			between(t, fl.nodes[2].Do("PTTL", "redlock:once:job").(int64), 0, 100*60_000, "the entry's TTL there, in ms")
			time.Sleep(time.Minute) // the node votes again
			fl.nodes[0].Crash(false)
			fl.nodes[0].Restart()
			time.Sleep(time.Minute)
			fl.nodes[1].Pause()
			fails(t, b.Once(t.Context(), "job", mustNotRun(t)), ErrAlreadyRun,
				"one node is empty, one is silent, and one was away during the run")
		})
	}
}

// The success is delivered even if other clients wait for the job and have proposed larger tokens to the node by then.
func TestOnceSuccessIsDeliveredDespiteWaiters(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		fl.nodes[2].Crash(false)
		settleNetwork()
		var second *onceCall
		succeeds(t, a.Once(t.Context(), "job", func(context.Context, *Lock) error {
			fl.net.Refuse(link0("a", 2))
			fl.nodes[2].Restart()
			time.Sleep(35 * time.Second)
			second = startOnce(t, b, mustNotRun(t))
			time.Sleep(5 * time.Second)
			return nil
		}))
		<-second.done
		fails(t, second.err, ErrAlreadyRun, "the waiter")
		_ = b.Close()
		fl.mend("a", 2)
		time.Sleep(2 * time.Second)
		fl.wantRegister("job", "1 done, 1 done, 1 done")
	})
}

// The number of deliveries that wait for an unreachable node is bounded, and each is dropped at its entry's end.
func TestOnceDeliveriesDoNotPileUp(t *testing.T) {
	const most = 1024 // as in internal/redisconn
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithDoneTTL(time.Minute))
		fl.nodes[2].Crash(false)
		settleNetwork()
		waiting := l.nodes[2].conn.Backlog
		j := &job{locker: l, opts: l.opts, name: "job", key: "job"}
		for range 2 * most {
			j.deliver(runs.Text(5, 1, runs.Done), l.electorate.All, l.opts.clock.now(), time.Minute)
		}
		equals(t, waiting(), most, "deliveries that wait for the node")
		time.Sleep(time.Minute + 5*time.Second)
		equals(t, waiting(), 0, "deliveries that wait after their end")
	})
}

// A majority records the success while the hold is valid, but its answers arrive when the hold is over: the success
// counts, as other clients read it.
func TestOnceSuccessOnAMajorityCounts(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a", WithoutRenewal(), WithTTL(2*time.Second)), fl.locker("b")
		err := a.Once(t.Context(), "job", func(ctx context.Context, _ *Lock) error {
			lock, _ := FromContext(ctx)
			time.Sleep(time.Until(lock.Deadline()) - 10*ms)
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Down, sim.Delay{Min: 50 * ms, Max: 50 * ms})
			return nil
		})
		succeeds(t, err)
		fails(t, b.Once(t.Context(), "job", mustNotRun(t)), ErrAlreadyRun, "the next call")
	})
}

// ErrLost means that the run has failed, ErrNoQuorum that its outcome is unknown. An error is never both.
func TestOnceReturnsLostOrNoQuorum(t *testing.T) {
	for _, c := range []struct {
		name string
		in   func(fl *fleet) // the run
		want error
		last string // the registers in the end
	}{
		{"all refuse", func(fl *fleet) {
			fl.nodes.do("SET", "job", "thief", "PX", 60_000)
		}, ErrLost, "1 begun, 1 begun, 1 begun"},
		{"another client had the lock in between", func(fl *fleet) {
			for _, n := range fl.nodes {
				n.Do("ZADD", tokensName, n.Now().Add(time.Second).UnixMicro(), "job") // a larger token
			}
		}, ErrLost, "1 begun, 1 begun, 1 begun"},
		{"no node can be asked", func(fl *fleet) {
			for i := range fl.nodes {
				fl.net.Refuse(link0("a", i))
				fl.net.Reset(link0("a", i))
			}
			time.Sleep(15 * ms) // until an attempt to connect was refused
		}, ErrLost, "1 begun, 1 begun, 1 begun"},
		{"one node takes it", func(fl *fleet) {
			fl.nodes[1:].do("SET", "job", "thief", "PX", 60_000)
		}, ErrNoQuorum, "1 done, 1 begun, 1 begun"},
		{"one node takes it, and the others are down", func(fl *fleet) { fl.down(1, 2) }, ErrNoQuorum, "1 done, -, -"},
		{"no node receives it", func(fl *fleet) {
			fl.net.Drop(sim.Link{Client: "a"}, sim.Both)
		}, ErrNoQuorum, "1 begun, 1 begun, 1 begun"},
		{"no answer arrives", func(fl *fleet) {
			fl.net.Drop(sim.Link{Client: "a"}, sim.Down)
		}, ErrNoQuorum, "1 done, 1 done, 1 done"},
	} {
		subtest(t, c.name, 3, func(t *testing.T, fl *fleet) {
			err := fl.locker("a", WithoutRenewal()).Once(t.Context(), "job", func(context.Context, *Lock) error {
				c.in(fl)
				return nil
			})
			for _, kind := range []error{ErrLost, ErrNoQuorum, ErrTaken, context.DeadlineExceeded, context.Canceled} {
				if is, want := errors.Is(err, kind), kind == c.want; is != want { //nolint:errorlint // our own values
					t.Errorf("got %v: is it %v? %t", err, kind, is)
				}
			}
			fl.wantRegister("job", c.last)
		})
	}
}

// If the call ends before the run could be recorded, the error is ErrNoQuorum and the reason for the end. It is never
// ErrLost, even if a hold around the call was lost.
func TestOnceGivesUpBeforeTheRun(t *testing.T) {
	for _, c := range []struct {
		name string
		ctx  func(t *testing.T, l *Locker) (context.Context, context.CancelFunc)
		also error
	}{
		{"the hold ends", func(t *testing.T, _ *Locker) (context.Context, context.CancelFunc) {
			return context.WithCancel(t.Context())
		}, nil},
		{"the caller's deadline passes", func(t *testing.T, _ *Locker) (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 3*time.Second)
		}, context.DeadlineExceeded},
		{"a hold around it ends", func(t *testing.T, l *Locker) (context.Context, context.CancelFunc) {
			outer := must(l.Lock(t.Context(), "outer", WithMaxHold(3*time.Second)))(t)
			return outer.Context(t.Context())
		}, context.Canceled},
		{"a hold around it is lost", func(t *testing.T, l *Locker) (context.Context, context.CancelFunc) {
			outer := must(l.Lock(t.Context(), "outer", WithoutRenewal(), WithTTL(3*time.Second)))(t)
			return outer.Context(t.Context())
		}, context.Canceled},
		{"the Locker is closed", func(t *testing.T, l *Locker) (context.Context, context.CancelFunc) {
			closed := make(chan struct{})
			time.AfterFunc(3*time.Second, func() {
				_ = l.Close()
				close(closed)
			})
			return t.Context(), func() { <-closed }
		}, ErrClosed},
	} {
		subtest(t, c.name, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			ctx, cancel := c.ctx(t, l)
			defer cancel()
			seen := 0
			fl.nodes[0].Observe(func(cmd sim.Command) {
				if slices.Contains(cmd.Args, protocol.Inspect.Script.SHA) {
					if seen++; seen == 2 { // the read under the lock
						fl.pause(time.Minute, 1, 2)
					}
				}
			})
			err := l.Once(ctx, "job", mustNotRun(t), WithoutRenewal())
			if !errors.Is(err, ErrNoQuorum) || errors.Is(err, ErrLost) || c.also != nil && !errors.Is(err, c.also) {
				t.Errorf("got %v, want ErrNoQuorum, not ErrLost, and %v", err, c.also)
			}
		})
	}
}

// A hold does not begin a run if the nodes may have dropped its token. Once then gives up and releases the lock.
func TestOnceGivesUpWhenItCannotBegin(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, n := range fl.nodes {
			n.Do("SET", "redlock:once:job", "foreign") // until an administrator deletes it
			time.AfterFunc(5*time.Minute, func() { n.Do("DEL", "redlock:once:job") })
		}
		within(t, 65*time.Second, "Once", func() {
			failsAlone(t, l.Once(t.Context(), "job", mustNotRun(t)), ErrNoQuorum, ErrLost)
		})
		fl.settles("job", 0)
		time.Sleep(5 * time.Minute)
		succeeds(t, l.Once(t.Context(), "job", succeed), "when the key is gone")
	})
}

// All nodes' clocks are set forward by more than the done TTL: then the success has ended, and the job may run again.
func TestOnceAfterAllClocksWereSet(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithDoneTTL(50*time.Minute))
		for i := range 3 {
			equals(t, l.Once(t.Context(), "job", succeed), nil, "set %d times", i)
			fl.nodes.step(time.Hour)
		}
	})
}
