package redlock

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/sim"
)

// What comes late to the comparison of lists: nodes, answers, clients. The lists are those of changes[0].

// open is New for the client with nodes of the fleet.
func (fl *fleet) open(client string, list []int, opts ...Option) (*Locker, error) {
	l, err := New(fl.urlsOf(list), append(opts, dialing(fl.net.Dialer(client)))...)
	if err == nil {
		fl.t.Cleanup(func() { _ = l.Close() })
	}
	return l, err
}

func (fl *fleet) urlsOf(list []int) (urls []string) {
	for _, i := range list {
		urls = append(urls, fl.urls[i])
	}
	return urls
}

// The one node that differs is down for the clients at work, or has never been met by the newcomer, or by anybody.
func TestAListThatDiffersByAnUnmetNodeIsRefused(t *testing.T) {
	c := changes[0]
	for what, prepare := range map[string]func(fl *fleet){
		"old node dead":  func(fl *fleet) { fl.nodes[4].Crash(false) },
		"new node dead":  func(fl *fleet) { fl.nodes[5].Crash(false) },
		"new node late":  func(fl *fleet) { fl.cut("b", 5) },
		"new node fresh": func(*fleet) {},
	} {
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			prepare(fl)
			must(fl.open("a", c.old))(t)
			time.Sleep(time.Minute)
			conflicts(t, errOf(fl.open("b", c.new)), what)
			if looks := must(fl.open("looks", c.new, onlyLooks))(t); len(listFindings(t, looks)) == 0 {
				t.Errorf("%s: a monitor finds nothing", what)
			}
		})
	}
}

// A call that waits when the conflict is found does not get the lock.
func TestAWaiterOfARefusedClientGivesUp(t *testing.T) {
	c := changes[0]
	for what, wait := range some("Lock", "LockAll", "Acquire", "RLock") {
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			var w witness
			a := must(fl.open("a", c.old, WithObserver(w.see)))(t)
			fl.cut("a", c.old...)
			time.Sleep(2 * time.Minute)
			got := async(func() error { return errOf(wait(t.Context(), a)) })
			must(fl.open("b", c.new))(t)
			fl.mend("a", c.old...)
			conflicts(t, <-got, what)
			_, over := w.wait(t)
			conflicts(t, over.Err, what)
			time.Sleep(time.Second)
			fl.nothingLeft(what)
		})
	}
}

// A call whose first attempt is granted while the conflict is found does not get the lock either. It leaves nothing,
// even on a node that answers later, and has put it into its queue.
func TestAConflictThatIsFoundDuringTheFirstAttempt(t *testing.T) {
	for what, call := range some("Lock", "TryLock", "LockAll", "RLock", "without tokens") {
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			var ended atomic.Int64 // holds of which an observer would be told
			l := fl.locker("a", WithObserver(func(ev Event) {
				if ev.Kind == EventEnd {
					ended.Add(1)
				}
			}))
			const late = 100 * ms
			fl.net.SetDelay(sim.Link{}, sim.Up, sim.Delay{Min: late / 5, Max: late / 5})
			fl.net.SetDelay(link0("a", 4), sim.Up, sim.Delay{Min: late, Max: late})
			fl.nodes[4].Do("SET", "job", new(agreement.Label).Owner(1, true).String(), "PX", 60_000)
			fl.nodes.each(func(n *sim.Node) { forge(n, "?@elsewhere:6379", "x") })
			// It learns of a digest after a fifth of late, of these lists after another one, and of the client after a third.
			go l.Status(t.Context())
			time.Sleep(5 * late / 10)
			conflicts(t, errOf(call(t.Context(), l)), what)
			time.Sleep(3 * late)
			fl.nodes[4].Do("DEL", "job")
			if left := fl.leftovers(); len(left) > 0 || ended.Load() > 0 {
				t.Errorf("%s: left: %v; %d holds are said to have ended", what, left, ended.Load())
			}
		})
	}
}

