// Package guard decides whether a node's votes count.
//
// It knows what a node reports about itself, what makes it unfit to vote, and what it may have forgotten. It knows no
// locks and no other nodes: its caller compares the clocks, and finds two addresses of one server.
//
// A node that restarted abstains for the guard period, which no TTL exceeds (docs/safety.md#restarts).
//
// Exclusion needs just that: time out of service + guard period ≥ TTL. The majorities of two holds of a name share a
// node whose vote counted for both. If that node was up all the time, it refused the second hold; if it forgot the
// first one, it did so before the guard period began, and the first hold has ended.
//
// Three sources say since when a node has forgotten nothing: INFO, the record that the node keeps, and what this client
// itself has seen of the node. Each limits how far the others are believed.
package guard

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/token"
)

// Guard watches one node.
type Guard struct {
	rules    *Rules // shared with the guards of other nodes
	now      func() time.Time
	claim    func(ids ...string) error  // refuses a second address of a server
	abstains atomic.Pointer[Abstention] // nil: the votes count. Atomic, since it is read for every answer

	sem chan struct{} // a mutex for apply. A channel, since its owner waits for the node

	mu              sync.Mutex   // guards the fields below. Do not send to the node while it is held
	known           incarnation  // written only by the owner of sem
	info            *Info        // nil: the node was never asked
	at              time.Time    // when info was read
	confirmed       int          // quick probes since then; fullEvery: the next one must be a full one
	jump            jump         // a clock jump since known was reconciled; zero: none
	secretive       bool         // CONFIG GET does not tell what a quick probe asks, so that INFO is asked instead
	clock           token.Offset // from the other nodes' clocks
	subscribedEpoch string       // of the node that the second connection leads to
}

// New returns the guard of one node. claim gets the node's identity before the node may vote, and may refuse it.
func New(rules *Rules, now func() time.Time, claim func(ids ...string) error) *Guard {
	return &Guard{rules: rules, now: now, claim: claim, sem: make(chan struct{}, 1)}
}

// Abstention says why and until when a node's votes do not count.
type Abstention struct {
	Until  time.Time     // votes on requests asked later count; zero: its clock is wrong, and the end is unknown
	reason reason        // "": its clock is wrong
	since  time.Time     // when the reason arose
	ahead  time.Duration // its clock, of the other nodes'
}

// Over reports whether votes on a request that was asked at that time count. The time of asking decides, because a vote
// that was given too early becomes no better by arriving late.
func (a *Abstention) Over(asked time.Time) bool { return a.reason != "" && !asked.Before(a.Until) }

// Reason says in words why the node abstains.
func (a *Abstention) Reason(now time.Time) string {
	if a.reason != "" {
		return fmt.Sprintf(string(a.reason), Seconds(max(time.Second, now.Sub(a.since))))
	}
	way, off := "ahead of", a.ahead
	if off < 0 {
		way, off = "behind", -off
	}
	return fmt.Sprintf("its clock is %s %s the other nodes'", off.Round(time.Millisecond), way)
}

// Trust says which nodes' votes count for a command.
type Trust uint8

// The levels of trust.
const (
	// TrustOld: no votes of abstaining nodes. For commands that give a lock.
	TrustOld Trust = iota
	// TrustOurs: also votes of nodes that restarted, because such a vote says that the key is ours there, and was before
	// this round. That is enough to extend a valid hold: a later client finds our key there, or yet another restart.
	TrustOurs
	// TrustAll: votes of all nodes, because no hold depends on them.
	TrustAll
)

// Counts reports whether the vote of an abstaining node counts for a command with that trust.
func (a *Abstention) Counts(t Trust) bool { return t == TrustAll || t == TrustOurs && a.reason != "" }

// Abstention returns why the node's votes do not count, or nil.
func (g *Guard) Abstention() *Abstention { return g.abstains.Load() }

// EndAbstention ends an abstention that is over. It returns false if another abstention has replaced it, or none.
func (g *Guard) EndAbstention(a *Abstention) bool { return g.abstains.CompareAndSwap(a, nil) }

// abstention returns the abstention of a node with that incarnation, or nil. It outlasts its end by r.Late, since an
// answer to a request that was asked before the end may still come.
func (r *Rules) abstention(of incarnation, now time.Time) *Abstention {
	until := of.since.Add(r.Period)
	if r.Period <= 0 || of.epoch == "" || !now.Before(until.Add(r.Late)) {
		return nil
	}
	return &Abstention{reason: of.reason, since: of.since, Until: until}
}

// updateAbstention decides whether the node abstains. It is called with mu held.
func (g *Guard) updateAbstention() {
	known := g.known
	if g.jump.at.After(known.since) {
		known.since, known.reason = g.jump.at, g.jump.reason()
	}
	a := g.rules.abstention(known, g.now())
	if g.clock.Wrong {
		a = &Abstention{ahead: g.clock.Ahead}
	}
	g.abstains.Store(a)
}

// SetClock sets how far the node's clock is off the others', and by how much it jumped forward since it was last read.
// It reports whether the clocks should be read again: the node's clock has become wrong, or has jumped.
func (g *Guard) SetClock(off token.Offset, jumped time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	reread := off.Wrong && !g.clock.Wrong || jumped > 0
	g.clock = off
	if jumped > 0 {
		g.jump = jump{g.now(), jumped}
	}
	g.updateAbstention()
	return reread
}

// Status returns the last node info, or nil, when it was read, and how far the node's clock is ahead of the others'.
func (g *Guard) Status() (info *Info, at time.Time, ahead time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.info == nil {
		return nil, g.at, g.clock.Ahead
	}
	own := *g.info // a copy, since apply may yet write Unkept
	return &own, g.at, g.clock.Ahead
}

// SetSubscribed takes the reply to INFO replication of the node that a subscription's own connection leads to. It may
// be an error reply. A subscription over the connection that was probed needs no such call.
func (g *Guard) SetSubscribed(reply any) {
	said := make(map[string]string)
	_ = parseFields(reply, said) // after an error the epoch is unknown
	of := Info{replID: said["master_replid"]}
	g.mu.Lock()
	g.subscribedEpoch = of.epoch()
	g.mu.Unlock()
}

// SubscribedToKnown reports whether a subscription's own connection, perhaps the first, leads to the known incarnation.
func (g *Guard) SubscribedToKnown() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.subscribedEpoch == g.known.epoch && g.subscribedEpoch != unknownEpoch
}

// Seconds formats a duration for humans. It rounds up to whole seconds, so that nobody tries again too early.
func Seconds(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
}
