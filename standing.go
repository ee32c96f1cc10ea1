package redlock

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/token"
)

// standing is what is known about a node's fitness to vote.
type standing struct {
	abstains atomic.Pointer[abstention] // nil: its votes count. Read for every answer

	turn chan struct{} // full while somebody learns; a channel, since they ask the node meanwhile

	mu     sync.Mutex // guards the fields below; never held while the node is asked
	life   life       // set by who has the turn
	facts  *facts     // nil: never learnt
	at     time.Time  // when facts were learnt
	leap   leap       // of its clock, which life does not know of yet; zero: none
	astray bool       // its clock is too far off the others'
	clock  time.Duration
	trip   time.Duration // the last round trip
	said   string        // the findings that were logged last
	heard  string        // the epoch of the node that the listener's connection leads to
}

// peers are the nodes of a Locker, as they see each other.
type peers struct {
	mu     sync.Mutex       // guards the fields below
	nodes  []*node          // those that have been started
	claims map[string]*node // by run_id and replid: who is connected there
}

func (p *peers) add(n *node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n.peers = p
	p.nodes = append(p.nodes, n)
}

func (p *peers) all() []*node {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.nodes
}

// claim refuses a second node at one server.
func (p *peers) claim(n *node, f *facts) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.claims == nil {
		p.claims = make(map[string]*node)
	}
	for _, id := range []string{f.runID, f.replID} {
		if id == "" {
			continue
		}
		if first := p.claims[id]; first != nil && first != n {
			return fmt.Errorf("%w: %w %s: it would have two votes", ErrNodeRefused, errTwice, first.target)
		}
		p.claims[id] = n
	}
	return nil
}

// leave gives back what n claimed.
func (p *peers) leave(n *node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, owner := range p.claims {
		if owner == n {
			delete(p.claims, id)
		}
	}
}

// twice returns an error where New was given one server under two addresses.
func (p *peers) twice() error {
	for _, n := range p.all() {
		n.mu.Lock()
		down := n.down
		n.mu.Unlock()
		if errors.Is(down, errTwice) {
			return invalid("node %d: %s: %v", n.index+1, n.target, unwrapDown(down))
		}
	}
	return nil
}

// unwrapDown leaves out that a node is not connected, where it is clear.
func unwrapDown(err error) string {
	return strings.TrimPrefix(err.Error(), ErrNodeDown.Error()+": ")
}

// measured takes note of a node's clock, and judges the clocks of all by it.
func (n *node) measured(micros int64, asked, now instant) {
	n.tokens.Measured(n.index, micros, n.tokens.micros(asked), n.tokens.micros(now))
	offsets := n.tokens.Offsets()
	leaps, strayed := n.tokens.Leaps()
	all := n.peers.all()
	for _, m := range all {
		strayed = m.setClock(offsets[m.index], leaps[m.index]) || strayed
		m.announce()
	}
	trip := now.local.Sub(asked.local)
	n.standing.mu.Lock()
	n.standing.trip = trip
	n.standing.mu.Unlock()
	n.events.measured(n, trip, offsets[n.index].Ahead)
	if strayed {
		// It may be the time that went on while this machine was asleep: read all clocks anew. And the record of a node
		// whose clock was set forward is to say so soon.
		for _, m := range all {
			m.probeSoon()
		}
	}
}

// setClock reports whether the clocks should be read again: the node's has become a wrong one, or was set forward by leapt.
func (n *node) setClock(off token.Offset, leapt time.Duration) bool {
	s := &n.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	turned := off.Wrong && !s.astray || leapt > 0
	s.clock, s.astray = off.Ahead, off.Wrong
	if leapt > 0 {
		s.leap = leap{n.opts.clock.local(), leapt}
	}
	n.reconsider()
	return turned
}

// reconsider settles whether the node abstains. Called with standing.mu held.
func (n *node) reconsider() {
	s, now := &n.standing, n.opts.clock.now()
	is := s.life
	if s.leap.at.After(is.since) {
		is.since, is.doubt = s.leap.at, s.leap.doubt()
	}
	a := is.abstains(n.opts, now.local)
	if s.astray {
		a = &abstention{clock: s.clock}
	}
	s.abstains.Store(a)
}

// ballot turns a grant into an abstention where the node abstains.
func (n *node) ballot(a *abstention, c *call, said *answer) {
	if a.over(c.asked) {
		if n.standing.abstains.CompareAndSwap(a, nil) {
			n.announce()
		}
		return
	}
	a.apply(c.kind.trust, said, n.opts.clock.local)
}

// abstaining returns why the node's grant of what c asks would not count, or nil.
func (n *node) abstaining(c *call) error {
	if a := n.standing.abstains.Load(); a != nil && !a.over(c.asked) && c.kind.trust != trustAll {
		return a.tell(n.opts.clock.local())
	}
	return nil
}

// hearsay turns a grant that the node has told of unasked into an abstention, where the
// node abstains, or where it is not certain that it is the one that we know: the
// listener has a connection of its own, which may be back before the other.
func (n *node) hearsay(said *answer) {
	n.mu.Lock()
	connected := n.link != nil
	n.mu.Unlock()
	s := &n.standing
	s.mu.Lock()
	same := s.heard == s.life.epoch && s.heard != unknownEpoch
	s.mu.Unlock()
	now := n.opts.clock.local()
	if a := s.abstains.Load(); a != nil && !a.over(now) {
		a.apply(trustOld, said, n.opts.clock.local)
	} else if n.opts.guard > 0 && !(connected && same) {
		said.vote, said.err = voteAbstained, errNotMet
	}
}

var errNotMet = &AbstainError{Reason: "is being connected"}

// recognise learns which life of the node the listener's connection leads to.
func (n *node) recognise(conn redis.Conn) error {
	info := make(map[string]string)
	reply, err := conn.Do("INFO", "replication")
	if err == nil {
		err = fields(reply, info)
	}
	if err != nil && !isServerError(err) {
		return err
	}
	f := facts{replID: info["master_replid"]}
	n.standing.mu.Lock()
	n.standing.heard = f.epoch()
	n.standing.mu.Unlock()
	return nil
}