// forge has a node say that clients with such lists are at work.
func forge(n *sim.Node, lists string, clients ...string) {
	n.Do("ZADD", "redlock:lists", n.Now().UnixMilli(), lists)
	n.Do("ZREMRANGEBYSCORE", "redlock:lists", -1, -1) // the digest
	for _, c := range clients {
		n.Do("ZADD", fmt.Sprintf("redlock:clients:%.6x", sha1.Sum([]byte(lists))), n.Now().UnixMilli(), c)
	}
}

// Of two that start at one moment, one works or both are refused. Who is refused leaves nothing that others see.
func TestOfTwoThatStartAtOnceOneIsForgotten(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		worked := 0
		for try := range 20 {
			lists := [][]int{c.old, c.new}
			var errs [2]error
			var ls [2]*Locker
			together(2, func(i int) { ls[i], errs[i] = fl.open(fmt.Sprint("c", i, try), lists[i]) })
			settleNetwork()
			for i, l := range ls {
				if errs[i] != nil {
					continue
				}
				worked++
				findsNoLists(t, l, "the one that works")
				if next, err := fl.open(fmt.Sprint("d", try), lists[i]); err != nil {
					t.Errorf("a client with the list of the one that works: %v", err)
				} else {
					succeeds(t, next.Close())
				}
				succeeds(t, l.Close())
			}
		}
		if worked == 0 {
			t.Error("always both were refused")
		}
		t.Logf("of 20 pairs, %d had one that works", worked)
	})
}

// Of two that hear of each other late, because what both ask is far away or comes back later, never both work, and soon
// one does.
func TestOfTwoThatAreFarApartOneWorks(t *testing.T) {
	c := changes[0]
	near := map[string][]int{"a": {2, 3, 4}, "b": {0, 1, 5}}
	lists := map[string][]int{"a": c.old, "b": c.new}
	again := map[string]time.Duration{"a": 1100 * ms, "b": 1700 * ms}
	for what, begin := range map[string]func(fl *fleet, client string){
		"slow links": func(fl *fleet, client string) {
			for i := range c.size() {
				if !slices.Contains(near[client], i) {
					fl.net.SetDelay(link0(client, i), sim.Both, sim.Delay{Min: 20 * ms, Max: 21 * ms})
				}
			}
		},
		"back after a break": func(fl *fleet, client string) {
			fl.cut(client, lists[client]...)
			time.AfterFunc(2*time.Minute, func() { fl.mend(client, near[client]...) })
			time.AfterFunc(2*time.Minute+5*time.Second, func() { fl.mend(client, lists[client]...) })
		},
	} {
		subtest(t, what, c.size(), func(t *testing.T, fl *fleet) {
			var wg sync.WaitGroup
			var mu sync.Mutex
			var ls []*Locker
			begun := time.Now()
			for client, list := range lists {
				begin(fl, client)
				wg.Go(func() {
					l, err := fl.open(client, list)
					for errors.As(err, new(*ListConflictError)) && time.Since(begun) < time.Minute { // as under a supervisor
						time.Sleep(again[client])
						l, err = fl.open(client, list)
					}
					if err == nil {
						mu.Lock()
						defer mu.Unlock()
						ls = append(ls, l)
					}
				})
			}
			wg.Wait()
			for time.Since(begun) < 3*time.Minute { // connections that nobody wants take longer to come back
				time.Sleep(time.Second)
				for _, l := range ls {
					if k, err := l.TryLock(t.Context(), "other"); err == nil {
						succeeds(t, k.Unlock())
					}
				}
			}
			works := 0
			for _, l := range ls {
				if _, err := l.Lock(t.Context(), "job", WithMaxWait(5*time.Second)); err == nil {
					works++
				} else if !errors.As(err, new(*ListConflictError)) {
					t.Errorf("got %v, want a ListConflictError", err)
				}
			}
			equals(t, works, 1, "of two clients with lists that conflict, so many work")
		})
	}
}

