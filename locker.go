package redlock

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Locker acquires locks on a fixed set of nodes. Any number of goroutines may
// use it at once.
type Locker struct {
	nodes     []*node
	all       nodeSet
	need      int // a majority of the nodes
	opts      *options
	rounds    *sync.Pool // of *round
	tokens    tokens
	schedule  schedule
	local     localQueues
	listeners listeners
	events    *events
	ctx       context.Context // ends waiting when the Locker is closed
	cancel    context.CancelFunc
	calls     inFlight
	closing   sync.Once
}

// maxName bounds a name, in bytes: it is in every message.
const maxName = 512

// New returns a Locker for the nodes at the given URLs:
// redis://user:password@host:port/db, rediss://… for TLS, or unix:///path?db=n;
// valkey and valkeys mean the same as redis and rediss, and redis://secret@host has a password alone.
// Use an odd number of masters that share no fate, 31 at most; five is usual. One makes a plain
// single-node lock.
//
// New connects to all nodes at once, and returns when every first attempt has
// ended, or when a majority is connected and the node timeout has passed. It
// does not fail because nodes are out of reach: connecting goes on in the
// background, and calls say which nodes they lack. It does fail where two URLs
// turn out to lead to one server, if that is seen by then; later the second one
// is refused. Its error satisfies errors.Is for [ErrInvalid].
func New(nodes []string, opts ...Option) (*Locker, error) {
	base := defaults()
	o, err := applyOptions(&base, false, opts)
	if err == nil {
		err = o.check()
	}
	if err != nil {
		return nil, &opError{op: "New", reason: err}
	}
	switch {
	case len(nodes) == 0:
		err = invalid("no nodes")
	case len(nodes) > maxNodes:
		err = invalid("%d nodes: at most %d", len(nodes), maxNodes)
	}
	if err != nil {
		return nil, &opError{op: "New", reason: err}
	}
	l := &Locker{all: allNodes(len(nodes)), need: majority(len(nodes)), opts: o, rounds: newRounds(len(nodes))}
	apart := o.retention / 2 // the nodes' clocks at most, for tokens to be of use
	if !o.fencing {
		apart = 0
	}
	l.tokens = newTokens(len(nodes), o.clock, apart)
	l.events = startEvents(o.observer, o.logger, o.clock)
	if l.nodes, err = openNodes(nodes, o, &l.tokens, l.events); err != nil {
		l.events.close(context.Background())
		return nil, &opError{op: "New", reason: err}
	}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.schedule.start(o.clock)
	l.calls.idle = make(chan struct{})
	l.local = localQueues{clock: o.clock, of: make(map[string]*localQueue)}
	l.listeners = newListeners(o.prefix, l.nodes, o.clock.local)
	awaitNodes(l.nodes, l.need, o)
	if err := twins(l.nodes); err != nil {
		_ = l.Close()
		return nil, &opError{op: "New", reason: err}
	}
	return l, nil
}

// Close ends all waiting and all renewal, lets calls that are under way end, sees to it that what they undo is undone,
// as far as nodes answer within the node timeout, and closes the connections. It takes two node timeouts at most. Holds
// that are not unlocked end with [ErrClosed]; the nodes keep them for the rest of the TTL. Calls after Close fail with
// [ErrClosed]. It returns nil.
func (l *Locker) Close() error {
	l.closing.Do(func() {
		l.calls.refuse() // first: nobody who hears that all is over may begin again
		l.cancel()
		l.calls.wait(l.opts.nodeTimeout)
		l.listeners.close()
		l.schedule.close()
		ctx, cancel := context.WithTimeout(context.Background(), l.opts.nodeTimeout)
		defer cancel()
		closeNodes(ctx, l.nodes)
		l.events.close(ctx)
	})
	return nil
}

// key returns the name's key on the nodes.
func (l *Locker) key(name string) (string, error) {
	switch {
	case name == "":
		return "", invalid("the name is empty")
	case len(name) > maxName:
		return "", invalid("the name has %d bytes: at most %d", len(name), maxName)
	case strings.HasPrefix(name, ownNames):
		return "", invalid("the name %q: what begins with %s is used by the library itself", name, ownNames)
	}
	return l.opts.prefix + name, nil
}

// inFlight counts the calls that may yet have to undo what they ask of nodes, so that Close
// does not cut off the undoing: the node's connection goes last.
type inFlight struct {
	state atomic.Int64  // how many, and closing
	idle  chan struct{} // closed when closing and none is left
}

// closing is added to the state when no more may begin.
const closing = 1 << 32

// begin lets a call begin, which must call inFlight.end, or returns why it may not: ErrClosed, or ctx's error.
func (l *Locker) begin(ctx context.Context) error {
	for u := &l.calls; ; {
		n := u.state.Load()
		if n >= closing {
			return ErrClosed
		}
		if err := ctx.Err(); err != nil {
			return endOf(ctx, err)
		}
		if u.state.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// ended returns why no call may wait any longer: ErrClosed, or ctx's error.
func (l *Locker) ended(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return ErrClosed
	}
	return endOf(ctx, ctx.Err())
}

func (u *inFlight) end() {
	if u.state.Add(-1) == closing {
		close(u.idle)
	}
}

// refuse lets no more calls begin. It is called once.
func (u *inFlight) refuse() {
	if u.state.Add(closing) == closing {
		close(u.idle)
	}
}

// wait returns when the calls under way have ended, or after that time. No more may begin.
func (u *inFlight) wait(limit time.Duration) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-u.idle:
	case <-timer.C:
	}
}
