package redlock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"

	"github.com/quorumlock/redlock/internal/localqueue"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/schedule"
)

// Locker acquires locks on a fixed list of nodes, or on two while nodes are replaced ([WithNewNodes]). Any number of
// goroutines may use it at once. It looks at locks and nodes like an [Inspector], too.
type Locker struct {
	*core
	schedule   schedule.Schedule          // of the holds
	local      localqueue.Queues[verdict] // of those that wait for a name; the note: see plan.found
	turns      turns                      // to ask for a lock
	work       inFlight                   // functions of Do and Once: Shutdown waits for them even if their holds are lost
	shut       context.CancelFunc         // ends core.open
	idle       states                     // changes when no call or no hold is left, from Shutdown on
	drained    atomic.Bool                // Shutdown found neither
	noMajority atomic.Int64               // how long after New a call last found no majority connected, in ns; 0: none did
}

// maxAsking is how many calls may ask for a lock at a time: as many as a connection takes requests. The others come in
// turn, which costs less than to ask in vain, and leaves the processor to those that read the answers.
const maxAsking = redisconn.MaxQueue / 2

// turns lets maxAsking calls ask for a lock at a time.
type turns struct {
	*semaphore.Weighted
	calls atomic.Int64 // that have a turn or wait for one
	took  atomic.Int64 // how long one had it last while at least half were taken, in ns; 0: none had
}

// Inspector looks at locks and nodes, and acquires nothing: for monitoring, and for administrators. Any number of
// goroutines may use it at once.
type Inspector struct{ *core }

// Inspector returns an Inspector that shares the Locker's connections, and ends with it.
func (l *Locker) Inspector() *Inspector { return &Inspector{l.core} }

// core is what a Locker and an Inspector have in common: nodes, who votes, clocks, options, events.
type core struct {
	nodes      []*node
	electorate *quorum.Electorate
	opts       *options
	rounds     *sync.Pool // of *round
	tokens     tokens
	peers      *peers
	listeners  listeners
	events     *events
	calls      inFlight
	ctx        context.Context // done when this is closed; ends all waits
	cancel     context.CancelFunc
	open       context.Context    // done from Shutdown on, and with ctx: ends the waits of calls that no hold has made
	opened     time.Time          // when New was called
	asking     singleflight.Group // of Status
	closing    atomic.Bool
	closed     chan struct{} // by Close, at its end
	hasHolds   func() bool
	endHolds   func() (ended int)
}

// maxName is the longest name in bytes: every message contains the name.
const maxName = 512

// New returns a Locker for the nodes at the given URLs: redis://user:password@host:port/db, rediss://… for TLS, or
// unix:///path?db=n; valkey and valkeys mean the same as redis and rediss, and redis://secret@host has only a password.
// What has no scheme, such as host:port or host, is the rest of a redis:// URL. The default port is 6379, the default
// database 0. In a user or password, percent-encode what is special in URLs: @ / # ? %. Use an odd number of masters
// that fail independently, 31 at most; five is usual. One makes a plain single-node lock.
//
// New connects to all nodes at once. It returns when every first attempt has ended, or when a majority is connected and
// the node timeout has passed, but soon after four node timeouts, 1 s at least. It does not fail because nodes are
// unreachable: it keeps connecting in the background, and the errors of calls name the nodes that are missing. It does
// fail if two URLs lead to the same address. Of two nodes that say they are the same server, the second one is refused;
// if the rest is no majority, New fails. Its error satisfies errors.Is for [ErrInvalid].
//
// All clients that lock a name must use the same nodes. New fails with a [*ListConflictError] if clients are at work
// whose nodes do not allow that. If that turns out later, calls that acquire fail with it, until those clients have
// ended. So Close a Locker that is not needed any more: one that ends without it counts as at work for another minute,
// or, with TTLs over 15 s, for up to twice the longest of them and 90 s.
func New(nodes []string, opts ...Option) (*Locker, error) {
	c, err := newCore(nodes, opts)
	if err != nil {
		return nil, &opError{op: "New", reason: err}
	}
	l := &Locker{core: c, turns: turns{Weighted: semaphore.NewWeighted(maxAsking)}}
	l.open, l.shut = context.WithCancel(l.ctx)
	none := func() {
		if l.open.Err() != nil {
			l.idle.change()
		}
	}
	l.calls.none, l.work.none = none, none
	l.schedule.Start(l.opts.clock.local, none)
	l.local.Init(l.opts.clock.local)
	l.listeners.owners = l
	l.hasHolds, l.endHolds = l.schedule.Waits, l.schedule.Close
	if err := l.start(); err != nil {
		_ = l.Close()
		return nil, &opError{op: "New", reason: err}
	}
	return l, nil
}

// ParseNodes returns the URLs in a text, which has commas or white space between them, as in an environment variable.
// Percent-encode a comma in a password.
func ParseNodes(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) })
}