// Nodes that have lost the registrations get them again with the connection, not with the next probe.
func TestRegistrationsComeBackAtOnce(t *testing.T) {
	c := changes[0]
	for what, lose := range map[string]func(fl *fleet, a *Locker){
		"restart": func(fl *fleet, _ *Locker) {
			for _, n := range fl.nodes {
				n.Crash(false)
				n.Restart()
			}
			time.Sleep(5 * time.Second)
		},
		"absence": func(fl *fleet, a *Locker) {
			fl.cut("a", c.old...)
			time.Sleep(2 * time.Minute)
			fl.mend("a", c.old...)
			succeeds(fl.t, a.Ready(fl.t.Context()))
			time.Sleep(100 * time.Millisecond)
		},
	} {
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			a := must(fl.open("a", c.old))(t)
			time.Sleep(time.Second)
			lose(fl, a)
			conflicts(t, errOf(fl.open("b", c.new)), what)
		})
	}
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		must(fl.open("z", c.old))(t)
		fl.cut("a", 4)
		a := must(fl.open("a", c.old))(t)
		time.Sleep(time.Second)
		fl.mend("a", 4)
		awaitState(a, 4, true)
		time.Sleep(3 * correctAfter) // with the identity of the late node
		settleNetwork()
		if seen := a.Status(t.Context())[4].Clients; len(seen) != 1 || seen[0].Clients != 2 {
			t.Errorf("the late node knows %+v, want 2 clients", seen)
		}
	})
}

// The last client that leaves takes along what clients with the same nodes have left, who knew them by other ids.
func TestTheLastOneLeavesNothing(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		five := []int{0, 1, 2, 3, 4}
		fl.cut("x", 4)
		x, y := must(fl.open("x", five))(t), must(fl.open("y", five))(t)
		succeeds(t, x.Close())
		time.Sleep(time.Minute / 2)
		succeeds(t, y.Close())
		settleNetwork()
		succeeds(t, errOf(fl.open("w", []int{0, 1})), "nobody is left")
	})
}

// Of two waiters with both lists, each of which has a majority of one, the younger gives way at once.
func TestWaitersWithAMajorityOfOneListEach(t *testing.T) {
	c := changes[1]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		ls := []*Locker{c.locker(fl, "both", "x"), c.locker(fl, "both", "y")}
		for try := range 50 {
			time.Sleep(2 * time.Second)
			begun := time.Now()
			together(2, func(i int) {
				succeeds(t, must(ls[i].Lock(t.Context(), fmt.Sprint(try)))(t).Unlock())
			})
			between(t, time.Since(begun), 0, 100*ms, "try %d: two short holds", try)
		}
	})
}

// exchanged counts what clients ask of all nodes about lists, by mode.
func exchanged(fl *fleet) func(mode string) int {
	var mu sync.Mutex
	counts := make(map[string]int)
	for _, n := range fl.nodes {
		n.Observe(func(c sim.Command) {
			mu.Lock()
			defer mu.Unlock()
			if len(c.Args) > 3 && c.Args[3] == "redlock:lists" {
				keys, _ := strconv.Atoi(c.Args[2])
				counts[c.Args[3+keys]]++
			}
		})
	}
	return func(mode string) int {
		mu.Lock()
		defer mu.Unlock()
		n := counts[mode]
		delete(counts, mode)
		return n
	}
}

// A client that learns the identities of nodes one after the other registers anew once, and reads no lists that it
// knows.
func TestWhatAClientAsksWhenNodesAreRestarted(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		asked := exchanged(fl)
		succeeds(t, fl.locker("a").Ready(t.Context()))
		fl.locker("b")
		time.Sleep(time.Minute)
		for range 5 {
			asked("vote")
			asked("read")
			for _, n := range fl.nodes {
				n.Crash(false)
				n.Restart()
				time.Sleep(50 * ms)
			}
			time.Sleep(5 * time.Second)
			if got := asked("vote"); got > 2*2*5 { // two clients, once when connected and once to correct
				t.Errorf("%d registrations of two clients with five nodes after a restart, want 20 at most", got)
			}
		}
		asked("read")
		time.Sleep(5 * time.Minute)
		equals(t, asked("read"), 0, "how often lists that are known were read")
	})
}

