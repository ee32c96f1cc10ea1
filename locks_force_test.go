package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/sim"
)

// A holder that is alive loses its lock, or one of several, and does not get it back by renewing it. The next one has
// the larger token.
func TestForceUnlock(t *testing.T) {
	for name, lock := range some("Lock", "without tokens", "LockAll") {
		subtest(t, name, 5, func(t *testing.T, fl *fleet) {
			a, b, admin := fl.locker("a"), fl.locker("b"), fl.locker("admin")
			stuck := must(lock(t.Context(), a))(t)
			settleNetwork()
			succeeds(t, admin.ForceUnlock(t.Context(), "job", stuck.Owner()))
			fl.isHeld("job", 0, "right after it")
			within(t, 10*time.Second, "the holder's notice", func() { <-stuck.Done() }) // the TTL
			fails(t, stuck.Err(), ErrLost, "the holder")
			settleNetwork()
			equals(t, fl.holding("job")+fl.holding("other"), 0, "the holder got it back: keys")
			next := must(tries[name](t.Context(), b))(t)
			if name != "without tokens" {
				grows(t, next.Token(), stuck.Token())
			}

			// Late, by somebody who still sees the first owner: the next holder loses nothing.
			succeeds(t, admin.ForceUnlock(t.Context(), "job", stuck.Owner()))
			time.Sleep(time.Minute)
			succeeds(t, next.Err(), "the next holder")
		})
	}
}

// Each of two holds goes on being renewed if the other is revoked, and the lock of a queue goes to the oldest waiter.
func TestForceUnlockHandsOver(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		stuck, other := must(a.Lock(t.Context(), "job"))(t), must(a.Lock(t.Context(), "other"))(t)
		got := async(func() *Lock { return must(b.Lock(t.Context(), "job"))(t) })
		time.Sleep(time.Second)
		succeeds(t, fl.locker("admin").ForceUnlock(t.Context(), "job", stuck.Owner()))
		within(t, 100*time.Millisecond, "handing over", func() {
			if k := <-got; k.Token() <= stuck.Token() {
				t.Errorf("the waiter got %v after %v", k, stuck)
			}
		})
		time.Sleep(time.Minute)
		succeeds(t, other.Err(), "another hold of the same process")
	})
}

func TestForceUnlockOfAReader(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, admin := fl.locker("a"), fl.locker("admin")
		stuck, other := must(a.RLock(t.Context(), "prices"))(t), must(fl.locker("c").RLock(t.Context(), "prices"))(t)
		settleNetwork()
		succeeds(t, admin.ForceUnlock(t.Context(), "prices", stuck.Owner()))
		time.Sleep(20 * time.Second)
		fails(t, stuck.Err(), ErrLost, "the reader")
		succeeds(t, other.Err(), "the other reader")
		if i := must(admin.Inspect(t.Context(), "prices"))(t); len(i.Readers) != 1 || i.Readers[0] != other.Owner() {
			t.Errorf("readers: got %v, want %s alone", i.Readers, other.Owner())
		}
	})
}

// Two of five nodes are out of reach: they keep the lock, and that is no hold. Three are: nothing is certain.
func TestForceUnlockWithNodesOutOfReach(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		stuck, admin := must(fl.locker("a").Lock(t.Context(), "job"))(t), fl.locker("admin")
		settleNetwork()
		fl.cut("admin", 0, 1)
		succeeds(t, admin.ForceUnlock(t.Context(), "job", stuck.Owner()))
		time.Sleep(10 * time.Second)
		fails(t, stuck.Err(), ErrLost, "with three of five")
		fl.cut("admin", 2)
		var q *QuorumError
		err := admin.ForceUnlock(t.Context(), "job", stuck.Owner())
		if !errors.As(err, &q) || !errors.Is(err, ErrNoQuorum) || q.Granted != 2 ||
			!strings.HasPrefix(err.Error(), "redlock: force-unlock job: no quorum: 2 of 5 voted, ") {
			t.Errorf("with two of five: got %v", err)
		}
	})
}

