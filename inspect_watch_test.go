package redlock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/sim"
)

// spectator is what somebody who watches a name has seen.
type spectator struct {
	t    *testing.T
	seen chan string // "owner value", "free", or an error
}

// watching watches until the test ends. What was there at the beginning has been seen.
func watching(t *testing.T, l *Inspector, name string) *spectator {
	t.Helper()
	s := &spectator{t, make(chan string, 100)}
	go func() {
		for i, err := range l.Watch(t.Context(), name) {
			switch {
			case err != nil:
				s.seen <- err.Error()
			case i.Owner == "":
				s.seen <- "free"
			default:
				s.seen <- strings.TrimSpace(strings.Join(append(i.Readers, i.Owner, i.Value), " "))
			}
		}
		s.seen <- "ended"
	}()
	return s
}

// sees fails the test unless something that contains a text is seen within d. What is on the way there may be seen,
// too: an owner before its value.
func (s *spectator) sees(text string, d time.Duration) {
	s.t.Helper()
	end, last := time.After(d), ""
	for {
		select {
		case last = <-s.seen:
			if strings.Contains(last, text) {
				return
			}
		case <-end:
			s.t.Errorf("saw %q last within %s, want %q", last, d, text)
			return
		}
	}
}

// seesNothing fails the test if anything new is seen within d.
func (s *spectator) seesNothing(d time.Duration) {
	s.t.Helper()
	select {
	case got := <-s.seen:
		s.t.Errorf("saw %q, want nothing new", got)
	case <-time.After(d):
	}
}

const atOnce = 20 * time.Millisecond

// A watch tells of each change: at once of what the nodes know of, within a second of the rest.
func TestWatch(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b, c := fl.locker("a"), fl.locker("b"), fl.locker("c")
		s := watching(t, c.Inspector(), "job")
		s.sees("free", atOnce)
		time.Sleep(50 * time.Millisecond)

		first := must(a.Lock(t.Context(), "job"))(t)
		s.sees(first.Owner(), atOnce)
		s.seesNothing(time.Minute) // renewals are nothing new
		got := async(func() *Lock { return must(b.Lock(t.Context(), "job"))(t) })
		s.sees(first.Owner(), atOnce) // somebody waits
		s.seesNothing(time.Second)
		succeeds(t, first.Unlock())
		second := <-got
		s.sees(second.Owner(), atOnce)
		succeeds(t, second.Unlock())
		s.sees("free", atOnce)

		valued := must(a.Lock(t.Context(), "job", WithValue("one")))(t)
		s.sees(valued.Owner()+" one", atOnce)
		succeeds(t, valued.SetValue(t.Context(), "two"))
		s.sees(valued.Owner()+" two", atOnce)
		succeeds(t, b.ForceUnlock(t.Context(), "job", valued.Owner()))
		s.sees("free", atOnce)

		reader := must(a.RLock(t.Context(), "job"))(t)
		s.sees(reader.Owner()+" readers", atOnce)
		succeeds(t, reader.Unlock())
		s.sees("free", atOnce)

		unfenced := must(a.Lock(t.Context(), "job", WithoutFencing()))(t)
		s.sees(unfenced.Owner(), lookAfter)
		succeeds(t, unfenced.Unlock())
		s.sees("free", atOnce)

		lost := must(a.Lock(t.Context(), "job", WithTTL(3*time.Second)))(t)
		s.sees(lost.Owner(), atOnce)
		fl.cutAll("a")
		s.sees("free", 3*time.Second+atOnce)
		fl.mendAll("a")

		failing := errors.New("failing")
		fails(t, b.Once(t.Context(), "job", func(context.Context, *Lock) error { return failing }), failing)
		s.sees("", lookAfter)
		for len(s.seen) > 0 {
			<-s.seen
		}
		succeeds(t, c.Close())
		s.sees("closed", lookAfter)
		s.sees("ended", atOnce)
		time.Sleep(time.Minute)
		fl.nodes.do("DEL", "redlock:once:job")
		fl.nothingLeft()
	})
}