// late opens a client with the new list that learns only after New that a conflicting client is at work.
func (fl *fleet) late(c change, opts ...Option) *Locker {
	fl.cut("b", c.new...)
	b := must(fl.open("b", c.new, opts...))(fl.t)
	fl.mend("b", c.new...)
	time.Sleep(10 * time.Second) // idle connections are made again after 8 s at most
	if err := b.mayLock(); !errors.As(err, new(*ListConflictError)) {
		fl.t.Fatalf("got %v, want a ListConflictError", err)
	}
	return b
}

// worksAgain waits until a client is not refused any more.
func worksAgain(t *testing.T, l *Locker, patience time.Duration) {
	t.Helper()
	for begun := time.Now(); l.mayLock() != nil; time.Sleep(10 * ms) {
		if time.Since(begun) > patience {
			t.Fatalf("after %v: %v", patience, l.mayLock())
		}
	}
}

// A node that is gone says for as long as they live which lists are in use: for a minute, whatever the TTL of the
// client that is refused, or for longer if that of another client was longer.
func TestANodeThatIsGoneSaysNothing(t *testing.T) {
	c, long := changes[0], WithTTL(5*time.Minute)
	for what, lists := range map[string]struct {
		others [][]Option
		own    []Option
		life   time.Duration
	}{
		"short":        {[][]Option{nil}, nil, time.Minute},
		"its own long": {[][]Option{nil}, []Option{long}, time.Minute},
		"others' long": {[][]Option{nil, {long}}, nil, 8 * time.Minute},
	} {
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			var others []*Locker
			for _, opts := range lists.others {
				others = append(others, must(fl.open("a", c.old, opts...))(t))
			}
			b := fl.late(c, lists.own...)
			b.Status(t.Context()) // has it read what the nodes say: a majority of the others is enough to refuse it
			fl.cut("b", 0, 1)     // one of them may err
			for _, a := range others {
				succeeds(t, a.Close())
			}
			time.Sleep(lists.life - 30*time.Second)
			if b.mayLock() == nil {
				t.Errorf("%s: what a node said %v ago does not count", what, lists.life-30*time.Second)
			}
			worksAgain(t, b, time.Minute)
		})
	}
}

// A client that does not confirm its registration is a newcomer after a minute, however long its TTL is. The nodes that
// have its registration do not help: a client with a list that conflicts may not have seen it.
func TestAnAbsentClientWithALongTTLIsANewcomer(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		a := must(fl.open("a", c.old, withGuard(0), WithTTL(20*time.Minute)))(t)
		time.Sleep(time.Minute)
		fl.cut("a", c.old...)
		for _, n := range fl.nodes[:2] { // they forget the registration
			n.Crash(false)
			n.Restart()
		}
		time.Sleep(5 * time.Second)
		fl.cut("b", 2, 3) // where it is still
		b := must(fl.open("b", c.new, withGuard(0)))(t)
		time.Sleep(5 * time.Minute)
		kb := must(b.TryLock(t.Context(), "job"))(t)
		fl.mend("a", c.old...)
		time.Sleep(time.Minute)
		if _, err := a.TryLock(t.Context(), "job"); !errors.As(err, new(*ListConflictError)) || kb.Err() != nil {
			t.Errorf("got %v, want a ListConflictError; the other's hold: %v", err, kb.Err())
		}
	})
}

// Nodes that have lost the registrations, with no connection broken, tell that by their identities. The client is not
// established there any more: one with a list that conflicts may have come. It registers anew, and not for ever.
func TestAClientNoticesThatItIsForgotten(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		a := must(fl.open("a", c.old))(t)
		time.Sleep(time.Minute)
		fl.nodes.do("FLUSHALL")
		asked := exchanged(fl)
		b := must(fl.open("b", c.new))(t)
		time.Sleep(3 * time.Minute)
		if a.mayLock() == nil && b.mayLock() == nil {
			t.Error("both work")
		}
		time.Sleep(2 * time.Minute)
		if (a.mayLock() == nil) == (b.mayLock() == nil) {
			t.Errorf("one of two must be refused: got %v and %v", a.mayLock(), b.mayLock())
		}
		between(t, asked("vote"), 0, 2*len(c.old)*(5*60/30+5), "registrations of two clients in five minutes")
	})
}

