package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// fault is one thing that can go wrong. run does it and returns how it is mended, or nil.
type fault struct {
	name  string
	class class
	run   func(f *faults) (what string, mend func())
}

func (f fault) String() string { return f.name }

// class says what a fault does to the assumptions under which holds exclude each other.
type class int

const (
	harmless  class = iota // keeps them
	forgetful              // breaks one that the restart guard restores
	unsound                // breaks them
)

// faults is the goroutine that breaks things, and mends them again.
type faults struct {
	*world
	r       *rand.Rand
	mends   []mend // by instant
	back    time.Duration
	hit     sim.Link  // what the fault concerns that strikes
	forgets time.Time // when a node was emptied unnoticed: another may not be soon after
}

type mend struct {
	at   time.Time
	what string
	do   func()
}

// run breaks things until the end, then mends everything.
func (f *faults) run(end time.Time) {
	for next := f.pause(); ; {
		if len(f.mends) > 0 && f.mends[0].at.Before(next) {
			sleepUntil(f.mends[0].at)
			f.mend()
			continue
		}
		if next.After(end) {
			break
		}
		sleepUntil(next)
		f.strike()
		next = f.pause()
	}
	sleepUntil(end)
	for len(f.mends) > 0 {
		f.mend()
	}
	for _, n := range f.nodes {
		n.SetRate(1)
	}
	f.net.Calm()
	f.net.SetDelay(sim.Link{}, sim.Both, f.scenario.Delay)
	f.haste()
}

func (f *faults) pause() time.Time {
	return time.Now().Add(time.Duration((0.2 + f.r.ExpFloat64()) * float64(f.scenario.Pace)))
}

func (f *faults) mend() {
	m := f.mends[0]
	f.mends = f.mends[1:]
	m.do()
	f.log("fault", "%s is over", m.what)
}

func (f *faults) strike() {
	kind := f.scenario.Faults[f.r.IntN(len(f.scenario.Faults))]
	f.hit = sim.Link{} // unless it says otherwise
	what, end := kind.run(f)
	if what == "" {
		return // not possible at present
	}
	number := slices.IndexFunc(allFaults, func(k fault) bool { return k.name == kind.name })
	use := f.meetings.begin(features + Feature(number))
	what = kind.name + " " + what
	f.log("fault", "%s", what)
	f.count("faults", 1)
	over := f.troubles.begin(f.hit)
	if end == nil {
		over()
		felt := max(f.scenario.Timeout, f.scenario.TTL) // what is gone, or another, is missed so long
		time.AfterFunc(felt, func() { f.meetings.end(use) })
	} else {
		length := time.Duration(f.r.ExpFloat64() * float64(f.scenario.Strain))
		f.mends = append(f.mends, mend{time.Now().Add(length + time.Duration(f.r.IntN(1e6))), what, func() {
			end()
			f.meetings.end(use)
			over()
		}})
		slices.SortStableFunc(f.mends, func(a, b mend) int { return a.at.Compare(b.at) })
	}
}

// link draws one link, or all of a client's or all to a node.
func (f *faults) link() sim.Link {
	l := sim.Link{Client: f.clients[f.r.IntN(len(f.clients))].name, Node: f.nodes[f.r.IntN(len(f.nodes))].Addr()}
	switch {
	case f.r.Float64() < f.scenario.Narrow:
	case f.r.IntN(2) == 0:
		l.Client = ""
	default:
		l.Node = ""
	}
	f.hit = l
	return l
}

func (f *faults) dir() sim.Dir { return sim.Dir(1 + f.r.IntN(3)) }

func (f *faults) node() *sim.Node {
	n := f.nodes[f.r.IntN(len(f.nodes))]
	f.hit = sim.Link{Node: n.Addr()}
	return n
}

func (f *faults) first() *sim.Node {
	f.hit = sim.Link{Node: f.nodes[0].Addr()}
	return f.nodes[0]
}

func (f *faults) crash(keeps bool) (what string, mend func()) {
	n := f.node()
	if !n.Up() {
		return "", nil
	}
	if n.Crash(keeps); !keeps {
		f.undone.forget(n)
		f.forgot(n)
	}
	return n.Addr(), func() { n.Restart(); f.restarted(n) }
}

