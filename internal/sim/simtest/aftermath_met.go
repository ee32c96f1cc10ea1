package simtest

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// This file has the trials of what must be so whatever options meet: those that the row has are drawn.

// met has what the row has meet once more, on nodes that are in order.
func (w *world) met() {
	r := rand.New(rand.NewPCG(w.scenario.Seed, 0x3e7))
	k := &worker{client: w.clients[0], label: "t0", r: r, apart: r}
	for i := range 3 {
		k.eager = i > 0
		k.leavesNothing()
	}
	k.eager = false
	k.takenEarly()
	if w.scenario.Habits.Part[WithValue] > 0 {
		k.keepsItsPlace()
	}
	if part := w.scenario.Habits.Part; part[Visit]+part[OtherMaxTTL] > 0 {
		w.grows()
	}
}

// long is a TTL that ends nothing by itself during a trial.
func (w *worker) long(a *asking) []redlock.LockOption {
	a.ttl = w.set.maxTTL
	return append(a.opts, redlock.WithTTL(a.ttl))
}

// leavesNothing has a call get its answers late, so that it fails, or nearly. A node timeout later, nothing of it is on
// the nodes.
func (w *worker) leavesNothing() {
	tries := w.inclined(w.scenario.Habits.Part[TryLock])
	calls, permit, reads := []Feature{Lock}, w.minded(w.scenario.permits()), false
	if tries {
		calls[0] = TryLock
	}
	wanted := []string{contested}
	switch {
	case permit:
		calls = append(calls, Acquire)
	case w.minded(w.scenario.Habits.Part[RLock]):
		reads = true
		calls = append(calls, RLock)
	case w.minded(w.scenario.Habits.Part[LockAll]):
		wanted = append(wanted, names[0])
		calls = append(calls, LockAll)
	}
	longest := w.set.timeout
	a := w.ask(2*longest, calls...)
	defer w.meetings.end(a.use)
	opts := w.long(a)
	if a.limit > 0 {
		longest = min(4*longest/5, a.limit)
		opts = append(opts, redlock.WithMaxHold(longest))
	}
	way := scaled(longest, w.apart, 0.2, 0.45)
	all := sim.Link{Client: w.name}
	w.net.SetDelay(all, sim.Both, sim.Delay{Min: way, Max: way + time.Microsecond})
	ctx, cancel := context.WithTimeout(context.Background(), 2*longest)
	defer cancel()
	verb, acquire := w.call(w.locker.Load().Locker, wanted, tries, reads, permit)
	lock, err := acquire(ctx, contested, opts...)
	w.net.SetDelay(all, sim.Both, w.scenario.Delay)
	if err == nil {
		_ = lock.Unlock()
	}
	w.log(w.label, "%s, answers after %v: %s", verb, 2*way, kindOf(err))
	if wait := 2*way + w.set.timeout; a.validity() > 2*longest+wait+w.roundTrip() {
		time.Sleep(wait)
		w.quiet()
		w.leftovers("a node timeout after "+verb, "redlock:wa")
	}
	time.Sleep(w.set.timeout)
}

// takenEarly has somebody take a lock from an owner whose call does not know yet that it has it. It learns of that as
// soon as it knows.
func (w *worker) takenEarly() {
	a, other := w.ask(time.Minute, Lock), w.clients[len(w.clients)-1]
	defer w.meetings.end(a.use)
	var first *redlock.Lock
	if w.apart.IntN(2) == 0 { // it waits
		if first = w.await(toLock, other, 0); first == nil {
			return
		}
	}
	all := sim.Link{Client: w.name}
	got := make(chan *redlock.Lock, 1)
	if first == nil {
		w.net.Hold(all, sim.Down)
	}
	go func() { got <- w.await(toLock, w.client, time.Minute, w.long(a)...) }()
	if first != nil {
		time.Sleep(2*w.roundTrip() + 5*time.Millisecond)
		w.net.Hold(all, sim.Down)
		w.gaveBack(first)
	}
	owner := w.nodeSays(w.roundTrip() + 10*time.Millisecond)
	if owner != "" {
		_ = other.locker.Load().ForceUnlock(context.Background(), contested, owner)
		w.quiet()
	}
	w.net.Release(all, sim.Down)
	lock := <-got
	if lock == nil {
		return
	}
	if lock.Owner() == owner && w.scenario.PlainNodes&(1<<w.scenario.Nodes-1) == 0 {
		if slow := 6*w.scenario.Delay.SlowMax + 10*time.Millisecond; lasts(slow, lock.Done()) {
			w.blame("revoked", "a hold that was taken before its call knew of it has not ended within %v", slow)
		}
	}
	_ = lock.Unlock()
	w.quiet()
}