// Lists that a client with a long TTL has left say nothing to a newcomer with a short one: that client has the same
// nodes, and crashed before one of these lost its data.
func TestLongLivedListsAreExplainedByARestartForLonger(t *testing.T) {
	five, guard := []int{0, 1, 2, 3, 4}, withGuard(20*time.Minute)
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		must(fl.open("x", five, guard, WithTTL(20*time.Minute)))(t)
		must(fl.open("e", five, guard))(t)
		time.Sleep(time.Minute)
		fl.cut("x", five...)
		fl.nodes[4].Crash(false)
		fl.nodes[4].Restart()
		time.Sleep(5 * time.Second)
		n := must(fl.open("n", five, guard))(t)
		for range 4 * 40 {
			succeeds(t, n.mayLock())
			time.Sleep(15 * time.Second)
		}
	})
}

// A client whose refusal ends is registered at once, and not with the next probes: another client with the former list
// must not come before.
func TestARefusalEndsWithARegistration(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		a := must(fl.open("a", c.old))(t)
		b := fl.late(c)
		succeeds(t, a.Close())
		worksAgain(t, b, time.Minute)
		settleNetwork()
		for _, i := range c.new {
			equals(t, len(listsOn(fl.nodes[i])), 1, "the lists that %s knows, which is b's", fl.nodes[i].Addr())
		}
	})
}

// A client that has learnt the identity of a node, or whose TTL is longer, has one text on the nodes, and is counted
// once.
func TestAClientHasOneTextAtATime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.cut("a", 2)
		a := must(fl.open("a", []int{0, 1, 2}, withGuard(2*time.Minute), withRetention(4*time.Minute)))(t)
		fl.mend("a", 2)
		succeeds(t, a.Ready(t.Context()))
		awaitState(a, 2, true)
		time.Sleep(3 * correctAfter)
		settleNetwork()
		for _, ttl := range []time.Duration{0, 20 * time.Second, 2 * time.Minute} { // which live for 1, 2 and 4 minutes
			if ttl > 0 {
				succeeds(t, must(a.TryLock(t.Context(), "job", WithTTL(ttl)))(t).Unlock())
				settleNetwork()
			}
			for _, n := range fl.nodes {
				lists := listsOn(n)
				if len(lists) != 1 || strings.HasSuffix(fmt.Sprintf("%s", lists[0]), "|4") != (ttl > time.Minute) {
					t.Errorf("with %v, %s knows %q, want one text", ttl, n.Addr(), lists)
				}
			}
		}
	})
}

// A client whose connections break is one client, however often that is, and also if they break before its registration
// arrives, or before that is answered.
func TestAClientThatConnectsAnewIsCountedOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a := must(fl.open("a", []int{0, 1, 2}, WithTTL(20*time.Minute)))(t)
		looks := must(fl.open("looks", []int{0, 1, 2}, onlyLooks))(t)
		fl.net.SetDelay(link0("a", 0), sim.Both, sim.Delay{Min: 10 * ms, Max: 10 * ms})
		for range 100 {
			fl.net.Reset(link0("a", 0))
			awaitState(a, 0, false)
			awaitState(a, 0, true)
			time.Sleep(rand.N(30 * ms))
		}
		time.Sleep(confirmsWithin)
		if seen := looks.Status(t.Context())[0].Clients; len(seen) != 1 || seen[0].Clients != 1 {
			t.Errorf("seen: %+v, want one client", seen)
		}
	})
}