func TestForceUnlockRefusesNonsense(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, c := range [][2]string{
			{"", "x"}, {"redlock:node", "x"}, {"job", ""}, {"job", "readers"}, {"job", strings.Repeat("x", 129)},
		} {
			fails(t, l.ForceUnlock(t.Context(), c[0], c[1]), ErrInvalid, c[:]...)
		}
		done := cancelled(t)
		fails(t, l.ForceUnlock(done, "job", "x"), context.Canceled, "ctx is done")
		_ = l.Close()
		synctest.Wait()
		fails(t, l.ForceUnlock(t.Context(), "job", "x"), ErrClosed, "closed")
	})
}

// revoked tells, until the test ends, of each node that gives a key to an owner or keeps it there, from now on.
func (fl *fleet) revoked(key, owner string, except ...int) {
	for i, n := range fl.nodes {
		if slices.Contains(except, i) {
			continue
		}
		n.Watch([]string{key}, func(_ sim.Command, before []string, after sim.Data) {
			_, was := after.Score("redlock:read:"+key, owner)
			if had, has := before[0] == owner, after.Text(key) == owner; has && !had || was && after.Text(key) == quorum.Marker {
				fl.t.Errorf("n%d gave %s to the revoked owner", i, key)
			}
		})
	}
}

// Of three nodes, one still has the former holder's key, so the next holder stands in its queue. That node is told of
// the revocation, and then gets the former holder's release: it must not hand the lock to the revoked owner.
func TestARevokedHoldGetsNoVotesFromAQueue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b, admin := fl.locker("a"), fl.locker("b"), fl.locker("admin")
		former := must(b.Lock(t.Context(), "job"))(t)
		settleNetwork()
		fl.net.Hold(link0("b", 2), sim.Both)
		succeeds(t, former.Unlock())
		stuck := must(a.Lock(t.Context(), "job"))(t)
		settleNetwork()
		fl.cut("admin", 1)
		fl.nodes.deny("pubsub") // or the holder would be told, and leave
		succeeds(t, admin.ForceUnlock(t.Context(), "job", stuck.Owner()))
		fl.revoked("job", stuck.Owner(), 1)
		fl.net.Release(link0("b", 2), sim.Both)
		time.Sleep(30 * time.Second)
		fails(t, stuck.Err(), ErrLost, "three TTLs later")
		fl.isHeld("job", 0)
	})
}

// What an owner has sent before it is revoked may reach a node behind the revocation. A request without a token is
// Redis's own SET, which looks at no mark: the node gives it the lock, and extends nothing for it.
func TestARequestBehindTheRevocationGetsNothing(t *testing.T) {
	for name, lock := range some("Lock", "TryLock", "RLock", "LockAll", "without tokens") {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			a, admin := fl.locker("a"), fl.locker("admin")
			settleNetwork()
			fl.net.Hold(link0("a", 2), sim.Both)
			stuck := must(lock(t.Context(), a))(t)
			settleNetwork()
			fl.cut("admin", 1)
			succeeds(t, admin.ForceUnlock(t.Context(), "job", stuck.Owner()))
			if name != "without tokens" {
				fl.revoked("job", stuck.Owner(), 1)
			}
			fl.net.Release(link0("a", 2), sim.Both)
			time.Sleep(30 * time.Second)
			fails(t, stuck.Err(), ErrLost, "three TTLs later")
		})
	}
}

// While the nodes are being changed, it takes a majority of both lists to take a lock away: a holder may have either.
func TestForceUnlockNeedsBothLists(t *testing.T) {
	c := change{"replace two", []int{0, 1, 2}, []int{2, 3, 4}}
	for name, away := range map[string][]int{"old": {0, 1}, "new": {3, 4}} {
		subtest(t, name, c.size(), func(t *testing.T, fl *fleet) {
			stuck, admin := must(c.locker(fl, "both", "a").Lock(t.Context(), "job"))(t), c.locker(fl, "both", "admin")
			settleNetwork()
			fl.cut("admin", away...)
			fails(t, admin.ForceUnlock(t.Context(), "job", stuck.Owner()), ErrNoQuorum)
		})
	}
}

// The set of readers has two members that are no owners. To take them away would let a writer in beside live readers.
func TestForceUnlockLeavesUnknownReadersAlone(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		reader, admin := must(fl.locker("a").RLock(t.Context(), "job"))(t), fl.locker("admin")
		settleNetwork()
		fl.nodes.do("DEL", "redlock:read:job")
		_, _ = admin.TryLock(t.Context(), "job")
		must(admin.TryRLock(t.Context(), "job"))(t) // makes the set anew
		for _, owner := range []string{"unknown", "writer"} {
			fails(t, admin.ForceUnlock(t.Context(), "job", owner), ErrInvalid, owner)
		}
		succeeds(t, reader.Err())
	})
}