// A watch soon shows the token of who has the lock, however that got it and its token; and neither a watch nor Inspect
// ever shows it another's. Clients misread the nodes' clocks, so that holds begin with too small a token.
func TestShownTokensAreTheOwners(t *testing.T) {
	for _, seed := range sized([]uint64{4, 13, 20, 0}, []uint64{4, 13}) {
		subtest(t, fmt.Sprint(seed), 5, func(t *testing.T, fl *fleet) {
			ways := maps.Clone(calls)
			delete(ways, "Acquire")
			ways["Adopt"] = func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
				return l.Adopt(ctx, must(must(l.Lock(ctx, "job"))(t).Ticket())(t), opts...)
			}
			names := slices.Sorted(maps.Keys(ways))
			r := rand.New(rand.NewPCG(seed, 0))
			var clients []*Locker
			for i := range 4 {
				late := time.Duration(r.IntN(20)) * ms
				fl.net.SetDelay(sim.Link{Client: fmt.Sprint(i)}, sim.Up<<(i%2), sim.Delay{Min: late, Max: late + 1})
				clients = append(clients, fl.locker(fmt.Sprint(i)))
			}
			var mu sync.Mutex // guards what follows
			seen, tokenOf := make(map[string][]int64), make(map[string]int64)
			last := Inspection{}
			see := func(i Inspection, err error) {
				mu.Lock()
				defer mu.Unlock()
				succeeds(t, err)
				for _, n := range append(i.Nodes, NodeInspection{Owner: i.Owner, Token: i.Token}) {
					seen[n.Owner] = append(seen[n.Owner], n.Token)
				}
			}
			watcher := fl.locker("watcher")
			go func() {
				for i, err := range watcher.Watch(t.Context(), "job") {
					see(i, err)
					mu.Lock()
					last = i
					mu.Unlock()
				}
			}()
			hold := func(l *Locker, how string, d time.Duration) {
				k, err := ways[how](context.Background(), l, WithTTL(2*time.Second))
				if err != nil {
					fails(t, err, ErrTaken, how)
					return
				}
				time.Sleep(d)
				mu.Lock()
				defer mu.Unlock()
				token, owner := k.Token(), k.Owner()
				if how == "RLock" || how == "without tokens" {
					token, owner = 0, last.Owner
				}
				tokenOf[owner] = token
				if d > 50*ms && (last.Owner != owner || last.Token != token) {
					t.Errorf("%s, after %s: a watch shows %d of %s, want %d of %s", how, d, last.Token, last.Owner, token, owner)
				}
				go func() { _ = k.Unlock() }()
			}
			for range sized(60, 20) {
				var all sync.WaitGroup
				for range 1 + r.IntN(3) {
					l, how, begins := clients[r.IntN(4)], names[r.IntN(len(names))], time.Duration(r.IntN(60))*ms
					d := []time.Duration{0, 3 * ms, 100 * ms, 3 * time.Second}[r.IntN(4)]
					all.Go(func() { time.Sleep(begins); hold(l, how, d) })
				}
				for range 10 {
					time.Sleep(15 * ms)
					see(watcher.Inspect(t.Context(), "job"))
				}
				all.Wait()
				fl.nodes.do("SET", "job", "somebody's", "NX", "PX", 50)
				see(watcher.Inspect(t.Context(), "job"))
				time.Sleep(100 * ms)
			}
			mu.Lock() // the watch goes on
			defer mu.Unlock()
			delete(seen, "")
			for owner, tokens := range seen {
				_, held := tokenOf[owner]
				if _, ours := agreement.ParseOwner(owner); ours && !held {
					continue // two attempts of one client may propose the same token at one moment, and one gets some votes
				}
				for other, token := range tokenOf {
					if token > 0 && other != owner && slices.Contains(tokens, token) {
						t.Errorf("%s is shown with the token of %s", owner, other)
					}
				}
			}
		})
	}
}

// Nobody pays while nobody watches: 15 s after the last watch, releases take the short way again. While somebody does,
// one whose process has gone costs one message in vain.
func TestAWatchThatHasEndedCostsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		for range b.Watch(t.Context(), "job") {
			break
		}
		watchers := func() int { return len(fl.leftovers()) }
		equals(t, watchers(), 6, "keys of the watch on three nodes")
		succeeds(t, b.Close())
		succeeds(t, must(a.TryLock(t.Context(), "job"))(t).Unlock())
		equals(t, watchers(), 3, "keys after a release that nobody listened to")
		time.Sleep(15 * time.Second)
		fl.clean("15 s later")
	})
}