// A master that two clients know by different addresses, as while it is renamed, may be down for long, and so may the
// network of one of them: they are the same clients as before. When it is back, all is known as before.
func TestAMasterWithTwoNamesMayBeDown(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		dial := fl.net.Dialer("b")
		a := must(fl.open("a", []int{0, 1, 2}))(t)
		b := must(New([]string{fl.urls[0], fl.urls[1], "redis://m2:6379"},
			dialing(func(ctx context.Context, network, addr string) (net.Conn, error) {
				return dial(ctx, network, strings.Replace(addr, "m2", "n2", 1))
			})))(t)
		defer b.Close()
		time.Sleep(5 * time.Minute)
		fl.nodes[2].Crash(true)
		time.Sleep(2 * time.Minute) // it is back in time to have its identity still
		fl.cut("b", 0, 1)
		time.Sleep(90 * time.Second)
		fl.mend("b", 0, 1)
		time.Sleep(time.Minute / 2)
		for name, l := range map[string]*Locker{"a": a, "b": b} {
			if found := listFindings(t, l); found != nil || l.mayLock() != nil {
				t.Errorf("%s is refused: %v, and finds %+v", name, l.mayLock(), found)
			}
		}
		fl.nodes[2].Restart()
		time.Sleep(time.Minute)
		for _, text := range listsOn(fl.nodes[0]) {
			if strings.Contains(fmt.Sprintf("%s", text), "?") {
				t.Errorf("the master is back, and a list says %q", text)
			}
		}
	})
}

// listsOn returns the lists of nodes that the node knows to be in use.
func listsOn(n *sim.Node) []any { return n.Do("ZRANGEBYSCORE", "redlock:lists", "(0", "+inf").([]any) }

// awaitState waits until a node is connected, or is not any more.
func awaitState(l *Locker, node int, connected bool) {
	for up := !connected; up != connected; up, _ = l.nodes[node].conn.State() {
		time.Sleep(ms)
	}
}

// openElsewhere opens a client of the first nodes, to which the address of one of them leads to another one.
func (fl *fleet) openElsewhere(client string, nodes, from, to int) (*Locker, error) {
	dial := fl.net.Dialer(client)
	return New(fl.urls[:nodes], dialing(func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == fl.nodes[from].Addr() {
			addr = fl.nodes[to].Addr()
		}
		return dial(ctx, network, addr)
	}))
}

// One address that leads to two masters, as localhost does, or a name that has moved, is noticed when a restart no
// longer explains it. The client that came later is refused, the other one goes on, and a client that ends before that
// leaves a trace.
func TestOneAddressOfTwoMastersIsNoticed(t *testing.T) {
	bubble(t, 4, func(t *testing.T, fl *fleet) {
		a := must(fl.open("a", []int{0, 1, 2}))(t)
		time.Sleep(time.Minute)
		b := must(fl.openElsewhere("b", 3, 2, 3))(t)
		time.Sleep(4 * time.Minute)
		succeeds(t, must(a.TryLock(t.Context(), "job"))(t).Unlock())
		_, err := b.TryLock(t.Context(), "job")
		conflicts(t, err)
		failsSaying(t, err, err, "n0:6379 n1:6379 n2:6379 (where n2:6379 is another master), this")
		findsNoLists(t, a, "b is refused")
		succeeds(t, b.Close())
		b = must(fl.openElsewhere("b", 3, 2, 3))(t) // it cannot know
		defer b.Close()
		time.Sleep(confirmsWithin)
		if found := listFindings(t, a); len(found) == 0 || !strings.Contains(found[0].Text, "n2:6379 is another master") {
			t.Errorf("b is back, and a finds %+v", found)
		}
	})
}

// What a restart explains is no conflict, however long it lasts: one client has lost the node that lost its data, and
// another one has crashed before it could learn that.
func TestARestartIsNotTwoMasters(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		five := []int{0, 1, 2, 3, 4}
		c := must(fl.open("c", five))(t) // the first: the nodes have their identities from it
		a, b := must(fl.open("a", five))(t), must(fl.open("b", five))(t)
		time.Sleep(time.Minute)
		fl.cut("b", 4)
		fl.cut("c", five...)
		fl.nodes[4].Crash(false)
		fl.nodes[4].Restart()
		time.Sleep(10 * time.Second)
		d := must(fl.open("d", five))(t)
		for range 60 {
			time.Sleep(5 * time.Second)
			for _, l := range []*Locker{a, b, d} {
				succeeds(t, l.mayLock())
				findsNoLists(t, l, "the restart explains it")
			}
			succeeds(t, must(fl.open("e", five))(t).Close())
		}
		succeeds(t, c.Close())
		fl.mend("b", 4)
		time.Sleep(time.Minute)
		equals(t, len(listsOn(fl.nodes[0])), 1, "lists in use when all is well")
	})
}

