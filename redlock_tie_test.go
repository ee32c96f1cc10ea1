package redlock

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/sim"
)

// near and far are the ways from a client to the nodes: it gets the lock from those that are near.
const near, far = ms, 8 * ms

// racers returns one Locker for each entry, to which the nodes in the entry are near and all others far. So if all ask
// within far - near, each gets the lock from the nodes that are near to it.
func (fl *fleet) racers(entries [][]int, opts ...Option) (lockers []*Locker) {
	for i, close := range entries {
		client := string(rune('a' + i))
		lockers = append(lockers, fl.locker(client, opts...))
		for n := range fl.nodes {
			fl.net.SetDelay(link0(client, n), sim.Both, sim.Delay{Min: far, Max: far})
		}
		for _, n := range close {
			fl.net.SetDelay(link0(client, n), sim.Up, sim.Delay{Min: near, Max: near})
		}
	}
	settleNetwork()
	return lockers
}

// again counts the second questions that the nodes get from now on: acquire_all is for several names otherwise.
func (fl *fleet) again() func() int {
	var mu sync.Mutex
	count := 0
	for _, n := range fl.nodes {
		n.Observe(func(c sim.Command) {
			if len(c.Args) > 1 && c.Args[0] == "evalsha" && c.Args[1] == protocol.AcquireAll.Script.SHA {
				mu.Lock()
				count++
				mu.Unlock()
			}
		})
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// Three callers split the votes of five nodes. The oldest gets the lock, whichever votes it had, and its validity
// counts from its first reading of the clock.
func TestTheOldestBreaksTheTie(t *testing.T) {
	for _, entries := range [][][]int{{{0, 1}, {2, 3}, {4}}, {{4}, {0, 1}, {2, 3}}, {{2, 3}, {4}, {0, 1}}} {
		modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
			lockers := fl.racers(entries, opts...)
			var racers sync.WaitGroup
			for i, l := range lockers {
				racers.Go(func() {
					begun, micros := time.Now(), l.tokens.time(l.opts.clock.now())
					k, err := l.TryLock(t.Context(), "job")
					switch {
					case i > 0 && !errors.Is(err, ErrTaken):
						t.Errorf("racer %d: got %v, want ErrTaken", i, err)
					case i > 0:
						return
					case err != nil:
						t.Errorf("the oldest: %v", err)
						return
					}
					if want := begun.Add(l.opts.drift.validity(l.opts.ttl, 0)); !k.Deadline().Equal(want) {
						t.Errorf("valid until %v, want %v after the beginning", k.Deadline().Sub(begun), want.Sub(begun))
					}
					// The token is as young as the last question: in between, a node may have forgotten a larger one than the first.
					if pauseEnds := micros + (2*far + far/2).Microseconds(); l.opts.fencing && k.Token() < pauseEnds {
						t.Errorf("token %d, want at least the time after the pause, %d", k.Token(), pauseEnds)
					}
					settleNetwork()
					for n, node := range fl.nodes {
						equals[any](t, node.Do("GET", "job"), k.Owner(), "the owner on node %d", n)
					}
					succeeds(t, k.Extend(t.Context()))
					succeeds(t, k.Unlock())
				})
				time.Sleep(ms) // so that the first is the oldest, whatever the nodes' clocks seem to be
			}
			racers.Wait()
			fl.clean()
		})
	}
}

// A caller that is refused asks no second time: neither where a holder has all nodes, nor where it has a bare majority
// and began later.
func TestARefusedCallerAsksOnce(t *testing.T) {
	modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
		a, b := fl.locker("a", opts...), fl.locker("b", opts...)
		k := must(a.Lock(t.Context(), "job"))(t)
		settleNetwork()
		again := fl.again()
		for range 20 {
			fails(t, errOf(b.TryLock(t.Context(), "job")), ErrTaken)
			settleNetwork()
		}
		equals(t, again(), 0, "second questions")
		succeeds(t, k.Unlock())
	})
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[:3].do("SET", "job", youngOwner, "PX", "60000")
		again := fl.again()
		fails(t, errOf(l.TryLock(t.Context(), "job")), ErrTaken)
		settleNetwork()
		equals(t, again(), 0, "second questions")
	})
}