// A script ends where a node refuses a command, and what it has written stays: but nothing without a TTL.
func TestANodeThatRefusesATTLKeepsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b, c := fl.locker("a"), fl.locker("b"), fl.locker("c")
		k := must(a.Lock(t.Context(), "job"))(t)
		settleNetwork()
		fl.nodes.deny("pexpire")
		time.AfterFunc(5*ms, func() { fl.cut("b", 0, 1, 2) }) // before it gives up
		if _, err := b.Lock(t.Context(), "job", WithMaxWait(time.Second)); err == nil {
			t.Error("b got the lock")
		}
		if err := c.ForceUnlock(t.Context(), "job", k.Owner()); err == nil {
			t.Error("the lock was taken away, and no node could note it")
		}
		for _, n := range fl.nodes {
			n.Deny()
			for _, key := range []string{"redlock:wait:job", "redlock:waiting", "redlock:revoked"} {
				if n.Do("PTTL", key) == int64(-1) {
					t.Errorf("%s has %s for ever", n.Addr(), key)
				}
			}
		}
	})
}

// untold has a client hear nothing of a node from the moment at which that sets a key to something else, until tell.
func (fl *fleet) untold(client, key string) (tell func()) {
	var told atomic.Bool
	for i, n := range fl.nodes {
		n.Watch([]string{key}, func(_ sim.Command, before []string, after sim.Data) {
			if has := after.Text(key); has != "" && has != before[0] && !told.Load() {
				fl.net.Hold(link0(client, i), sim.Down)
			}
		})
	}
	return func() {
		told.Store(true)
		fl.net.Release(sim.Link{Client: client}, sim.Down)
	}
}

// beginning is a call by client a whose hold begins while it hears nothing of that, until tell.
type beginning struct {
	key   string
	owner string
	tell  func()
	k     *Lock // set when done says how it ended
	done  <-chan error
}

// begins begins a call of everyCall. If it waits, another client has the lock first.
func (fl *fleet) begins(name string, waits bool, opts ...LockOption) *beginning {
	t, a, b := fl.t, fl.locker("a"), fl.locker("b")
	a.listeners.hear()
	settleNetwork()
	g, ticket := &beginning{key: "job"}, ""
	if strings.HasSuffix(name, "Acquire") {
		g.key = permitsName + "job:0"
	}
	changes := g.key
	if len(opts) > 0 { // a value
		changes = "redlock:value:" + g.key
	}
	first := func() error { return nil }
	switch {
	case waits:
		first = must(fl.next(g.key))(t).Unlock
	case name == "Adopt":
		ticket = must(must(b.Lock(t.Context(), g.key))(t).Ticket())(t)
		fallthrough
	default:
		g.tell = fl.untold("a", changes)
	}
	g.done = async(func() (err error) { g.k, err = everyCall(ticket)[name](t.Context(), a, opts...); return err })
	settleNetwork()
	if waits {
		g.tell = fl.untold("a", changes)
		succeeds(t, first())
		settleNetwork()
	}
	i := must(b.Inspect(t.Context(), g.key))(t)
	g.owner = append(i.Readers, i.Owner)[0]
	return g
}

// next has another client take a key at once.
func (fl *fleet) next(key string) (*Lock, error) {
	if key != "job" {
		return fl.locker("c").Semaphore("job", 1).TryAcquire(fl.t.Context())
	}
	return fl.locker("c").TryLock(fl.t.Context(), key)
}