// nodeSays returns the owner that a majority has for the contested name, which may take a moment.
func (w *world) nodeSays(within time.Duration) string {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(50 * time.Microsecond) {
		has := map[any]int{}
		for _, n := range w.nodes {
			owner := n.Do("GET", contested)
			if has[owner]++; has[owner] > len(w.nodes)/2 && owner != nil && owner != marker {
				return owner.(string)
			}
		}
	}
	return ""
}

// keepsItsPlace has the first of four waiters get the answers about its value too late. It gives the lock back, and is
// the next to get it.
func (w *worker) keepsItsPlace() {
	a, other := w.ask(time.Minute, Lock), w.clients[len(w.clients)-1]
	defer w.meetings.end(a.use)
	first := w.await(toLock, other, 0)
	if first == nil {
		return
	}
	order, left := make(chan int, 4), sync.WaitGroup{}
	left.Add(4)
	for i := range 4 {
		by, opts := other, []redlock.LockOption(nil)
		if i == 0 {
			by, opts = w.client, append(w.long(a), redlock.WithValue("first"))
		}
		go func() {
			lock := w.await(toLock, by, time.Minute, opts...)
			order <- i
			time.Sleep(w.set.timeout + time.Second/4 + 4*w.roundTrip()) // the first is back by then
			if lock != nil {
				_ = lock.Unlock()
			}
			left.Done()
		}()
		time.Sleep(2*w.roundTrip() + 5*time.Millisecond)
	}
	all := sim.Link{Client: w.name}
	holder := first.Owner()
	w.gaveBack(first)
	if owner := w.nodeSays(w.roundTrip() + 10*time.Millisecond); owner != "" && owner != holder {
		w.net.Hold(all, sim.Down)
		time.Sleep(w.set.timeout + w.set.timeout/4)
		w.net.Release(all, sim.Down)
	}
	for turn := range 4 {
		if i := <-order; i == 0 && turn > 1 {
			w.blame("place", "who waited longest, and could not confirm its value in time, got the lock as number %d", turn+1)
		}
	}
	left.Wait()
	w.quiet()
}

// grows has somebody look, with settings of its own, while one waits whose token is older than those settings have
// nodes keep. The tokens of the holds grow nevertheless.
func (w *world) grows() {
	open := func(name string) *redlock.Locker {
		w.net.SetDelay(sim.Link{Client: name}, sim.Both, sim.LAN)
		l, err := redlock.New(urls(w.nodes), append(w.dials(name), redlock.WithTTL(10*time.Second),
			redlock.WithMaxTTL(20*time.Second), redlock.WithNodeTimeout(250*time.Millisecond))...)
		if err != nil {
			panic(err)
		}
		return l
	}
	a, b := open("t1"), open("t2")
	defer func() { _, _ = a.Close(), b.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	lock := func(l *redlock.Locker, opts ...redlock.LockOption) *redlock.Lock {
		k, err := l.Lock(ctx, contested, opts...)
		if err != nil {
			w.blame("progress", "the lock was not to be had, all is in order: %v", err)
		}
		return k
	}
	lock(b, redlock.WithTTL(2*time.Second), redlock.WithoutRenewal()) // and is gone without a word
	waits, later := make(chan *redlock.Lock, 1), make(chan *redlock.Lock, 1)
	go func() { waits <- lock(a) }()
	time.Sleep(100 * time.Millisecond)
	go func() { later <- lock(b, redlock.WithoutRenewal()) }()
	time.Sleep(1800 * time.Millisecond)
	cut := sim.Link{Client: "t1"}
	w.net.Refuse(cut)
	w.net.Cut(cut)
	second := <-later
	w.net.Accept(cut)
	time.Sleep(time.Second) // it is connected again
	opts := append(w.dials("visitor"), redlock.WithTTL(20*time.Millisecond), redlock.WithMaxTTL(20*time.Millisecond))
	visitor, err := redlock.NewInspector(urls(w.nodes), opts...)
	if err != nil {
		panic(err)
	}
	_, _ = visitor.Inspect(ctx, contested)
	_ = visitor.Close()
	if second != nil {
		_ = second.Unlock()
	}
	last := <-waits
	if last != nil {
		_ = last.Unlock()
	}
	if second != nil && last != nil && last.Token() <= second.Token() {
		w.blame("order", "token %d was granted after %d, between which somebody with other settings has looked",
			last.Token(), second.Token())
	}
	w.quiet()
}
