package simtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// This file has the waits of the aftermath: all nodes are in order, and nobody wants the name but those who are told
// to.

// way is one of those in which a lock is waited for.
type way struct {
	name string
	of   func(l *redlock.Locker) lockCall
}

var (
	toLock    = way{"Lock", func(l *redlock.Locker) lockCall { return l.Lock }}
	toRLock   = way{"RLock", func(l *redlock.Locker) lockCall { return l.RLock }}
	toAcquire = way{"Acquire", func(l *redlock.Locker) lockCall {
		return func(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error) {
			return l.Semaphore(name, 1).Acquire(ctx, opts...)
		}
	}}
)

// limited has somebody wait for longer than it may then hold what it waits for. It must get that, and somebody else
// must get it when the limit is reached and the validity has ended, for the first does not let go before that.
func (w *world) limited() {
	r := rand.New(rand.NewPCG(w.scenario.Seed, 0x3a175))
	limit := scaled(w.scenario.TTL, r, 1./4, 1)
	held, how := toLock, []way{toLock, toRLock, toAcquire}[r.IntN(3)]
	if how.name == "Acquire" {
		held = toAcquire
	}
	lock := w.succeed(held, how, w.clients[0], w.clients[1], redlock.WithMaxHold(limit))
	if lock == nil {
		return
	}
	if left := time.Until(lock.Deadline()); left > limit {
		w.blame("honesty", "a hold limited to %v is valid for %v", limit, left)
	}
	if next := w.await(held, w.clients[len(w.clients)-1], limit+w.scenario.TTL); next != nil {
		w.gaveBack(next)
	}
	// A quarter may be left of it at first. The first renewal takes two round trips if nodes have no script for it.
	slow := 4*w.scenario.Delay.SlowMax > limit/4
	if err := lock.Err(); !errors.Is(err, redlock.ErrMaxHold) && !(slow && errors.Is(err, redlock.ErrLost)) {
		w.blame("progress", "a hold limited to %v ended otherwise: %v", limit, err)
	}
	_ = lock.Unlock() // says that it was lost
}

// handedOn has somebody hand on at once what it has waited for: hand-overs may be on their way to it still.
func (w *world) handedOn() {
	lock := w.succeed(toLock, toLock, w.clients[0], w.clients[1])
	if lock == nil {
		return
	}
	if time.Until(lock.Deadline()) < w.scenario.TTL/2 {
		w.gaveBack(lock) // too little is left of it for the nodes to be asked in time
		return
	}
	text, err := lock.Ticket()
	if err != nil {
		w.blame("progress", "a lock could not be handed over after the faults: %v", err)
		return
	}
	w.tickets.Store(lock.Owner(), lock.Deadline())
	time.Sleep(time.Until(lock.Deadline()) / 4)
	adopted, err := w.clients[len(w.clients)-1].locker.Load().Adopt(context.Background(), text)
	if err != nil {
		w.blame("progress", "a ticket could not be adopted at once after the faults: %v", err)
		return
	}
	w.adopted(lock.Owner())
	w.gaveBack(adopted)
}

// late has an extension reach a node behind the release, on a connection that broke under it.
func (w *world) late() {
	r := rand.New(rand.NewPCG(w.scenario.Seed, 0x1a7e))
	c, n := w.clients[r.IntN(len(w.clients))], w.nodes[r.IntN(len(w.nodes))]
	lock := w.await(toLock, c, 0, redlock.WithoutRenewal())
	if lock == nil {
		return
	}
	time.Sleep(time.Until(lock.Deadline()) / 4)
	asked := time.Now()
	extended := make(chan error)
	go func() { extended <- lock.Extend(context.Background()) }()
	time.Sleep(sim.LAN.Min / 2)
	w.net.Strand(sim.Link{Client: c.name, Node: n.Addr()}, w.scenario.TTL)
	// It may fail: another node abstains where a clock was set, and two of three are not enough then.
	if err := <-extended; err == nil {
		time.Sleep(time.Until(asked.Add(w.scenario.TTL / 2))) // the time to connect again
	}
	_ = lock.Unlock()
	time.Sleep(time.Until(asked.Add(3 * w.scenario.TTL))) // what the node did for it is over then, whatever it was
}

// succeed has one client hold the lock for two TTLs while another waits for it, and returns what that gets.
func (w *world) succeed(held, how way, holder, waiter *client, opts ...redlock.LockOption) *redlock.Lock {
	first := w.await(held, holder, 0)
	if first == nil {
		return nil
	}
	got := make(chan *redlock.Lock)
	go func() { got <- w.await(how, waiter, 2*w.scenario.TTL, opts...) }()
	time.Sleep(2 * w.scenario.TTL)
	w.gaveBack(first)
	return <-got
}

// await waits for what will be free after some time. It takes a few TTLs more than that at most.
func (w *world) await(how way, c *client, after time.Duration, opts ...redlock.LockOption) *redlock.Lock {
	patience := after + 4*w.scenario.TTL + 4*w.scenario.slowest()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	lock, err := how.of(c.locker.Load().Locker)(ctx, contested, opts...)
	if err != nil {
		w.blame("progress", "%s of %s got nothing within %v after the faults, for what was free after %v: %v",
			how.name, c.name, patience, after, err)
		return nil
	}
	return lock
}

// gaveBack lets go. Where round trips are long, the hold may have been lost before its first renewal.
func (w *world) gaveBack(lock *redlock.Lock) {
	if err := lock.Unlock(); err != nil && !errors.Is(err, redlock.ErrLost) {
		w.blame("progress", "%s could not be unlocked after the faults: %v", lock.Name(), err)
	}
	w.quiet()
}