// NewInspector returns an Inspector for the nodes at the given URLs, as New does. The nodes do not count it among their
// clients. It is not refused if its lists of nodes conflict with those of clients that are at work: [NodeStatus] tells
// of that.
func NewInspector(nodes []string, opts ...Option) (*Inspector, error) {
	c, err := newCore(nodes, append(slices.Clip(opts), onlyLooks))
	if err == nil {
		if err = c.start(); err != nil {
			_ = c.Close()
		}
	}
	if err != nil {
		return nil, &opError{op: "NewInspector", reason: err}
	}
	return &Inspector{c}, nil
}

var onlyLooks Option = newOption(func(o *options) { o.onlyLooks = true })

// newCore returns a core that is not connected yet.
func newCore(nodes []string, opts []Option) (*core, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	lists := [][]string{nodes}
	if o.migrates {
		lists = append(lists, o.migrateTo)
	}
	c := &core{opts: o, opened: o.clock.local(), closed: make(chan struct{})}
	if c.peers, c.electorate, err = newNodes(lists, o); err != nil {
		return nil, err
	}
	c.nodes, c.rounds = c.peers.nodes, newRounds(c.electorate)
	maxApart := o.retention / 2 // between two clocks: with more, tokens could be dropped too early; 0: no limit
	if !o.fencing {
		maxApart = 0
	}
	c.tokens = newTokens(c.electorate, o.clock, maxApart)
	c.calls = inFlight{idle: make(chan struct{}), none: func() {}}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.open = c.ctx
	c.hasHolds, c.endHolds = func() bool { return false }, func() int { return 0 }
	return c, nil
}

// start connects, and returns why this may not go on.
func (l *core) start() error {
	o := l.opts
	l.events = startEvents(o.observer, o.logger, o.clock)
	l.peers.holds = l.hasHolds
	l.peers.busy = func() bool { return l.calls.state.Load() > 0 || l.hasHolds() }
	l.peers.open(&l.tokens, l.events, l.electorate)
	l.listeners.init(o, l.nodes, l.peers.agreement.Label.ID())
	awaitNodes(l.nodes, l.electorate, o)
	if err := duplicateNodes(l.nodes, l.electorate); err != nil {
		return err
	}
	l.peers.agreement.Open()
	if conflict := l.mayLock(); conflict != nil {
		return conflict
	}
	if o.trims() {
		l.peers.trim(o.clock.now())
	}
	l.events.settled()
	return nil
}

// Close ends all waits and renewals and closes the connections. Before that it lets the calls in flight return and the
// nodes execute their undos, as far as the nodes answer within the node timeout. It takes two node timeouts at most.
// Holds that are not unlocked end with [ErrClosed]; the nodes keep them for the rest of the TTL. Calls after Close fail
// with [ErrClosed]. Close returns nil.
func (l *core) Close() error {
	if !l.closing.CompareAndSwap(false, true) {
		<-l.closed // not a mutex, which would stop the clock of a test in virtual time
		return nil
	}
	defer close(l.closed)
	l.calls.refuse() // first: a caller that learns of the end from one call must not be able to begin another
	l.cancel()
	l.events.ending()
	l.calls.wait(l.opts.nodeTimeout)
	l.listeners.close()
	l.peers.agreement.Close(l.endHolds)
	l.peers.trimLast()
	ctx, cancel := context.WithTimeout(context.Background(), l.opts.nodeTimeout)
	defer cancel()
	closeNodes(ctx, l.nodes)
	l.events.close(ctx)
	return nil
}

// Shutdown closes the Locker in good order, as for a rolling deployment: calls that acquire fail with [ErrClosed] from
// now on, those that wait as well, unless their context carries a hold of this Locker that has not ended (see
// [Lock.Context]), since work in progress may need one more lock. All else goes on. When no hold is left, no call in
// flight and no function of Do or Once, not even one whose hold was lost, Shutdown closes the Locker, and returns nil.
//
// If ctx ends before, Shutdown closes the Locker at once, as [Locker.Close] does: the holds that are left end with
// ErrClosed, and the nodes keep them for the rest of the TTL, since their work may still be running. The error then
// satisfies errors.Is for ctx.Err(), and names some of them. If Close ends Shutdown, the error satisfies errors.Is for
// ErrClosed. Further calls of Shutdown wait like the first, and are nil if the Locker was closed before.
func (l *Locker) Shutdown(ctx context.Context) (err error) {
	if !l.closing.Load() {
		l.shut()
		err = l.drain(ctx)
	}
	_ = l.Close() //nolint:contextcheck // which takes two node timeouts at most
	return err
}

// drain returns nil when no hold and no call is left, or why that is not waited for any longer.
func (l *Locker) drain(ctx context.Context) error {
	for {
		changed := l.idle.next() // before it is looked whether anything is left
		if l.schedule.EmptyAnd(func() bool { return l.calls.state.Load() == 0 && l.work.state.Load() == 0 }) {
			l.drained.Store(true)
			return nil
		}
		select {
		case <-changed:
		case <-l.ctx.Done():
			if l.drained.Load() { // as another Shutdown has found
				return nil
			}
			return &opError{op: "shutdown", reason: ErrClosed}
		case <-ctx.Done():
			return &opError{op: "shutdown", reason: endOf(ctx, ctx.Err()), detail: l.whatIsLeft()}
		}
	}
}

