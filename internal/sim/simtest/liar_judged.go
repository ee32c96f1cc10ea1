package simtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// This file has what is judged beside a node that lies, in addition to the rest or in its place.

// admittedBy judges a call of New.
func (w *world) admittedBy(client string, asked time.Time, err error) {
	if err != nil {
		w.blame("progress", "%s: New fails beside a node that lies: %v", client, err)
	}
	silence := max(time.Second, 4*w.scenario.Timeout)
	if took, most := time.Since(asked), silence+silence/16+w.scenario.Timeout; took > most+time.Millisecond {
		w.blame("bounded", "%s: New took %v, the node timeout is %v", client, took, w.scenario.Timeout)
	}
}

// others returns the nodes that do not lie, and how many of them a majority has beside one that does.
func (w *world) others() (nodes []*sim.Node, need int) {
	return slices.DeleteFunc(slices.Clone(w.nodes), w.liesAt), len(w.nodes) / 2
}

// inTime judges a new hold's token: one node does not make it run ahead of the time.
func (w *world) inTime(lock held) {
	if w.liar == nil {
		return
	}
	nodes, _ := w.others()
	latest := slices.MaxFunc(nodes, func(a, b *sim.Node) int { return a.Now().Compare(b.Now()) }).Now()
	// By a second it may be ahead, and by half of a round trip a clock was read too early.
	if ahead := time.UnixMicro(lock.Token()).Sub(latest); ahead > time.Second+w.scenario.Timeout {
		w.blame("token", "%s: token %d is %v ahead", lock.Name(), lock.Token(), ahead)
	}
}

// beside judges a new hold by those that others trust at this moment. Where a node grants what it does not give, they
// may overlap if each stands on no more nodes than it needs.
func (w *worker) beside(wanted []string, lock held, reads bool) {
	if !w.doubles() {
		return
	}
	nodes, need := w.bearing(w.nodes)
	on := func(name string, lock held) (n int) {
		for _, node := range nodes {
			if keeps(node, name, lock) {
				n++
			}
		}
		return n
	}
	w.shown.mu.Lock()
	before := slices.Clone(w.open)
	w.open = append(slices.DeleteFunc(w.open, func(o opened) bool { return !o.trusted() }), opened{lock, wanted, reads})
	w.shown.mu.Unlock()
	for _, o := range before {
		for _, name := range wanted {
			if !slices.Contains(o.names, name) || reads && o.reads || !o.trusted() || w.revokedOwner(o.held, w.label) {
				continue
			}
			w.count("overlaps", 1)
			w.supported(o.held, overlapped)
			if here, there := on(name, lock), on(name, o.held); max(here, there) > need {
				w.blame("exclusion", "%s: token %d, on %d nodes that do not lie, while %d is held, on %d",
					name, lock.Token(), here, o.Token(), there)
			}
		}
	}
}

type opened struct {
	held

	names []string
	reads bool
}

func (o opened) trusted() bool { return o.Err() == nil && time.Now().Before(o.Deadline()) }

// strangers reports whether two holds need not know of each other: no node that tells the truth has accepted the tokens
// of both.
func (w *world) strangers(a, b *sim.Hold) bool {
	if !w.doubles() {
		return false
	}
	nodes, need := w.others()
	both := 0
	for _, n := range nodes {
		_, one := w.accepted.Load(acceptance{n.Addr(), a.Name, a.Token})
		_, other := w.accepted.Load(acceptance{n.Addr(), a.Name, b.Token})
		if one && other {
			both++
		}
	}
	return both == 0 || a.Token == b.Token && both >= 2*need
}

// endedByMany judges the end of a hold before its time: a majority has told of it, so more than the node that lies.
func (w *worker) endedByMany(lock held) {
	if w.liar == nil || w.scenario.Forgets() || w.revokedOwner(lock, w.label) || !errors.Is(lock.Err(), redlock.ErrLost) {
		return
	}
	nodes, need := w.others()
	lack := 0
	for _, n := range nodes {
		if _, lacked := w.repaired.Load(part{n.Addr(), lock.Owner(), lock.Name()}); lacked || !keeps(n, lock.Name(), lock) {
			lack++
		}
	}
	if lack < need {
		w.blame("ended", "%s: token %d ended before its time, when %d of %d nodes that do not lie lacked it: %v",
			lock.Name(), lock.Token(), lack, len(nodes), lock.Err())
	}
}

// bounds looks, all the time, at what one node must not make grow or last; and has it forget what it said.
func (w *world) bounds(end time.Time) {
	r := rand.New(rand.NewPCG(w.scenario.Seed, 0xb0d5))
	for time.Now().Before(end) {
		time.Sleep(scaled(w.scenario.TTL, r, 1./8, 1))
		for _, c := range w.clients {
			for _, n := range w.nodes {
				if open := w.net.Kept(sim.Link{Client: c.name, Node: n.Addr()}); open > 8 {
					w.blame("bounded", "%s has %d connections to %s", c.name, open, n.Addr())
				}
			}
		}
		if n := runtime.NumGoroutine(); n > 50_000 {
			w.blame("bounded", "%d goroutines", n)
		}
		w.answersInTime(w.clients[r.IntN(len(w.clients))])
		if n := w.nodes[w.liar.Node]; w.doubles() && r.IntN(4) == 0 {
			w.undone.forget(n)
			n.Do("DEL", names[r.IntN(w.scenario.Names)])
		}
	}
}

// answersInTime judges how long people wait for what there is to know.
func (w *world) answersInTime(c *client) {
	asked := time.Now()
	c.locker.Load().Status(context.Background())
	if took := time.Since(asked); took > w.scenario.Timeout+time.Millisecond {
		w.blame("bounded", "%s: Status took %v, the node timeout is %v", c.name, took, w.scenario.Timeout)
	}
}

// besideLiar is what clients are told to do when all is in order but one node, which lies.
func (w *world) besideLiar() {
	for _, c := range w.clients {
		w.answersInTime(c)
		var err error
		for range 5 {
			var lock *redlock.Lock
			if lock, err = c.locker.Load().TryLock(context.Background(), "free"); err == nil {
				w.inTime(held{Lock: lock})
				_ = lock.Unlock()
				break
			}
			time.Sleep(w.scenario.TTL)
		}
		if err != nil {
			w.blame("progress", "%s did not get the free name beside a node that lies: %v", c.name, err)
		}
		w.quiet()
	}
	if lock := w.succeed(toLock, toLock, w.clients[0], w.clients[1]); lock != nil {
		w.gaveBack(lock)
	}
	w.races()
}
