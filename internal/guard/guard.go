// Package guard decides whether a node's votes count.
//
// It knows what a node tells about itself, what makes it unfit to vote, and what it may have forgotten. It knows no
// locks and no other nodes: how the clocks stand to each other, and which nodes are one and the same, it is told.
//
// A node that restarted may have forgotten votes that it gave, and would give them again to somebody else. So it
// abstains until every lock that it may have voted for has expired: for the guard period, which no TTL exceeds.
//
// Exclusion needs just that, time out of service + guard period ≥ TTL. Of two holds of a name, the majorities share a
// node that counted for both. If it was up all the time, it refused the second; if it forgot the first, it forgot it
// before the guard period began, and the first has ended.
//
// How long a node has forgotten nothing is decided from three witnesses, none of which is believed beyond what the
// others allow: what INFO says, the record that the node keeps, and what this client itself has seen of the node.
package guard

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// Rules are what a client demands of its nodes.
type Rules struct {
	Period      time.Duration // the guard period; 0: nodes that may have forgotten count all the same
	Late        time.Duration // how late a node's answer may come
	Prefix      string        // of our own keys on the node
	WithoutInfo bool          // nodes that refuse INFO are accepted
	MayEvict    bool          // nodes that may delete locks to save memory are accepted
	Durable     bool          // nodes that say that they keep all on disk are believed

	// Explain gives an error reply the type that users see; command is what was refused.
	Explain func(err error, command string) error
}

// Guard watches one node.
type Guard struct {
	rules    Rules
	now      func() time.Time
	claim    func(ids ...string) error  // refuses a second node at one server
	abstains atomic.Pointer[Abstention] // nil: its votes count. Read for every answer

	turn chan struct{} // full while somebody learns; a channel, since they ask the node meanwhile

	mu     sync.Mutex  // guards the fields below; never held while the node is asked
	known  incarnation // set by who has the turn
	info   *Info       // nil: never learnt
	at     time.Time   // when info was learnt
	leap   leap        // of its clock, which known does not have yet; zero: none
	astray bool        // its clock is too far off the others'
	ahead  time.Duration
	heard  string // the epoch of the node that the subscription leads to
}

// New returns the guard of one node, whose identity is given to claim before it may vote.
func New(rules Rules, now func() time.Time, claim func(ids ...string) error) *Guard {
	return &Guard{rules: rules, now: now, claim: claim, turn: make(chan struct{}, 1)}
}

// Abstention is why and until when a node's votes do not count.
type Abstention struct {
	Until time.Time // requests asked from then on count; zero: its clock is wrong, and no time can be named
	doubt doubt
	since time.Time     // when doubt began
	ahead time.Duration // its clock, of the others
}

// Over reports whether a request that was asked at that time is no longer concerned. It is the time of asking that
// counts: a vote that was given earlier does not grow better by arriving late.
func (a *Abstention) Over(asked time.Time) bool { return a.doubt != "" && !asked.Before(a.Until) }

// Reason says in words why the node abstains.
func (a *Abstention) Reason(now time.Time) string {
	if a.doubt != "" {
		return fmt.Sprintf(string(a.doubt), Seconds(max(time.Second, now.Sub(a.since))))
	}
	way, off := "ahead of", a.ahead
	if off < 0 {
		way, off = "behind", -off
	}
	return fmt.Sprintf("its clock is %s %s the other nodes'", off.Round(time.Millisecond), way)
}

// Trust says which nodes' word on a question counts.
type Trust uint8

// The trusts.
const (
	// TrustOld: not an abstaining node's. This is for whatever gives a lock.
	TrustOld Trust = iota
	// TrustOurs: also that of a node that restarted, since it says that the lock is ours there now, and has been since
	// before this round. Who extends a hold that is valid needs no more: whoever comes later meets our key there, or a
	// node that restarted once more.
	TrustOurs
	// TrustAll: nothing rests on it.
	TrustAll
)

// Counts reports whether the word of an abstaining node counts where so much trust is needed.
func (a *Abstention) Counts(t Trust) bool { return t == TrustAll || t == TrustOurs && a.doubt != "" }

// Abstention returns why the node's votes do not count, or nil.
func (g *Guard) Abstention() *Abstention { return g.abstains.Load() }

// Absolve ends an abstention that was found to be over, and reports whether it did.
func (g *Guard) Absolve(a *Abstention) bool { return g.abstains.CompareAndSwap(a, nil) }

// abstention returns the abstention that an incarnation calls for, or nil. It stays for a while when it is over: an
// answer to what was asked before may be on its way.
func (r *Rules) abstention(of incarnation, now time.Time) *Abstention {
	until := of.since.Add(r.Period)
	if r.Period <= 0 || of.epoch == "" || !now.Before(until.Add(r.Late)) {
		return nil
	}
	return &Abstention{doubt: of.doubt, since: of.since, Until: until}
}

// reconsider settles whether the node abstains. Called with mu held.
func (g *Guard) reconsider() {
	known := g.known
	if g.leap.at.After(known.since) {
		known.since, known.doubt = g.leap.at, g.leap.doubt()
	}
	a := g.rules.abstention(known, g.now())
	if g.astray {
		a = &Abstention{ahead: g.ahead}
	}
	g.abstains.Store(a)
}

// SetClock is told by how much the node's clock is ahead of the others', whether that is certainly wrong, and by how
// much it was set forward since it was read last. It reports whether the clocks should be read again: the node's has
// become a wrong one, or was set.
func (g *Guard) SetClock(ahead time.Duration, wrong bool, leapt time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	turned := wrong && !g.astray || leapt > 0
	g.ahead, g.astray = ahead, wrong
	if leapt > 0 {
		g.leap = leap{g.now(), leapt}
	}
	g.reconsider()
	return turned
}

// Status returns what the node said last, nil for nothing yet, when that was, and how its clock stands to the others.
func (g *Guard) Status() (info *Info, at time.Time, ahead time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.info == nil {
		return nil, g.at, g.ahead
	}
	own := *g.info // which Learn may have yet to complete
	return &own, g.at, g.ahead
}

// Heard tells of the node that a subscription leads to: what it said to INFO replication, or that it refused.
func (g *Guard) Heard(reply any) {
	said := make(map[string]string)
	_ = fields(reply, said) // then it is nobody that we know
	of := Info{replID: said["master_replid"]}
	g.mu.Lock()
	g.heard = of.epoch()
	g.mu.Unlock()
}

// KnowsWhoSpeaks reports whether the subscription leads to the node that we know: it has a connection of its own, which
// may be back before the other.
func (g *Guard) KnowsWhoSpeaks() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.heard == g.known.epoch && g.heard != unknownEpoch
}

// Seconds rounds a time for people: up, so that nobody comes too early.
func Seconds(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return fmt.Sprintf("%.0f s", math.Ceil(d.Seconds()))
}