// youngOwner and youngOwner2 began after everybody else.
const (
	youngOwner  = "ffffffff-ffff-7fff-bfff-fffffffffff1"
	youngOwner2 = "ffffffff-ffff-7fff-bfff-fffffffffff2"
)

// deadlock gives three of five nodes to two owners that are younger than everybody and never undo anything.
func (fl *fleet) deadlock() {
	for i, n := range fl.nodes[2:] {
		n.Do("SET", "job", []string{youngOwner, youngOwner, youngOwner2}[i], "PX", "60000")
	}
}

// Whoever joins the queues, reads, wants several names or a permit does not ask again.
func TestOnlyATryLockBreaksTies(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.deadlock()
		again := fl.again()
		ctx := expiring(t, 100*ms)
		for what, call := range map[string]func() (*Lock, error){
			"Lock":     func() (*Lock, error) { return l.Lock(ctx, "job") },
			"TryRLock": func() (*Lock, error) { return l.TryRLock(t.Context(), "job") },
		} {
			if _, err := call(); !errors.Is(err, ErrTaken) || again() > 0 {
				t.Errorf("%s: %v, %d second questions", what, err, again())
			}
			settleNetwork()
		}
		before := again()
		within(t, 250*ms, "TryLock", func() { fails(t, errOf(l.TryLock(t.Context(), "job")), ErrTaken) })
		settleNetwork()
		equals(t, again(), before+10, "second questions, two to each node")
		fl.isHeld("job", 3)
		fails(t, errOf(l.TryLockAll(t.Context(), []string{"free", "job"})), ErrTaken)
		settleNetwork()
		fl.isHeld("free", 0, "after TryLockAll")
		fl.isHeld("job", 3, "after TryLockAll")
	})
}

// A node gave the lock in the first round and is away in the second. It is told of the undo when it is back.
func TestATieIsUndoneOnTheNodesOfAllRounds(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.racers([][]int{{0, 1, 2, 3, 4}}, WithTTL(30*time.Second))[0]
		fl.deadlock()
		time.AfterFunc(near+far+3*ms, func() { // in the pause
			fl.net.Refuse(link0("a", 0))
			fl.net.Reset(link0("a", 0))
		})
		_, err := l.TryLock(t.Context(), "job")
		equals(t, quorumError(t, err).Nodes[0].Outcome, outcomeFailed, "a node in the second round")
		settleNetwork()
		equals[any](t, fl.nodes[0].Do("EXISTS", "job"), int64(1), "the node has not got the lock: this proves nothing")
		fl.mend("a", 0)
		time.Sleep(5 * time.Second)
		fl.isHeld("job", 3)
	})
}

// The caller or the Locker may end in the pause, or while the second question is under way. Nothing is left.
func TestACallThatEndsInATieLeavesNothing(t *testing.T) {
	for _, after := range []time.Duration{near + far + 3*ms, 2*(near+far) + 10*ms} {
		modes(t, 5, func(t *testing.T, fl *fleet, opts ...Option) {
			l := fl.racers([][]int{{0, 1, 2, 3, 4}}, opts...)[0]
			fl.deadlock()
			ctx := expiring(t, after)
			within(t, after+ms, "TryLock", func() { fails(t, errOf(l.TryLock(ctx, "job")), context.DeadlineExceeded) })
			time.Sleep(100 * ms)
			synctest.Wait()
			fl.isHeld("job", 3, "cancelled")
			time.AfterFunc(after, func() { _ = l.Close() })
			if _, err := l.TryLock(t.Context(), "job"); err == nil {
				t.Error("got the lock")
			}
			time.Sleep(500 * ms)
			synctest.Wait()
			fl.isHeld("job", 3, "closed")
		})
	}
}

// A node that restarts empty between the rounds gives its vote to the second question, but that does not count.
func TestANodeThatForgetsInATieAbstains(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.racers([][]int{{0, 1, 2, 3, 4}})[0]
		fl.deadlock()
		time.AfterFunc(near+far+ms, func() {
			fl.net.SetDelay(link0("a", 4), sim.Both, sim.Delay{}) // it is met again before the second question
			fl.nodes[4].Crash(false)
			fl.nodes[4].Restart()
		})
		_, err := l.TryLock(t.Context(), "job")
		equals(t, quorumError(t, err).Nodes[4].Outcome, outcomeAbstained, "node 4, which gives the lock")
	})
}