// A client is refused while a node that has its registration is out of its reach. The node is told when it is back.
func TestARefusedClientLeavesNodesThatWereAway(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		a := must(fl.open("a", c.old))(t)
		fl.cut("b", c.new...)
		b := must(fl.open("b", c.new, WithTTL(20*time.Minute), withGuard(time.Hour)))(t)
		fl.cut("a", 0)
		fl.nodes[0].Do("FLUSHALL")
		fl.mend("b", 0)
		time.Sleep(15 * time.Second)
		if len(listsOn(fl.nodes[0])) != 1 {
			t.Fatal("b is not registered: this proves nothing")
		}
		fl.cut("b", 0)
		time.Sleep(100 * ms)
		fl.mend("b", 1, 2, 3, 5)
		time.Sleep(15 * time.Second)
		if !errors.As(b.mayLock(), new(*ListConflictError)) || a.mayLock() != nil {
			t.Fatalf("b: %v, a: %v", b.mayLock(), a.mayLock())
		}
		fl.mend("b", 0)
		fl.mend("a", 0)
		time.Sleep(time.Minute)
		equals(t, len(listsOn(fl.nodes[0])), 1, "lists that the node has, of a alone")
		must(fl.open("newcomer", c.old))(t)
	})
}

// A client is closed soon after connections broke: while its registration is under way, or before it has registered
// over the new connection.
func TestAClientThatIsClosedLeavesNothing(t *testing.T) {
	for what, before := range map[string]bool{"under way": false, "before": true} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			succeeds(t, must(fl.open("first", []int{0, 1, 2}, withGuard(time.Hour)))(t).Close())
			l := must(fl.open("a", []int{0, 1, 2}, WithTTL(20*time.Minute), withGuard(time.Hour)))(t)
			time.Sleep(time.Minute)
			reset := func(node int, also func()) {
				also()
				fl.net.Reset(link0("a", node))
				awaitState(l, node, false)
				awaitState(l, node, true)
			}
			if before { // it does not register while it waits for more to correct
				reset(2, func() { fl.nodes[2].Crash(false); fl.nodes[2].Restart() })
				time.Sleep(10 * ms)
				reset(0, func() {})
			} else {
				fl.net.SetDelay(link0("a", 0), sim.Both, sim.Delay{Min: 30 * ms, Max: 30 * ms})
				reset(0, func() { fl.nodes[0].Do("FLUSHALL") })
				for asked := exchanged(fl); asked("vote") == 0; { // to correct what it has told
					time.Sleep(ms)
				}
			}
			time.Sleep(ms)
			succeeds(t, l.Close())
			settleNetwork()
			equals(t, len(listsOn(fl.nodes[0])), 0, "%s: lists left", what)
		})
	}
}

// A client leaves a moment after it has told of a longer TTL, before a node has answered: with what that node was told
// before, and with what it was told last. If the node lacked the script, nothing comes behind that: nobody would take
// it back.
func TestAClientLeavesWithAllThatItHasTold(t *testing.T) {
	for _, lacking := range []int{0, 3} { // trim, settings, lists
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			fl.nodes.setUptime(2 * time.Hour)
			l := must(fl.open("a", []int{0, 1, 2}, withGuard(time.Hour), withRetention(time.Hour)))(t)
			fl.slow("a", 20*ms, 1)
			fl.nodes[1].Fail("evalsha", "NOSCRIPT No matching script.", lacking)
			succeeds(t, must(l.TryLock(t.Context(), "job", WithTTL(5*time.Minute)))(t).Unlock())
			fl.nodes[0].Pause() // which Close waits for first
			succeeds(t, l.Close())
			settleNetwork()
			equals(t, len(listsOn(fl.nodes[1])), 0, "lists left, where it lacked the script %d times", lacking)
		})
	}
}