// whatIsLeft says how many holds there are, and which.
func (l *Locker) whatIsLeft() string {
	var names []string
	for _, s := range l.schedule.Sleepers() {
		names = append(names, shown(s.Name()))
	}
	slices.Sort(names)
	text := fmt.Sprintf(": %d holds left", len(names))
	switch n := len(names); {
	case n > 3:
		return fmt.Sprintf("%s: %s and %d more", text, strings.Join(names[:3], ", "), n-3)
	case n > 0:
		return text + ": " + strings.Join(names, ", ")
	}
	return text + ", but a call"
}

// scopeKey is the context key of the holds in whose scope a call is.
type scopeKey struct{}

// scope is a hold that a context carries, and those around it, the innermost first.
type scope struct {
	core  *core
	ended *atomic.Bool // the hold has
	outer *scope
}

// scope returns the context with whose end calls with ctx that acquire fail with ErrClosed.
func (l *core) scope(ctx context.Context) context.Context {
	at, _ := ctx.Value(scopeKey{}).(*scope)
	for ; at != nil; at = at.outer {
		if at.core == l && !at.ended.Load() {
			return l.ctx
		}
	}
	return l.open
}

// key returns the name's key on the nodes.
func (l *core) key(name string) (string, error) {
	switch {
	case name == "":
		return "", invalid("the name is empty")
	case len(name) > maxName:
		return "", invalid("the name has %d bytes: at most %d", len(name), maxName)
	case strings.HasPrefix(name, ownNames):
		return "", invalid("the name %q begins with %s, which is used by the library itself", name, ownNames)
	}
	key := l.opts.prefix + name
	if strings.Contains(key, ownNames) && ownKeys.MatchString(key) {
		return "", invalid("the key %q is one that is used by the library itself, with another prefix", key)
	}
	return key, nil
}

// inFlight counts the calls in flight. Close waits for them before it closes the connections, because a call may still
// have to undo what it requested.
type inFlight struct {
	state atomic.Int64  // the number of calls, plus closing once no more may begin
	idle  chan struct{} // closed when no more may begin and none is left
	none  func()        // called when none is left
}

// closing is larger than any number of calls.
const closing = 1 << 32

// begin registers a call, which must then call inFlight.end, or returns why it may not begin: ErrClosed, or ctx's
// error.
func (l *core) begin(ctx context.Context) error {
	if ended := ctx.Err(); ended != nil && !l.calls.refused() {
		return endOf(ctx, ended)
	}
	if !l.calls.begin() {
		return ErrClosed
	}
	return nil
}

// begin reports whether a call may begin, and then counts it.
func (u *inFlight) begin() bool {
	for {
		n := u.state.Load()
		if n >= closing {
			return false
		}
		if u.state.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// mayLock returns why this Locker may acquire nothing because of other clients' lists of nodes, or nil.
func (l *core) mayLock() error {
	if c := l.peers.agreement.Refusal(); c != nil {
		return &ListConflictError{Node: c.Node, Own: c.Own, Other: c.Other, apart: c.Apart}
	}
	return nil
}

// ended returns why no call may go on: ErrClosed after Close, or ctx's error.
func (l *core) ended(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return ErrClosed
	}
	return endOf(ctx, ctx.Err())
}

// isShut returns ErrClosed if a call with ctx may not acquire, since Shutdown or Close was called, or nil.
func (l *core) isShut(ctx context.Context) error {
	if l.open.Err() != nil && l.scope(ctx).Err() != nil {
		return ErrClosed
	}
	return nil
}

// over returns why a call that acquires may wait no longer: ErrClosed, also from Shutdown on, or ctx's error.
func (l *core) over(ctx context.Context) error {
	if shut := l.isShut(ctx); shut != nil {
		return shut
	}
	return endOf(ctx, ctx.Err())
}

func (u *inFlight) end() {
	switch u.state.Add(-1) {
	case closing:
		close(u.idle)
	case 0:
		u.none()
	}
}

// refuse makes begin refuse all further calls. It is called once.
func (u *inFlight) refuse() {
	if u.state.Add(closing) == closing {
		close(u.idle)
	}
}

// refused reports whether no call may begin any more.
func (u *inFlight) refused() bool { return u.state.Load() >= closing }

// wait returns when the calls in flight have ended, but after limit at the latest. It is called after refuse.
func (u *inFlight) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-u.idle:
	case <-timer.C:
	}
}

// rest returns nil after d, or earlier with the reason why the wait has ended.
func (l *core) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-l.scope(ctx).Done():
	}
	return l.over(ctx)
}
