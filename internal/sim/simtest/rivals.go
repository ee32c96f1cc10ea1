package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// This file has worlds in which somebody has made the mistake: of a change of nodes, some clients have the old list
// alone and others the new one alone, and all start at one moment. Links are short or long, so that each client
// hears some nodes late. Clients are closed or crash with holds and tickets, are started again by what supervises
// them, and are all cut off for a while; or those of one kind lack a node that both have, so that their holds lack
// it, too. No two hold the lock, but after they have been cut off: then each may get a majority before it has a
// connection to a node that tells it of the other. In the end the clients with one of the lists work.

// Rivals is what happens to clients whose lists conflict.
type Rivals struct {
	Shape    string
	Old, New []int         // nodes by index
	Break    time.Duration // for how long all clients are cut off, once; 0: never
	Calm     time.Duration // how long they go on when no more of them end
	Sides    []int         // by node: which clients are near, those with the old list or those with the new one; or nil
	Lacks    []int         // by kind of client: the node that it never reaches, or -1; nil: then nothing is far
}

func (r *Rivals) String() string { return fmt.Sprintf("%+v", *r) }

// RivalScenario derives clients whose lists conflict from a seed.
func RivalScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 0x41fa1))
	shape := Shapes[r.IntN(4)] // all but the last, whose lists have no node in common
	s := ordinary(seed)
	s.Faults, s.PlainNodes, s.Sound, s.Durable, s.Trusted, s.Names = nil, 0, true, false, false, 1
	s.Nodes, s.Clients, s.Timeout = shape.Old+shape.Both+shape.New, 2+r.IntN(3), 250*time.Millisecond
	if s.TTL = scaled(time.Second, r, 1, 20); r.IntN(4) == 0 {
		s.TTL = scaled(time.Minute, r, 1, 3)
	}
	s.Guard, s.Length = max(s.TTL, 2*time.Second), 3*time.Minute+2*s.TTL
	nodes := r.Perm(s.Nodes)
	s.Rivals = &Rivals{
		Shape: shape.Name, Old: nodes[:shape.Old+shape.Both], New: nodes[shape.Old:], Calm: 2*s.TTL + 150*time.Second,
	}
	if r.IntN(4) > 0 {
		for range s.Nodes {
			s.Rivals.Sides = append(s.Rivals.Sides, r.IntN(2))
		}
	}
	if r.IntN(2) == 0 {
		s.Rivals.Break = scaled(time.Minute, r, 1./2, 3)
	}
	if r.IntN(4) == 0 {
		s.Rivals.Break, s.Rivals.Lacks = 0, []int{-1, -1}
		s.Rivals.Lacks[r.IntN(2)] = nodes[shape.Old+r.IntN(shape.Both)]
	}
	return s
}

// rival is a client: a process that is started again when it ends.
type rival struct {
	*world
	kind   *kind
	side   int // 0: it has the old list; 1: the new one
	name   string
	r      *rand.Rand
	claims *claims
	locker *redlock.Locker // nil: it does not run
	works  bool            // as it found last: it is not refused
}

// claims are what counts as a hold: also a ticket, and the work of a process that was closed or has crashed.
type claims struct {
	mu  sync.Mutex
	all []claim // guarded by mu
}

type claim struct {
	by    string
	kind  *kind
	valid func() bool
}

func (w *world) rivals() {
	s, c := w.scenario, &claims{}
	time.Sleep(2 * s.Guard) // then the nodes' votes count
	w.ending = time.Now().Add(s.Length)
	var all []*rival
	for i := range s.Clients {
		v := &rival{
			world: w, kind: w.kinds[i%2], side: i % 2, name: fmt.Sprintf("c%d", i), claims: c,
			r: rand.New(rand.NewPCG(s.Seed, uint64(0x41000+i))),
		}
		for j, n := range w.nodes {
			isFar := v.r.IntN(2) == 0
			if sides := s.Rivals.Sides; sides != nil {
				isFar = sides[j] != i%2 && slices.Contains(s.Rivals.Old, j) && slices.Contains(s.Rivals.New, j)
			}
			if isFar && s.Rivals.Lacks == nil {
				// New does not wait for a handshake that takes longer than the node timeout.
				far := 2*time.Millisecond + time.Duration(v.r.Int64N(int64(12*time.Millisecond)))
				w.net.SetDelay(sim.Link{Client: v.name, Node: n.Addr()}, sim.Both, sim.Delay{Min: far, Max: far + time.Millisecond})
			}
		}
		v.reach()
		all = append(all, v)
	}
	var wg sync.WaitGroup
	for _, v := range all {
		wg.Go(v.run)
	}
	if s.Rivals.Break > 0 {
		w.breakOff(all)
	}
	wg.Wait()
	w.count("holds", len(c.all))
	works := make(map[string]int)
	for _, v := range all {
		if v.works {
			works[v.kind.name]++
		}
	}
	if len(works) != 1 || works["old"] != (len(all)+1)/2 && works["new"] != len(all)/2 {
		w.blame("one works", "of %d clients with the old list and %d with the new one, these work: %v",
			(len(all)+1)/2, len(all)/2, works)
	}
	for _, v := range all {
		if v.locker != nil {
			_ = v.locker.Close()
		}
	}
}

