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
// goroutines may use it at once. It has the methods of [Inspector], too: Close, Ready, Status, Inspect, Watch, Check,
// List and ForceUnlock.
type Locker struct{ *Inspector }

// Inspector looks at locks and nodes, and acquires nothing: for monitoring, and for administrators. Any number of
// goroutines may use it at once.
type Inspector struct {
	nodes      []*node
	electorate *quorum.Electorate
	opts       *options
	rounds     *sync.Pool // of *round
	tokens     tokens
	peers      *peers
	schedule   schedule.Schedule
	local      localqueue.Queues[verdict] // of those that wait for a name; the note: see acquisition.found
	listeners  listeners
	events     *events
	ctx        context.Context // done when the Locker is closed; ends all waits
	cancel     context.CancelFunc
	open       context.Context // done from Shutdown on: ends the waits of calls that no hold has made; ended by ctx, too
	shut       context.CancelFunc
	ebb        states      // changes when no call or no hold is left, from Shutdown on
	drained    atomic.Bool // Shutdown found neither
	calls      inFlight
	work       inFlight            // functions of Do and Once, which Shutdown waits for even if their holds are lost
	turns      *semaphore.Weighted // to ask for a lock, maxAsking of them: see admit
	attempts   atomic.Int64        // that have such a turn or wait for one
	turnTook   atomic.Int64        // how long one had it last while at least half were taken, in ns; 0: none had
	opened     time.Time           // when New was called
	futile     atomic.Int64        // how long after that a call last found no majority connected, in ns; 0: none did
	asking     singleflight.Group  // of Nodes
	closing    atomic.Bool
	closed     chan struct{} // by Close, at its end
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
	i, err := newInspector("New", nodes, opts)
	if err != nil {
		return nil, err
	}
	return &Locker{i}, nil
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
	return newInspector("NewInspector", nodes, append(slices.Clip(opts), onlyLooks))
}

var onlyLooks Option = newOption(func(o *options) { o.onlyLooks = true })

func newInspector(op string, nodes []string, opts []Option) (*Inspector, error) {
	o, err := newOptions(opts)
	if err != nil {
		return nil, &opError{op: op, reason: err}
	}
	lists := [][]string{nodes}
	if o.migrates {
		lists = append(lists, o.migrateTo)
	}
	l := &Inspector{opts: o, opened: o.clock.local(), closed: make(chan struct{})}
	if l.peers, l.electorate, err = newNodes(lists, o); err != nil {
		return nil, &opError{op: op, reason: err}
	}
	l.nodes, l.rounds = l.peers.nodes, newRounds(l.electorate)
	maxApart := o.retention / 2 // between two clocks: with more, tokens could be dropped too early; 0: no limit
	if !o.fencing {
		maxApart = 0
	}
	l.tokens = newTokens(l.electorate, o.clock, maxApart)
	l.events = startEvents(o.observer, o.logger, o.clock)
	l.peers.holds = l.schedule.Waits
	l.peers.busy = func() bool { return l.calls.state.Load() > 0 || l.schedule.Waits() }
	l.peers.open(&l.tokens, l.events, l.electorate)
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.open, l.shut = context.WithCancel(l.ctx)
	l.calls.none = func() {
		if l.open.Err() != nil {
			l.ebb.change()
		}
	}
	l.work.none = l.calls.none
	l.schedule.Start(o.clock.local, l.calls.none)
	l.calls.idle, l.turns = make(chan struct{}), semaphore.NewWeighted(maxAsking)
	l.local.Init(o.clock.local)
	l.listeners = newListeners(o, l.nodes, l.peers.agreement.Label.ID())
	awaitNodes(l.nodes, l.electorate, o)
	err = duplicateNodes(l.nodes, l.electorate)
	if err == nil {
		l.peers.agreement.Open()
		if conflict := l.listConflict(); conflict != nil {
			err = conflict
		}
	}
	if err != nil {
		_ = l.Close()
		return nil, &opError{op: op, reason: err}
	}
	if o.trims() {
		l.peers.trim(o.clock.now())
	}
	l.events.settled()
	return l, nil
}