// Too few nodes: told once, and the watch goes on. One silent node delays it by the node timeout, no more.
func TestWatchWithoutAQuorum(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, c := fl.locker("a"), fl.locker("c")
		s := watching(t, c.Inspector(), "job")
		s.sees("free", atOnce)
		fl.nodes[0].Pause()
		k := must(a.Lock(t.Context(), "job", WithValue("x"), WithTTL(30*time.Second)))(t)
		s.sees("x", 2*250*time.Millisecond)
		fl.nodes[1:3].pause()
		s.sees("no quorum", lookAfter+time.Second)
		s.seesNothing(lookAfter)
		fl.nodes.resume()
		s.sees(k.Owner(), lookAfter)
		equals(t, errOf(only(c.Watch(t.Context(), ""))) != nil, true, "a name that is none: refused")
	})
}

// only returns the only pair.
func only(pairs func(func(Inspection, error) bool)) (i Inspection, err error) {
	pairs(func(j Inspection, e error) bool { i, err = j, e; return true })
	return i, err
}

// Messages that do not come are made up for by looking: nodes that speak RESP2 and refuse to subscribe.
func TestWatchWithoutMessages(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.deny("subscribe", "publish")
		a, c := fl.locker("a"), fl.locker("c")
		s := watching(t, c.Inspector(), "job")
		s.sees("free", atOnce)
		for range 3 {
			k := must(a.TryLock(t.Context(), "job"))(t)
			s.sees(k.Owner(), unheard+atOnce)
			succeeds(t, k.Unlock())
			s.sees("free", unheard+atOnce)
		}
	})
}

// What never ends by itself is not looked at again and again.
func TestAWatchDoesNotSpinOnAKeyThatStays(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes.do("SET", "job", "somebody's")
		var looks atomic.Int64
		s := watching(t, fl.locker("c").Inspector(), "job")
		s.sees("somebody's", atOnce)
		fl.nodes[0].Alter(func(c sim.Command) (any, bool, time.Duration) {
			if len(c.Args) > 1 && c.Args[1] == protocol.Inspect.Script.SHA {
				looks.Add(1)
			}
			return nil, false, 0
		})
		time.Sleep(time.Minute)
		between(t, looks.Load(), 6, 8, "looks within a minute")
		fl.nodes.do("DEL", "job")
		s.sees("free", lookAfter)
		k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		s.sees(k.Owner(), atOnce)
	})
}

// A loop that took so long that the nodes have ended telling it is told again as soon as it goes on.
func TestAWatchIsToldAgainAfterALongPause(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, got, unlocked := fl.locker("a"), make(chan *Lock, 1), make(chan time.Time, 1)
		for i := range fl.locker("c").Watch(t.Context(), "job") {
			switch {
			case len(unlocked) > 0:
				equals(t, i.Owner, "", "the owner")
				between(t, time.Since(<-unlocked), 0, atOnce, "until it is shown")
				return
			case i.Owner == "": // what comes is found by a look, so no message is left
				time.AfterFunc(2*time.Second, func() { got <- must(a.Lock(t.Context(), "job", WithoutFencing()))(t) })
			default:
				k := <-got
				time.Sleep(20 * time.Second)
				time.AfterFunc(time.Second, func() { unlocked <- time.Now(); succeeds(t, k.Unlock()) })
			}
		}
	})
}

