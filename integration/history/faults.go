package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"syscall"
	"time"

	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// fault is one thing that can go wrong. begin returns what mends it, or false where it is not possible at present.
type fault struct {
	name  string
	begin func(b *breaking) (mend func() error, ok bool)
}

// breaking is the goroutine that breaks something every now and then.
type breaking struct {
	*running
	ctx    context.Context
	random *rand.Rand
	forgot time.Time // when a master was last emptied: the next may only be when that one counts again
}

// The first durable masters keep everything on disk; the others forget when they are killed.
const nodes, durable = 5, 2

// menu is everything that can go wrong.
var menu = []fault{
	{"kill -9, back with its disk", func(b *breaking) (func() error, bool) {
		return b.node(0, durable, (*masters.Node).Kill, (*masters.Node).Start)
	}},
	{"kill -9, back empty", func(b *breaking) (func() error, bool) {
		if b.guard > 0 && time.Since(b.forgot) < b.guard+ttl+3*time.Second {
			return nil, false
		}
		kill, start := (*masters.Node).Kill, (*masters.Node).StartEmpty
		if b.random.IntN(2) == 0 { // at once, when what it has forgotten may still be valid
			kill, start = (*masters.Node).RestartEmpty, func(*masters.Node) error { return nil }
		}
		mend, ok := b.node(durable, len(b.fleet), kill, start)
		if ok {
			b.forgot = time.Now()
		}
		return mend, ok
	}},
	{"master frozen", func(b *breaking) (func() error, bool) {
		return b.node(0, len(b.fleet), (*masters.Node).Pause, (*masters.Node).Resume)
	}},
	{"master slow", func(b *breaking) (func() error, bool) {
		return b.node(0, len(b.fleet), command("CLIENT", "PAUSE", 400, "ALL"),
			func(*masters.Node) error { return nil }) // it ends by itself
	}},
	{"out of memory", func(b *breaking) (func() error, bool) {
		return b.node(0, len(b.fleet), command("CONFIG", "SET", "maxmemory", 1), command("CONFIG", "SET", "maxmemory", 0))
	}},
	{"a replica for a while", func(b *breaking) (func() error, bool) {
		return b.node(0, len(b.fleet), command("REPLICAOF", "127.0.0.1", 1), command("REPLICAOF", "NO", "ONE"))
	}},
	{"SCRIPT FLUSH", func(b *breaking) (func() error, bool) {
		_, err := b.fleet[b.random.IntN(len(b.fleet))].Do("SCRIPT", "FLUSH")
		return nil, err == nil // not one that is down
	}},
	{"requests held", network(func(p *faultproxy.Proxy, _ time.Duration) { p.Hold(faultproxy.Up) })},
	{"answers held", network(func(p *faultproxy.Proxy, _ time.Duration) { p.Hold(faultproxy.Down) })},
	{"requests lost", network(func(p *faultproxy.Proxy, _ time.Duration) { p.Drop(faultproxy.Up) })},
	{"answers lost", network(func(p *faultproxy.Proxy, _ time.Duration) { p.Drop(faultproxy.Down) })},
	{"requests late", network(func(p *faultproxy.Proxy, by time.Duration) { p.Delay(faultproxy.Up, by) })},
	{"answers late", network(func(p *faultproxy.Proxy, by time.Duration) { p.Delay(faultproxy.Down, by) })},
	{"connections reset", network(func(p *faultproxy.Proxy, _ time.Duration) { p.Reset() })},
	{"connections refused", network(func(p *faultproxy.Proxy, _ time.Duration) { p.Refuse() })},
	{"client stopped", func(b *breaking) (func() error, bool) {
		return b.client(
			func(p *process) error { return p.signal(syscall.SIGSTOP) },
			func(p *process) error { return p.signal(syscall.SIGCONT) })
	}},
	{"client killed", func(b *breaking) (func() error, bool) {
		return b.client(
			func(p *process) error { return p.signal(syscall.SIGKILL) },
			func(p *process) error { return p.replace(b.ctx) })
	}},
}