// breakOff cuts all clients off. Each gets back to its nodes within some seconds, in any order.
func (w *world) breakOff(all []*rival) {
	s, r := w.scenario, rand.New(rand.NewPCG(w.scenario.Seed, 0xb4ea))
	time.Sleep(scaled(s.Length, r, 1./8, 1./3))
	w.log("break", "begins")
	link := func(v *rival, n *sim.Node) sim.Link { return sim.Link{Client: v.name, Node: n.Addr()} }
	for _, v := range all {
		for _, n := range w.nodes {
			w.net.Refuse(link(v, n))
		}
	}
	w.net.Cut(sim.Link{})
	time.Sleep(s.Rivals.Break)
	w.log("break", "ends")
	w.count("faults", 1)
	var wg sync.WaitGroup
	for _, v := range all {
		for _, n := range w.nodes {
			wait := time.Duration(r.Int64N(int64(3 * time.Second)))
			wg.Go(func() {
				time.Sleep(wait)
				w.net.Accept(link(v, n))
			})
		}
	}
	wg.Wait()
}

// run works until the end, and is started again whenever it has ended or is refused.
func (v *rival) run() {
	for end := v.ending.Add(v.scenario.Rivals.Calm); time.Now().Before(end); {
		switch {
		case v.locker == nil && v.open():
		case v.locker == nil:
			time.Sleep(time.Duration(1 + v.r.Int64N(int64(5*time.Second))))
		default:
			v.work()
		}
	}
}

// open starts the process. It reports whether it is accepted.
func (v *rival) open() bool {
	s := v.scenario
	reached := redlock.NodeConfig{Dial: v.net.Dialer(v.name)}
	locker, err := redlock.New(urls(v.kind.lists[0]), redlock.WithNodeConfig(reached), redlock.WithTTL(s.TTL),
		redlock.WithMaxTTL(s.Guard))
	v.log(v.name, "New: %s", kindOf(err))
	if err != nil && !errors.As(err, new(*redlock.ListConflictError)) {
		panic(err)
	}
	if v.locker, v.works = locker, err == nil; v.works {
		v.beside("is accepted", func(k claim) bool { return k.kind != v.kind })
	}
	return v.works
}

// work takes the lock once, and may end the process with it.
func (v *rival) work() {
	v.count("calls", 1)
	time.Sleep(time.Duration(1 + v.r.Int64N(int64(2*time.Second))))
	lock, err := v.locker.Lock(context.Background(), names[0], redlock.WithMaxWait(5*time.Second))
	v.works = !errors.As(err, new(*redlock.ListConflictError))
	if v.log(v.name, "Lock: %s", kindOf(err)); err != nil {
		return
	}
	v.granted(lock)
	hold := scaled(v.scenario.TTL, v.r, 1./16, 1.2)
	ends := v.r.IntN(8)
	if time.Now().After(v.ending) {
		hold, ends = min(hold, time.Second), 7
	}
	time.Sleep(hold)
	until, held := lock.Deadline(), lock.Err() == nil
	by := v.name + "'s work"
	if ends < 2 { // whoever gets the ticket can adopt the hold until then
		_, err := lock.Ticket()
		held, by = err == nil, v.name+"'s ticket"
	}
	if ends > 3 {
		_ = lock.Unlock()
		return
	}
	if held {
		v.claims.add(claim{by, v.kind, func() bool { return time.Now().Before(until) }})
	}
	v.log(v.name, "ends with %s", by)
	all := sim.Link{Client: v.name}
	if ends%2 == 0 {
		_ = v.locker.Close()
	} else { // it crashes: nothing that it does from now on reaches a node
		v.net.Refuse(all)
		v.net.Cut(all)
		_ = v.locker.Close()
		v.net.Accept(all)
		v.reach()
	}
	v.locker = nil
	time.Sleep(scaled(5*time.Second, v.r, 1./64, 4)) // others may come first
}

// reach cuts the client off from the node that it lacks.
func (v *rival) reach() {
	if lacks := v.scenario.Rivals.Lacks; lacks != nil && lacks[v.side] >= 0 {
		v.net.Refuse(sim.Link{Client: v.name, Node: v.nodes[lacks[v.side]].Addr()})
	}
}

// granted notes a hold. No other claim may be valid.
func (v *rival) granted(lock *redlock.Lock) {
	v.beside("got the lock", func(claim) bool { return lock.Err() == nil })
	v.claims.add(claim{v.name, v.kind, func() bool { return lock.Err() == nil }})
}

// beside blames the client for what it got while another one's claim is valid.
func (v *rival) beside(got string, counts func(claim) bool) {
	v.claims.mu.Lock()
	defer v.claims.mu.Unlock()
	for _, other := range v.claims.all {
		if v.scenario.Rivals.Break == 0 && other.valid() && counts(other) {
			v.blame("exclusion", "%s %s at %v beside %s", v.name, got, since(time.Now()), other.by)
		}
	}
}

func (c *claims) add(k claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, k)
}