// A value belongs to its hold, however late it arrives, and ends with it.
func TestValue(t *testing.T) {
	for name, lock := range some("Lock", "TryLock", "without tokens", "LockAll") {
		subtest(t, name, 5, func(t *testing.T, fl *fleet) {
			a, b := fl.locker("a"), fl.locker("b")
			shown := func() string { t.Helper(); return must(b.Inspect(t.Context(), "job"))(t).Value }
			k := must(lock(t.Context(), a, WithValue("one")))(t)
			equals(t, shown(), "one", "when the call returns")
			time.Sleep(time.Minute)
			equals(t, shown(), "one", "after many renewals")
			fl.cut("a", 0, 1)
			succeeds(t, k.SetValue(t.Context(), "two"))
			equals(t, shown(), "two", "by a majority")
			fl.mend("a", 0, 1)
			time.Sleep(10 * time.Second)
			equals(t, fl.holding("redlock:value:job"), 5, "a renewal brings it to the others: nodes")
			fails(t, k.SetValue(t.Context(), strings.Repeat("x", maxValue+1)), ErrInvalid)
			succeeds(t, k.SetValue(t.Context(), ""))
			equals(t, shown(), "", "none any more")
			succeeds(t, k.SetValue(t.Context(), strings.Repeat("x", maxValue)))
			succeeds(t, k.Unlock())
			fails(t, k.SetValue(t.Context(), "three"), ErrUnlocked)
			equals(t, shown(), "", "after the end")
			fl.clean()
		})
	}
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a := fl.locker("a")
		fails(t, errOf(a.TryRLock(t.Context(), "job", WithValue("x"))), ErrInvalid, "readers")
		fails(t, errOf(a.TryLock(t.Context(), "job", WithValue(strings.Repeat("x", maxValue+1)))), ErrInvalid, "too long")
		k := must(fl.locker("b", WithValue("x")).RLock(t.Context(), "job"))(t)
		fails(t, k.SetValue(t.Context(), "x"), ErrInvalid, "a reader's")
		succeeds(t, k.Unlock())
		fl.clean()
	})
}

// A hold whose value no majority confirms was not acquired, and so it was not lost. A ticket can be used again.
func TestAValueThatIsNotConfirmed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, name, value := fl.locker("a"), "job", WithValue("x")
		ticket := must(must(a.TryLock(t.Context(), "handed", value))(t).Ticket())(t)
		for _, c := range []struct {
			reply any // nil: none, for so long
			late  time.Duration
			want  error
		}{{sim.Error("OOM not allowed"), 0, ErrNoQuorum}, {[]any{int64(3)}, 0, ErrTaken}, {nil, 240 * ms, ErrNoQuorum}} {
			settleNetwork()
			fl.nodes[:2].each(func(n *sim.Node) {
				n.Alter(func(of sim.Command) (any, bool, time.Duration) {
					if len(of.Args) < 2 || of.Args[1] != protocol.Extend.Script.SHA {
						return nil, false, 0
					}
					return c.reply, c.reply != nil, c.late
				})
			})
			short := WithTTL(200 * ms)
			for _, err := range []error{
				errOf(a.TryLock(t.Context(), name, value, short)),
				errOf(a.Semaphore(name, 1).TryAcquire(t.Context(), value, short)),
			} {
				failsAlone(t, err, c.want, ErrLost)
				failsSaying(t, err, ErrNotAcquired, name+":")
			}
			if errors.Is(c.want, ErrNoQuorum) && c.late == 0 {
				fails(t, errOf(a.Adopt(t.Context(), ticket, value)), c.want)
			}
		}
		succeeds(t, must(a.Adopt(t.Context(), ticket))(t).Unlock())
		time.Sleep(10 * time.Second)
		fl.nothingLeft()
	})
}

// A call that asks once has one node timeout, also for its value, and its error is about the call.
func TestAValueHasNoTimeOfItsOwn(t *testing.T) {
	for op, try := range map[string]string{"lock": "Lock", "lock all": "LockAll", "acquire": "Acquire", "adopt": ""} {
		subtest(t, op, 5, func(t *testing.T, fl *fleet) {
			a := fl.locker("a")
			ticket := must(must(fl.locker("b").Lock(t.Context(), "handed"))(t).Ticket())(t)
			if op == "acquire" {
				must(a.Semaphore("job", 1).TryAcquire(t.Context()))(t).Unlock()
			}
			fl.net.SetDelay(sim.Link{Client: "a"}, sim.Down, sim.Delay{Min: 230 * ms, Max: 231 * ms})
			time.AfterFunc(200*ms, fl.nodes.pause)
			var err error
			within(t, 251*ms, op, func() {
				if op == "adopt" {
					_, err = a.Adopt(t.Context(), ticket, WithValue("x"))
				} else {
					_, err = tries[try](t.Context(), a, WithValue("x"))
				}
			})
			failsSaying(t, err, ErrNoQuorum, "redlock: "+strings.TrimSuffix(op, " all")+" ")
			fl.nodes.resume()
		})
	}
}