func command(name string, args ...any) func(*masters.Node) error {
	return func(n *masters.Node) error {
		_, err := n.Do(name, args...)
		return err
	}
}

// flush empties a master under its connections, when all is mended and each hold has had the time to be repaired on all
// masters: a hold that only just has a majority would lose it, unnoticed.
func (b *breaking) flush() error {
	if err := b.mending.Wait(); err != nil {
		return err
	}
	time.Sleep(2 * ttl)
	err := command("FLUSHALL")(b.fleet[b.random.IntN(len(b.fleet))])
	b.forgot = time.Now()
	b.count(flushed)
	return err
}

// flushed is a fault that needs a moment of its own, once in so many turns.
const (
	flushed    = "FLUSHALL"
	flushAfter = 25
)

// network does something to the way between a client and a master, a client and all, or all clients and a master.
func network(do func(p *faultproxy.Proxy, by time.Duration)) func(b *breaking) (func() error, bool) {
	return func(b *breaking) (func() error, bool) {
		client, node := b.random.IntN(len(b.processes)), b.random.IntN(len(b.fleet))
		width, by := b.random.IntN(4), time.Duration(1+b.random.IntN(60))*time.Millisecond
		var chosen []*faultproxy.Proxy
		for i, c := range b.processes {
			for j, p := range c.network {
				if (i == client || width == 0) && (j == node || width == 1) {
					chosen = append(chosen, p)
				}
			}
		}
		for _, p := range chosen {
			do(p, by)
		}
		return func() (err error) {
			for _, p := range chosen {
				err = errors.Join(err, p.Heal())
			}
			return err
		}, true
	}
}

// node breaks one of some masters, while a majority is in order.
func (b *breaking) node(from, to int, harm, mend func(*masters.Node) error) (func() error, bool) {
	i := from + b.random.IntN(to-from)
	return b.harm(i, 2, func() error { return harm(b.fleet[i]) }, func() error { return mend(b.fleet[i]) })
}

func (b *breaking) client(harm, mend func(*process) error) (func() error, bool) {
	i := b.random.IntN(len(b.processes))
	p := b.processes[i]
	return b.harm(len(b.fleet)+i, 3, func() error { return harm(p) }, func() error { return mend(p) })
}

// harm breaks what is in order, unless too much is broken already.
func (b *breaking) harm(i, most int, harm, mend func() error) (func() error, bool) {
	if !b.claim(i, most) {
		return nil, false
	}
	if harm() != nil {
		b.release(i)
		return nil, false
	}
	return func() error {
		defer b.release(i)
		return mend()
	}, true
}

// run breaks something every so often until the time is over, and for longer where too little went on meanwhile. It
// returns when all is mended.
func (b *breaking) run(every, length time.Duration) error {
	var deck []fault
	turns := 0
	began := time.Now() // what takes longer than a turn costs none
	for at := time.Duration(0); (at < length || at < 6*length && b.lacks() != nil) && b.ctx.Err() == nil; at += every {
		time.Sleep(time.Until(began.Add(at)))
		if turns++; turns%flushAfter == 0 {
			if err := b.flush(); err != nil {
				return err
			}
		}
		for range 2 * len(menu) { // the next one that is possible
			if len(deck) == 0 {
				deck = slices.Clone(menu)
				b.random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
			}
			f := deck[0]
			deck = deck[1:]
			mend, ok := f.begin(b)
			if !ok {
				deck = append(deck, f) // its turn comes later
				continue
			}
			b.count(f.name)
			if mend != nil {
				length := 200*time.Millisecond + time.Duration(b.random.Int64N(int64(1500*time.Millisecond)))
				b.mending.Go(func() error {
					time.Sleep(length)
					return mend()
				})
			}
			break
		}
	}
	return b.mending.Wait()
}
