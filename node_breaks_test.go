package redlock

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/sim"
)

// All masters are well, and all connections break: before the call, while its request or the reply is on its way, or
// during the handshakes of the new connections. A single attempt succeeds all the same, within the node timeout.
func TestOneAttemptWhileConnectionsBreak(t *testing.T) {
	breaks := map[string]func(fl *fleet){
		"reset": func(fl *fleet) { fl.net.Reset(sim.Link{}) }, // what was on its way is lost
		"cut":   func(fl *fleet) { fl.net.Cut(sim.Link{}) },   // it arrives
		"one after the other": func(fl *fleet) {
			for i := range fl.nodes {
				fl.net.Reset(link0("a", i))
				time.Sleep(200 * time.Microsecond)
			}
		},
		"twice": func(fl *fleet) {
			fl.net.Reset(sim.Link{})
			time.Sleep(8 * ms)
			fl.net.Reset(sim.Link{})
		},
	}
	for what, try := range tries {
		for how, cut := range breaks {
			for _, nodes := range sized([]int{3, 4}, []int{3}) {
				subtest(t, fmt.Sprintf("%s, %d nodes, %s", what, nodes, how), nodes, func(t *testing.T, fl *fleet) {
					l := fl.locker("a")
					for at := -12 * ms; at < 3*ms; at += sized(910*time.Microsecond, 2300*time.Microsecond) {
						broken := make(chan struct{})
						time.AfterFunc(15*ms+at, func() { cut(fl); close(broken) })
						time.Sleep(15 * ms)
						begun := time.Now()
						k, err := try(t.Context(), l)
						if took := time.Since(begun); err != nil || took > 250*ms {
							t.Fatalf("broken %s after it began: got %+v after %s", at, err, took)
						}
						<-broken
						settleNetwork()
						succeeds(t, k.Unlock(), "broken after it began by", at.String())
						time.Sleep(10*time.Second + 300*ms) // what arrived late has expired
						fl.isHeld("job", 0, "broken after it began by", at.String())
					}
				})
			}
		}
	}
}

// A survey of a semaphore's slots, too, is made again if connections break under it.
func TestASurveyWhileConnectionsBreak(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("b").Semaphore("job", 2).TryAcquire(t.Context()))(t)
		l := fl.locker("a")
		for at := time.Duration(0); at < 3*ms; at += 90 * time.Microsecond {
			for i := range 2 { // the slot that it tries first is taken in about every other case
				s := l.Semaphore("job", 2)
				time.AfterFunc(5*ms+at, func() { fl.net.Reset(sim.Link{Client: "a"}) })
				time.Sleep(5 * ms)
				mine, err := s.TryAcquire(t.Context())
				if err != nil {
					t.Fatalf("broken %s after it began, try %d: %+v", at, i, err)
				}
				time.Sleep(50 * ms)
				succeeds(t, mine.Unlock())
				settleNetwork()
			}
		}
		succeeds(t, k.Unlock())
	})
}

// In an outage, an attempt fails as soon as a new connection is refused, and within the node timeout where nothing is.
func TestOneAttemptInAnOutage(t *testing.T) {
	for _, c := range []struct {
		name string
		get  func(fl *fleet)
		most time.Duration // what the first attempt may take
	}{
		{"refused", func(fl *fleet) {
			fl.nodes[1:].crash(true)
		}, 15 * ms},
		{"silent", func(fl *fleet) {
			for i := range fl.nodes[1:] {
				fl.net.Drop(link0("a", i), sim.Both)
				fl.net.Reset(link0("a", i))
			}
		}, 250 * ms},
		{"each connection breaks at the first request", func(fl *fleet) {
			for _, n := range fl.nodes[1:] {
				n.Observe(func(c sim.Command) {
					if c.Args[0] == "evalsha" {
						go fl.net.Reset(sim.Link{Node: n.Addr()})
					}
				})
			}
		}, 250 * ms},
	} {
		subtest(t, c.name, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			settleNetwork()
			c.get(fl)
			begun := time.Now()
			_, err := l.TryLock(t.Context(), "job")
			if took := time.Since(begun); !errors.Is(err, ErrNoQuorum) || took > c.most {
				t.Errorf("got %v after %s", err, took)
			}
		})
	}
}

