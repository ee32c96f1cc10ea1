package sim

import (
	"slices"
	"syscall"
	"time"
)

// Hold stops the delivery of everything on the links in the given directions, until Release. Nothing is lost: it is
// what a partition is to TCP as long as nobody gives up.
func (nw *Network) Hold(link Link, dir Dir) { nw.add(rule{link, dir, ruleHold}) }

// Release ends Hold for every link and direction that it covers. What was held is delivered, in order within a
// connection.
func (nw *Network) Release(link Link, dir Dir) { nw.remove(link, dir, ruleHold) }

// Drop makes the links a black hole in the given directions: what is sent disappears and nobody is told. A connection
// that was open stays deaf for ever, since a gap in a TCP stream cannot be mended; only connections opened after Heal
// work.
func (nw *Network) Drop(link Link, dir Dir) { nw.add(rule{link, dir, ruleDrop}) }

// Heal ends Drop for every link and direction that it covers.
func (nw *Network) Heal(link Link, dir Dir) { nw.remove(link, dir, ruleDrop) }

// Refuse makes new connections fail with ECONNREFUSED; open ones live on.
func (nw *Network) Refuse(link Link) { nw.add(rule{link, Both, ruleRefuse}) }

// Accept ends Refuse.
func (nw *Network) Accept(link Link) { nw.remove(link, Both, ruleRefuse) }

// Cut breaks the open connections: the client gets ECONNRESET at once and loses the replies in flight, but requests in
// flight still reach the node and are executed there, possibly after what the client sends on its next connection. This
// is the nastier of the two breaks, and real: a middlebox that forgets a connection does it.
func (nw *Network) Cut(link Link) {
	for _, w := range nw.open(link) {
		w.client.in.snap(syscall.ECONNRESET)
		w.client.out.finish(syscall.ECONNRESET)
	}
}

// Strand is Cut where the requests in flight are stuck on their way: they reach the node after that time. A middlebox,
// too, or a proxy that has lost one side of a connection and goes on with the other.
func (nw *Network) Strand(link Link, late time.Duration) {
	for _, w := range nw.open(link) {
		w.client.in.snap(syscall.ECONNRESET)
		w.client.out.finish(syscall.ECONNRESET)
		w.client.out.postpone(late)
	}
}

// Reset breaks the open connections for both ends at once; everything in flight is lost.
func (nw *Network) Reset(link Link) {
	for _, w := range nw.open(link) {
		w.client.in.snap(syscall.ECONNRESET)
		w.client.out.snap(syscall.ECONNRESET)
	}
}

// Calm ends every hold, drop and refusal. Delays stay as they are.
func (nw *Network) Calm() {
	nw.Release(Link{}, Both)
	nw.Heal(Link{}, Both)
	nw.Accept(Link{})
}

// Open returns how many connections of the link are open.
func (nw *Network) Open(link Link) int { return len(nw.open(link)) }

// Kept returns how many connections of the link their clients have not left.
func (nw *Network) Kept(link Link) (n int) {
	for _, w := range nw.open(link) {
		if !w.client.isClosed() {
			n++
		}
	}
	return n
}

func (nw *Network) open(link Link) []*wire {
	nw.mu.Lock()
	defer nw.mu.Unlock()
	nw.prune()
	return slices.DeleteFunc(slices.Clone(nw.links), func(w *wire) bool { return !link.covers(w.link) })
}

func (nw *Network) add(r rule) {
	nw.mu.Lock()
	nw.rules = append(nw.rules, r)
	nw.mu.Unlock()
	for _, w := range nw.open(r.link) {
		w.apply(r)
	}
}

// apply puts a rule into force on one connection.
func (w *wire) apply(r rule) {
	for _, p := range w.directions(r.dir) {
		p.mu.Lock() // a refusal concerns dialling only
		p.held, p.dead = p.held || r.kind == ruleHold, p.dead || r.kind == ruleDrop
		p.mu.Unlock()
	}
}

// directions calls yield with the pipes of the given directions, up first.
func (w *wire) directions(dir Dir) func(yield func(Dir, *pipe) bool) {
	return func(yield func(Dir, *pipe) bool) {
		if dir&Up != 0 && !yield(Up, w.client.out) {
			return
		}
		if dir&Down != 0 {
			yield(Down, w.client.in)
		}
	}
}

// remove takes a kind of rule off every link and direction that the arguments cover, splitting rules that reach further
// in direction; a rule for more links than the argument covers stays as it is.
func (nw *Network) remove(link Link, dir Dir, kind ruleKind) {
	nw.mu.Lock()
	keep := nw.rules[:0]
	for _, r := range nw.rules {
		if r.kind == kind && link.covers(r.link) {
			r.dir &^= dir
		}
		if r.dir != 0 {
			keep = append(keep, r)
		}
	}
	nw.rules = keep
	close(nw.changed)
	nw.changed = make(chan struct{})
	var free []*pipe
	if kind == ruleHold {
		for _, w := range nw.links {
			for d, p := range w.directions(dir) {
				if !nw.ruled(w.link, d, ruleHold) {
					free = append(free, p)
				}
			}
		}
	}
	nw.mu.Unlock()
	for _, p := range free {
		p.release()
	}
}