// A waiter whose hold is given back, as its value comes too late, keeps the time at which its wait began.
func TestAWaiterKeepsItsPlaceIfItsValueIsLate(t *testing.T) {
	for what, c := range map[string]struct {
		first   call
		lockers int
		held    bool
		want    string
	}{
		"all wait":            {calls["Lock"], 9, true, "[1 0 2 3 4 5 6 7 8]"},
		"the others wait":     {calls["Lock"], 9, false, "[1 0 2 3 4 5 6 7 8]"},
		"the first locks all": {calls["LockAll"], 9, true, "[1 0 2 3 4 5 6 7 8]"},
		"in one process":      {calls["Lock"], 1, true, "[0 1 2 3 4 5 6 7 8]"},
	} {
		subtest(t, what, 3, func(t *testing.T, fl *fleet) {
			var holder *Lock
			if c.held {
				holder = must(fl.locker("holder").Lock(t.Context(), "job"))(t)
			}
			fl.nodes.each(func(n *sim.Node) {
				once := true
				n.Alter(func(of sim.Command) (any, bool, time.Duration) {
					a, extends := of.Args, protocol.Extend.Script.SHA
					if !once || len(a) < 2 || a[1] != extends || !strings.HasSuffix(a[len(a)-1], " x") {
						return nil, false, 0
					}
					once = false
					return nil, false, 300 * ms
				})
			})
			all := make([]*Locker, 9)
			for i := range all {
				if all[i] = all[0]; i < c.lockers {
					all[i] = fl.locker(fmt.Sprint(i))
				}
			}
			var order []int
			var waiters sync.WaitGroup
			for i, l := range all {
				value := WithValue(strings.Repeat("x", max(1-i, 0))) // the first has one
				opts := []LockOption{value, withBackoff(func(int) time.Duration { return ms })}
				acquire := c.first
				if i > 0 {
					acquire = calls["Lock"]
				}
				waiters.Go(func() {
					k := must(acquire(t.Context(), l, opts...))(t)
					order = append(order, i)
					time.Sleep(10 * ms)
					succeeds(t, k.Unlock())
				})
				time.Sleep(20 * ms)
			}
			if c.held {
				succeeds(t, holder.Unlock())
			}
			waiters.Wait()
			equals(t, fmt.Sprint(order), c.want, "the order")
			fl.clean()
		})
	}
}

// What a former holder sends late is never shown for the next one, nor an older value for a newer.
func TestLateValues(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b, c := fl.locker("a"), fl.locker("b"), fl.locker("c")
		k := must(a.Lock(t.Context(), "job", WithTTL(2*time.Second), WithValue("a's")))(t)
		fl.net.SetDelay(sim.Link{Client: "a"}, sim.Up, sim.Delay{Min: 5 * time.Second, Max: 5 * time.Second})
		late := async(func() error { return k.SetValue(t.Context(), "late") })
		next := must(b.Lock(t.Context(), "job"))(t)
		succeeds(t, next.SetValue(t.Context(), "b's"))
		fails(t, <-late, ErrNoQuorum)
		time.Sleep(10 * time.Second)
		got := must(c.Inspect(t.Context(), "job"))(t)
		equals(t, got.Owner+" "+got.Value, next.Owner()+" b's", "the next holder's")
		for _, n := range got.Nodes {
			equals(t, n.Value, "b's", "on %s", n.Addr)
		}
		fl.net.SetDelay(sim.Link{}, sim.Both, sim.LAN)
		older := async(func() error { return next.SetValue(t.Context(), "older") })
		time.Sleep(sim.LAN.Min / 2)
		fl.net.Strand(sim.Link{Client: "b"}, 5*time.Second)
		<-older
		time.Sleep(time.Second)
		succeeds(t, next.SetValue(t.Context(), "newer"))
		time.Sleep(5 * time.Second)
		equals(t, must(c.Inspect(t.Context(), "job"))(t).Value, "newer", "what came late is older")
		succeeds(t, next.Unlock())
		time.Sleep(10 * time.Second)
		fl.nothingLeft()
	})
}

