package redlock

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
)

// busy is the reply of a node that runs a script for too long.
const busy = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."

// A release that a node refuses is sent again four times a second, and Unlock does not wait for it.
func TestARefusedReleaseIsRetried(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(20*time.Second))
		k := must(l.Lock(t.Context(), "job"))(t)
		settleNetwork()
		fl.nodes[0].Fail("evalsha", busy, 8)
		within(t, 50*ms, "Unlock", func() { succeeds(t, k.Unlock()) })
		time.Sleep(7*250*ms + 100*ms) // 8 were refused
		fl.isHeld("job", 1, "it was sent again too often")
		time.Sleep(250 * ms)
		fl.isHeld("job", 0)
	})
}

// Undos that all nodes refuse are executed later, and leave alone what was acquired since.
func TestRefusedUndosLeaveNothing(t *testing.T) {
	unlocked := func(lock call) func(t *testing.T, fl *fleet, refuse func()) {
		return func(t *testing.T, fl *fleet, refuse func()) {
			k := must(lock(t.Context(), fl.locker("a")))(t)
			refuse()
			fails(t, k.Unlock(), ErrNoQuorum)
		}
	}
	for what, undo := range map[string]func(t *testing.T, fl *fleet, refuse func()){
		"unlock":         unlocked(calls["Lock"]),
		"unlock several": unlocked(calls["LockAll"]),
		"stop reading":   unlocked(calls["RLock"]),
		"leave the queue": func(t *testing.T, fl *fleet, refuse func()) {
			k := must(fl.locker("b").Lock(t.Context(), "job"))(t)
			ctx, cancel := context.WithCancel(t.Context())
			done := async(func() error { return errOf(fl.locker("a").Lock(ctx, "job")) })
			time.Sleep(time.Second)
			refuse()
			cancel()
			<-done
			_ = k.Unlock() // refused as well: sent again before or after the undo that leaves the queue
		},
		"hand over": func(t *testing.T, fl *fleet, refuse func()) {
			k := must(fl.locker("b").Lock(t.Context(), "job"))(t)
			next := async(func() *Lock { return must(fl.locker("a").Lock(t.Context(), "job"))(t) })
			time.Sleep(time.Second)
			refuse()
			_ = k.Unlock()
			within(t, 3*time.Second, "the next waiter's wait", func() { succeeds(t, (<-next).Unlock()) })
		},
		"give back what was adopted": func(t *testing.T, fl *fleet, refuse func()) {
			k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
			ticket, b := must(k.Ticket())(t), fl.locker("b")
			fl.nodes[1].Pause()
			fl.nodes[2].Pause()
			time.AfterFunc(100*ms, refuse) // by then node 0 has granted the adoption, which is reverted at the node timeout
			fails(t, errOf(b.Adopt(t.Context(), ticket)), ErrNoQuorum)
			fl.nodes[1].Resume()
			fl.nodes[2].Resume()
			time.Sleep(2 * time.Second)
			_ = must(b.Adopt(t.Context(), ticket))(t).Unlock()
		},
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			undo(t, fl, func() {
				fl.nodes.fail("*", busy, -1)
				time.AfterFunc(time.Second, func() {
					fl.nodes.recover()
				})
			})
			time.Sleep(3 * time.Second)
			fl.nothingLeft(what)
			again := must(fl.locker("c", withGuard(0)).TryLock(t.Context(), "job"))(t)
			time.Sleep(5 * time.Second)
			succeeds(t, again.Unlock(), what, "a later hold")
		})
	}
}

// While a node is silent, what is kept for it does not grow with what the others do: the requests of its last node
// timeout, and an undo for each.
func TestWhatIsKeptForASilentNodeIsBounded(t *testing.T) {
	const workers, cycles = 8, 600
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[0].Pause()
		together(workers, func(i int) {
			for range cycles {
				k := must(l.Lock(t.Context(), fmt.Sprint("job", i)))(t)
				time.Sleep(ms) // so that a worker does not begin more than one cycle in a millisecond
				succeeds(t, k.Unlock())
			}
		})
		between(t, l.nodes[0].conn.Backlog(), 0, workers*int(l.opts.nodeTimeout/ms), "kept for the silent node")
		fl.nodes[0].Resume()
		time.Sleep(2 * time.Second)
		equals(t, l.nodes[0].conn.Backlog(), 0, "requests kept after the node has answered")
		fl.nothingLeft()
	})
}

// A node lets in a reader that has given up, and is told so: the reader leaves at once, not at the end of its lease.
func TestAReadersLateGrantIsReturned(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, owner := fl.locker("a"), uuid.New()
		l.listeners.leave(owner)
		for i, n := range fl.nodes {
			n.Do("SET", "job", quorum.Marker, "PX", 10_000)
			n.Do("ZADD", "redlock:read:job", time.Now().Add(10*time.Second).UnixMilli(), owner.String())
			l.listeners.receive(notice{node: i, inOrder: true}, owner.String()+" "+protocol.ReaderToken+" job")
		}
		fl.clean()
	})
}