// A connection breaks, and the node does not answer any more: that delays one call by the node timeout.
func TestASilentNodeAfterABreakDelaysOneCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		settleNetwork()
		fl.net.Hold(link0("a", 2), sim.Both)
		fl.net.Reset(link0("a", 2))
		slow := 0
		for range 60 { // until after the end of the attempt to connect, and the next
			begun := time.Now()
			_ = l.ForceUnlock(t.Context(), "job", "somebody") // which wants an answer of every node
			if time.Since(begun) > 100*ms {
				slow++
			}
			time.Sleep(50 * ms)
		}
		equals(t, slow, 1, "delayed calls")
		fl.net.Release(link0("a", 2), sim.Both)
	})
}

// A client that has long been idle writes the first token, over connections that were made anew meanwhile, or to a node
// that did not answer for a moment. The token expires also where the client is closed right after.
func TestTheFirstTokenAfterABreakExpires(t *testing.T) {
	for name, disturb := range map[string]func(fl *fleet, l *Locker){
		"broken": func(fl *fleet, _ *Locker) {
			fl.net.Reset(sim.Link{Client: "a"})
			time.Sleep(ms)
		},
		"broken when the call begins": func(fl *fleet, _ *Locker) {
			fl.net.Reset(sim.Link{Client: "a"})
			synctest.Wait()
		},
		"silent": func(fl *fleet, l *Locker) {
			fl.net.Hold(link0("a", 2), sim.Both)
			l.nodes[2].conn.CheckSoon()
			time.Sleep(300 * ms)
			succeeds(fl.t, must(l.TryLock(fl.t.Context(), "other"))(fl.t).Unlock()) // trims the others
			fl.net.Release(link0("a", 2), sim.Both)
			settleNetwork()
		},
	} {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			time.Sleep(5 * time.Minute)
			if fl.holding(tokensName) > 0 {
				t.Fatal("there are tokens: this proves nothing")
			}
			disturb(fl, l)
			succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
			settleNetwork()
			for i, n := range fl.nodes {
				if lives := n.Do("PTTL", tokensName).(int64); lives <= 0 {
					t.Errorf("node %d: tokens live for %d ms", i, lives)
				}
			}
		})
	}
}

// A call has a longer TTL than all before while the connections are made anew. The nodes are told before its request
// comes, over whichever connection.
func TestANewTTLIsToldAheadOfRequestsThatWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		settings, lives := "", 0 // of the last commands about them, at node 0
		ttl := 15 * time.Second
		fl.nodes[0].Observe(func(c sim.Command) {
			if c.Args[0] != "evalsha" {
				return
			}
			switch words := c.Args; words[1] {
			case lua.Load("settings").SHA:
				settings = words[len(words)-1]
			case lua.Load("lists").SHA:
				if mode := slices.Index(words, "vote"); mode > 0 && len(words) > mode+5 {
					lives, _ = strconv.Atoi(words[mode+5])
				}
			case protocol.Acquire.Script.SHA:
				if want := fmt.Sprint("ttl=", ttl.Milliseconds()); !strings.HasSuffix(settings, want) {
					t.Errorf("a request with %s came after %s", want, settings)
				}
				if int64(lives) < (ttl + confirmsWithin).Milliseconds() {
					t.Errorf("a request with a TTL of %s came when the lists were registered for %d ms", ttl, lives)
				}
			}
		})
		l := fl.locker("a", withGuard(10*time.Minute), withRetention(20*time.Minute))
		for at := time.Duration(0); at < 15*ms; at += 290 * time.Microsecond {
			ttl += ttl / 25
			fl.net.Reset(sim.Link{})
			time.Sleep(at)
			k := must(l.TryLock(t.Context(), "job", WithTTL(ttl)))(t)
			settleNetwork()
			succeeds(t, k.Unlock())
			settleNetwork()
		}
	})
}