// menu is everything that can go wrong.
var menu = []fault{
	{"delay", harmless, func(f *faults) (string, func()) {
		l, d := f.link(), f.dir()
		most := time.Duration(f.r.ExpFloat64() * float64(f.scenario.TTL) / 3)
		f.net.SetDelay(l, d, sim.Delay{Max: most + time.Millisecond, SlowMax: 3 * f.scenario.TTL, Slow: 0.02})
		return fmt.Sprintf("%v up to %v", l, most), func() { f.net.SetDelay(l, d, f.scenario.Delay) }
	}},
	{"hold", harmless, func(f *faults) (string, func()) {
		l, d := f.link(), f.dir()
		f.net.Hold(l, d)
		return fmt.Sprintf("%v dir %d", l, d), func() { f.net.Release(l, d) }
	}},
	{"drop", harmless, func(f *faults) (string, func()) {
		l, d := f.link(), f.dir()
		f.net.Drop(l, d)
		return fmt.Sprintf("%v dir %d", l, d), func() { f.net.Heal(l, d) }
	}},
	{"cut", harmless, func(f *faults) (string, func()) {
		l := f.link()
		f.net.Cut(l)
		return fmt.Sprint(l), nil
	}},
	{"reset", harmless, func(f *faults) (string, func()) {
		l := f.link()
		f.net.Reset(l)
		return fmt.Sprint(l), nil
	}},
	{"refuse", harmless, func(f *faults) (string, func()) {
		l := f.link()
		f.net.Refuse(l)
		f.net.Reset(l)
		return fmt.Sprint(l), func() { f.net.Accept(l) }
	}},
	{"pause", harmless, func(f *faults) (string, func()) {
		n := f.node()
		n.Pause()
		return n.Addr(), n.Resume
	}},
	{"crash", harmless, func(f *faults) (string, func()) { return f.crash(true) }},
	{"script flush", harmless, func(f *faults) (string, func()) {
		n := f.node()
		n.Do("SCRIPT", "FLUSH")
		return n.Addr(), nil
	}},
	{"backup", harmless, func(f *faults) (string, func()) {
		n := f.node()
		n.BackUp()
		return n.Addr(), nil
	}},
	{"busy", harmless, func(f *faults) (string, func()) {
		n, times := f.node(), 1+f.r.IntN(10)
		n.Fail("*", "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.", times)
		return fmt.Sprintf("%s %d times", n.Addr(), times), n.Recover
	}},
	{"out of memory", harmless, func(f *faults) (string, func()) {
		n := f.node()
		n.SetConfig("maxmemory", "1")
		return n.Addr(), func() { n.SetConfig("maxmemory", "0") }
	}},
	{"slow drift", harmless, func(f *faults) (string, func()) {
		n := f.node()
		// Just inside the drift allowance of 1 %; and not so that, in a long run, sound clocks come to be a second apart.
		most := min(0.009, 0.25/f.scenario.Length.Seconds())
		rate := 1 + (2*f.r.Float64()-1)*most
		n.SetRate(rate)
		return fmt.Sprintf("%s %.6f", n.Addr(), rate), nil
	}},
	{"amnesia", forgetful, func(f *faults) (string, func()) { return f.crash(false) }},
	{"rollback", forgetful, func(f *faults) (string, func()) {
		n := f.node()
		if !n.Up() {
			return "", nil
		}
		old := n.Snapshot()
		return n.Addr(), func() {
			n.RestartFrom(old)
			f.undone.forget(n)
		}
	}},
	{"failover", forgetful, func(f *faults) (string, func()) {
		n := f.node()
		if !n.Up() {
			return "", nil
		}
		sent := n.Snapshot()
		return n.Addr(), func() { // what was not sent to the replica is lost, and that has been up for long
			n.RestartFrom(sent)
			f.undone.forget(n)
			n.Demote("gone:6379")
			n.Promote()
			n.SetUptime(time.Hour)
		}
	}},
	{"flushall", unsound, func(f *faults) (string, func()) {
		if time.Since(f.forgets) < 20*f.scenario.TTL {
			return "", nil
		}
		f.forgets = time.Now()
		n := f.node()
		f.emptied = append(f.emptied, time.Now())
		f.undone.forget(n)
		n.Do("FLUSHALL")
		return n.Addr(), nil
	}},
	{"clock step", unsound, func(f *faults) (string, func()) {
		n := f.first() // always the same: one node's clock may be wrong, the median stands
		d := time.Duration((f.r.Float64()*2 - 1) * float64(f.scenario.TTL) * 3)
		n.Step(d)
		f.back += max(-d, d)
		return fmt.Sprintf("%s %v", n.Addr(), d), nil
	}},
	{"fast drift", unsound, func(f *faults) (string, func()) {
		n := f.first()
		rate := 0.8 + 0.4*f.r.Float64()
		n.SetRate(rate)
		return fmt.Sprintf("%s %.3f", n.Addr(), rate), func() { n.SetRate(1) }
	}},
}

// haste is what else can go wrong where clients are in a hurry: see Scenario.hurry.
var haste = []fault{
	{"strand", harmless, func(f *faults) (string, func()) {
		// A single link: connections that break at one instant are what no replay orders.
		l := sim.Link{Client: f.clients[f.r.IntN(len(f.clients))].name, Node: f.node().Addr()}
		late := time.Duration(f.r.Int64N(int64(f.scenario.TTL)))
		f.net.Strand(l, late)
		return fmt.Sprintf("%v by %v", l, late), nil
	}},
	{"script flush everywhere", harmless, func(f *faults) (string, func()) {
		for _, n := range f.nodes {
			n.Do("SCRIPT", "FLUSH")
		}
		return "all nodes", nil
	}},
}

func sleepUntil(t time.Time) { time.Sleep(time.Until(t)) }