// Close ends all waits and renewals and closes the connections. Before that it lets the calls in flight return and the
// nodes execute their undos, as far as the nodes answer within the node timeout. It takes two node timeouts at most.
// Holds that are not unlocked end with [ErrClosed]; the nodes keep them for the rest of the TTL. Calls after Close fail
// with [ErrClosed]. Close returns nil.
func (l *Inspector) Close() error {
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
	l.peers.agreement.Close(l.schedule.Close)
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
// If ctx ends before, Shutdown closes the Locker at once, as [Inspector.Close] does: the holds that are left end with
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
func (l *Inspector) drain(ctx context.Context) error {
	for {
		changed := l.ebb.next() // before it is looked whether anything is left
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
func (l *Inspector) whatIsLeft() string {
	var names []string
	for _, s := range l.schedule.Sleepers() {
		names = append(names, shown(s.(fmt.Stringer).String()))
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

// heldKey is the context key of the holds that a context carries.
type heldKey struct{}

// carried are these holds.
type carried interface {
	hasOneOf(l *Inspector) bool // that has not ended
}

// scope returns the context with whose end calls with ctx that acquire fail with ErrClosed.
func (l *Inspector) scope(ctx context.Context) context.Context {
	if at, ok := ctx.Value(heldKey{}).(carried); ok && at.hasOneOf(l) {
		return l.ctx
	}
	return l.open
}

// key returns the name's key on the nodes.
func (l *Inspector) key(name string) (string, error) {
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
func (l *Inspector) begin(ctx context.Context) error {
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

// mayLock returns why this Locker may acquire nothing, or nil.
func (l *Inspector) mayLock() error {
	if l.opts.onlyLooks { // Locker{inspector} compiles
		return invalid("an Inspector takes no lock")
	}
	if conflict := l.listConflict(); conflict != nil {
		return conflict
	}
	return nil
}

// listConflict returns why this Locker is refused because of other clients' lists of nodes, or nil.
func (l *Inspector) listConflict() *ListConflictError {
	if c := l.peers.agreement.Refusal(); c != nil {
		return &ListConflictError{Node: c.Node, Own: c.Own, Other: c.Other, apart: c.Apart}
	}
	return nil
}

// ended returns why no call may go on: ErrClosed after Close, or ctx's error.
func (l *Inspector) ended(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return ErrClosed
	}
	return endOf(ctx, ctx.Err())
}

// isShut returns ErrClosed if a call with ctx may not acquire, since Shutdown or Close was called, or nil.
func (l *Inspector) isShut(ctx context.Context) error {
	if l.open.Err() != nil && l.scope(ctx).Err() != nil {
		return ErrClosed
	}
	return nil
}

// over returns why a call that acquires may wait no longer: ErrClosed, also from Shutdown on, or ctx's error.
func (l *Inspector) over(ctx context.Context) error {
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
func (l *Inspector) rest(ctx context.Context, d time.Duration) error {
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

// maxAsking is how many calls may ask for a lock at a time: as many as a connection takes requests. The others come in
// turn, which costs less than to ask in vain, and leaves the processor to those that read the answers.
const maxAsking = redisconn.MaxQueue / 2

// takeTurn waits for the caller's turn, or returns why the wait ended before it came. The caller must release a turn
// that it got. observed, which may be nil, is told if the turn does not come at once.
func (l *Inspector) takeTurn(ctx context.Context, turn *semaphore.Weighted, observed *observation) error {
	if !turn.TryAcquire(1) {
		observed.waiting(nil)
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.scope(ctx), cancel)()
		if turn.Acquire(waiting, 1) != nil {
			return l.over(ctx)
		}
	}
	ended := l.over(ctx)
	if ended != nil { // the turn may be free only because the caller ahead had the same deadline
		turn.Release(1)
	}
	return ended
}

// admit reports whether an attempt has its turn, for which it waits half of the node timeout at most: the other half is
// for the nodes. If it waited, the node timeout and the validity, too, count from before that: the result in place of
// begun, which is nil if the call begins here. A caller that asks once is refused at once if its turn would come too
// late, as far as the last turns have shown: to wait for that would take the processor from those that are served, as
// to ask in vain does. The caller must call endTurn if it is admitted.
func (l *Inspector) admit(ctx context.Context, waits bool, begun *instant) (_ *instant, admitted bool) {
	asking := l.attempts.Add(1)
	if l.turns.TryAcquire(1) {
		return begun, true
	}
	if l.attempts.Load() > maxAsking { // else a turn is about to be free
		asking = max(asking, maxAsking+1) // one that came later was faster
	}
	took, longest := time.Duration(l.turnTook.Load()), l.opts.nodeTimeout/2
	if waits || took > 0 && took*time.Duration((asking-1)/maxAsking) <= longest || asking <= maxAsking {
		if begun == nil {
			now := l.opts.clock.now()
			begun = &now
		}
		bounded, cancel := context.WithDeadline(ctx, begun.local.Add(longest))
		defer cancel()
		admitted = l.takeTurn(bounded, l.turns, nil) == nil
	}
	if !admitted {
		l.attempts.Add(-1)
	}
	return begun, admitted
}

// turnBegins returns the time if at least half of the turns are taken.
func (l *Inspector) turnBegins() (now instant) {
	if l.attempts.Load() > maxAsking/2 {
		now = l.opts.clock.now()
	}
	return now
}

func (l *Inspector) endTurn(begun instant) {
	if begun != (instant{}) {
		l.turnTook.Store(int64(max(1, l.opts.clock.now().since(begun))))
	}
	l.attempts.Add(-1)
	l.turns.Release(1)
}

// notAsked returns the error of a call that asked no node, because too many others of this process were ahead. ended is
// what ended the caller's wait, or nil.
func (l *Inspector) notAsked(op, name string, ended error) *QuorumError {
	e := &QuorumError{
		Op: op, Name: name, reason: ErrNoQuorum, ctx: ended,
		detail: "this process was late: too many of its calls were ahead",
	}
	e.measure(l.electorate, 0)
	var up quorum.Set
	for i, n := range l.nodes {
		part := NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: outcomeUnasked}
		if _, down := n.conn.State(); down != nil {
			part.Outcome, part.Err = outcomeFailed, down
		} else {
			up = up.With(i)
		}
		e.Nodes = append(e.Nodes, part)
	}
	e.late = l.electorate.Suffice(up)
	return e
}