// The answers that make a hold, and the word that it was taken away, come to a process together. Nobody gets the hold:
// who waits goes on waiting, and gets the lock in turn.
func TestForceUnlockIsToldBeforeTheHoldBegins(t *testing.T) {
	for name := range everyCall("") {
		tries := strings.HasPrefix(name, "try ") || name == "TryLock" || name == "Adopt" || name == "Forget"
		for _, waits := range []bool{false, true} {
			for what, opts := range map[string][]LockOption{"": nil, " value": {WithValue("mine")}} {
				if waits && tries || opts != nil && strings.HasSuffix(name, "RLock") {
					continue
				}
				subtest(t, fmt.Sprint(name, " waits=", waits, what), 5, func(t *testing.T, fl *fleet) {
					g := fl.begins(name, waits, opts...)
					succeeds(t, fl.locker("admin").ForceUnlock(t.Context(), g.key, g.owner))
					next := must(fl.next(g.key))(t)
					g.tell()
					if tries {
						within(t, 250*ms, "the call", func() { failsAll(t, <-g.done, ErrNotAcquired, ErrTaken) })
						succeeds(t, next.Unlock())
						return
					}
					time.Sleep(2 * time.Second)
					equals(t, len(g.done), 0, "has ended beside the next holder")
					succeeds(t, next.Unlock())
					if succeeds(t, <-g.done); g.k != nil {
						time.Sleep(11 * time.Second)
						succeeds(t, g.k.Unlock(), "a TTL later")
					}
				})
			}
		}
	}
}

// The word comes when the hold has been confirmed, and is not in the schedule yet: so its holder learns of it at once.
// What a minority says, or anybody who may publish, ends nothing.
func TestForceUnlockIsToldWhileTheHoldBegins(t *testing.T) {
	for what, c := range map[string]struct {
		told []int // nodes that have revoked it
		lost bool
	}{"a majority": {[]int{0, 2, 3}, true}, "a minority": {[]int{1, 4}, false}} {
		subtest(t, what, 5, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			l.listeners.hear()
			settleNetwork()
			h := must(l.try(t.Context(), plan{op: "lock", name: "job", key: "job", opts: l.opts}))(t)
			for _, i := range c.told {
				fl.nodes[i].Do("ZADD", revokedName, 1e15, h.owner.String())
			}
			fl.nodes.do("PUBLISH", l.listeners.channel, h.owner.String()+" revoked job")
			settleNetwork()
			k := l.handOut(&Lock{hold: h})
			settleNetwork()
			equals(t, errors.Is(k.Err(), ErrLost), c.lost, "lost")
			time.Sleep(time.Minute)
			equals(t, k.Unlock() != nil, c.lost, "lost a minute later")
		})
	}
}

// Forged messages, and two nodes of five that tell the owner so themselves, cost a call one more round trip, and not
// its hold.
func TestForgedMessagesKeepNoHoldFromBeginning(t *testing.T) {
	for name := range everyCall("") {
		for _, liars := range []int{0, 2} {
			subtest(t, fmt.Sprint(name, liars), 5, func(t *testing.T, fl *fleet) {
				g := fl.begins(name, false)
				for _, n := range fl.nodes[:liars] {
					n.Do("ZADD", revokedName, 1e15, g.owner)
				}
				channel := fl.nodes[0].Do("PUBSUB", "CHANNELS", "*wake:"+g.owner[19:28]+":*").([]any)[0]
				fl.nodes.do("PUBLISH", channel, g.owner+" revoked job")
				g.tell()
				if succeeds(t, <-g.done); g.k != nil {
					equals(t, g.k.Owner(), g.owner, "owner")
					time.Sleep(11 * time.Second)
					succeeds(t, g.k.Unlock(), "a TTL later")
				}
			})
		}
	}
}

// Whatever nodes tell, little of it is remembered; and what one of them tells displaces nothing that another has told.
func TestFewRevokedOwnersAreRemembered(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		owner, said := uuid.New(), 0
		for range 50 {
			for range 2 * maxRevocations {
				for i := range fl.nodes[1:] {
					l.listeners.receive(notice{node: i, inOrder: true}, uuid.NewString()+" revoked job")
				}
			}
			if said == 0 {
				l.listeners.receive(notice{node: 2, inOrder: true}, owner.String()+" revoked job")
			}
			if said++; said <= 9 {
				equals(t, l.listeners.revokers(owner), quorum.Set(0).With(2), "who has told of an owner, after %d s", said)
			}
			time.Sleep(time.Second)
		}
		equals(t, l.listeners.revokers(owner), 0, "who has told, 50 s later")
		total, most := len(l.listeners.told[0])+len(l.listeners.told[1]), 2*2*maxRevocations*int(rememberTold/time.Second)
		between(t, total, 1, most, "owners that are remembered")
	})
}