// Check says yes to the hold of today alone, and never on the word of a minority, or of a token set.
func TestCheck(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b", WithoutFencing())
		check := func(token int64) error { return b.Check(t.Context(), "job", token) }
		first := must(a.TryLock(t.Context(), "job", WithValue("x")))(t)
		succeeds(t, check(first.Token()))
		fails(t, check(first.Token()+1), ErrLost)
		fails(t, check(0), ErrInvalid)
		fl.nodes[:2].pause()
		succeeds(t, check(first.Token()), "three nodes")
		fl.nodes[2].Do("DEL", "job")
		fails(t, check(first.Token()), ErrNoQuorum, "two nodes have it, and two do not answer")
		fl.nodes[2].Pause()
		fails(t, check(first.Token()), ErrNoQuorum)
		fl.nodes.resume()
		time.Sleep(10 * time.Second)
		succeeds(t, first.Unlock())
		fails(t, check(first.Token()), ErrLost, "free")
		unfenced := must(b.TryLock(t.Context(), "job"))(t)
		fails(t, check(first.Token()), ErrLost, "held by one whose token nobody knows")
		succeeds(t, unfenced.Unlock())
		old := must(a.TryLock(t.Context(), "job"))(t)
		fails(t, check(old.Token()), ErrLost, "it has no value")
		time.Sleep(3 * time.Minute)
		succeeds(t, check(old.Token()), "held for longer than the nodes remember tokens")
		reader := func() error {
			succeeds(t, old.Unlock())
			k := must(a.TryRLock(t.Context(), "job"))(t)
			defer func() { succeeds(t, k.Unlock()) }()
			return check(old.Token())
		}
		fails(t, reader(), ErrLost, "readers")
		fails(t, fl.locker("c").Check(cancelled(t), "job", 1), context.Canceled)
	})
}

// A holder that has renewed its hold, or waited for it, learns at once that an administrator has taken it: from enough
// nodes, not from one. Others learn with the next renewal.
func TestForceUnlockIsToldAtOnce(t *testing.T) {
	for name, lock := range some("Lock", "without tokens", "RLock", "LockAll", "Acquire") {
		for _, renew := range []bool{true, false} {
			subtest(t, fmt.Sprint(name, renew), 5, func(t *testing.T, fl *fleet) {
				a, admin := fl.locker("a"), fl.locker("admin")
				var opts []LockOption
				if !renew {
					opts = append(opts, WithoutRenewal())
					a.listeners.hear()
				}
				k, other := must(lock(t.Context(), a, opts...))(t), must(a.Lock(t.Context(), "free"))(t)
				time.Sleep(4 * time.Second)
				taken := map[string]string{"Acquire": permitsName + "job:0"}[name]
				if taken == "" {
					taken = "job"
				}
				succeeds(t, admin.ForceUnlock(t.Context(), taken, k.Owner()))
				within(t, atOnce, "the holder's notice", func() { <-k.Done() })
				failsSaying(t, k.Unlock(), ErrLost, "administrator")
				fl.clean2("redlock:revoked", "free")
				succeeds(t, other.Err(), "another hold")
			})
		}
	}
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a := fl.locker("a")
		k := must(a.Lock(t.Context(), "job"))(t)
		time.Sleep(4 * time.Second)
		for i := range 3 {
			for range 3 {
				a.askRevoked(i, k.hold.owner) // each denies it
			}
			settleNetwork()
			fl.nodes[i].Do("ZADD", revokedName, 1e15, k.Owner())
			a.askRevoked(0, k.hold.owner)
			a.askRevoked(2, must(a.Lock(t.Context(), "other"+fmt.Sprint(time.Now().UnixNano())))(t).hold.owner)
			settleNetwork()
			succeeds(t, k.Err(), "a minority has told of it")
		}
		for i := range 3 {
			a.askRevoked(i, k.hold.owner)
		}
		settleNetwork()
		fails(t, k.Err(), ErrLost)
		fl.nodes.deny("publish")
		last := must(a.Lock(t.Context(), "last"))(t)
		succeeds(t, a.ForceUnlock(t.Context(), "last", last.Owner()), "without the right to tell")
	})
}

// clean2 is clean, but for keys with these names.
func (fl *fleet) clean2(but ...string) {
	fl.t.Helper()
	settleNetwork()
	for _, key := range fl.leftovers() {
		if _, name, _ := strings.Cut(key, " "); !slices.Contains(but, name) {
			fl.t.Errorf("left: %s", key)
		}
	}
}
