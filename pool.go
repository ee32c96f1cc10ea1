package redlock

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// node is one Redis master and the one connection to it.
//
// Callers append requests to the queue. The writer takes all that are queued,
// sends them and flushes once. The reader hands the replies, which come in the
// order of the requests, to the calls. So nobody waits for a connection, a
// batch costs one system call, and what is asked later is executed later: a
// release undoes an acquire that was asked before it, even one that the node
// has not read yet.
type node struct {
	index     int
	target    target
	opts      *options
	tokensKey any // string, boxed for the wire
	tokens    *tokens
	probing   probing
	peers     *peers // set by peers.add
	standing  standing
	events    *events
	watchdog  *time.Timer        // runs expire; set under mu
	retry     *time.Timer        // runs askAgain; set under mu
	tried     chan struct{}      // closed by run when the first attempt to connect has ended
	stopped   chan struct{}      // closed by run when it returns
	kick      chan struct{}      // holds a value when the queue may have something for the writer
	ctx       context.Context    // ends run
	cancel    context.CancelFunc // ends ctx

	mu        sync.Mutex    // guards the fields below
	queue     []*request    // not yet written, in order
	flight    groups        // written and not yet answered, in order
	postponed []*request    // undos that were refused, and are to be asked again
	batch     batch         // sorts the queue into groups
	link      *link         // nil: not connected
	down      error         // why not connected
	lenient   bool          // the watchdog has fired late, and will fire again
	suspect   time.Time     // not zero: has let a request grow too old, and is silent since
	guarded   time.Time     // when the watchdog will look; zero: it is not set
	draining  bool          // Close has begun: only undos are taken
	drained   chan struct{} // closed when draining and nothing is owed any more

	announcing sync.Mutex // guards announced; taken before mu
	announced  EventKind  // the state that the events were told last
}

// maxQueue bounds the requests that a node may have unanswered. Undos are exempt:
// there is at most one for each request taken before.
const maxQueue = 1 << 13

func newNode(index int, t target, o *options, tk *tokens, e *events) *node {
	n := &node{
		index: index, target: t, opts: o, tokensKey: o.prefix + tokensName, tokens: tk, events: e, down: errConnecting, probing: newProbing(),
		tried: make(chan struct{}), stopped: make(chan struct{}), drained: make(chan struct{}),
		kick: make(chan struct{}, 1),
	}
	n.standing.turn = make(chan struct{}, 1)
	n.ctx, n.cancel = context.WithCancel(context.Background())
	n.watchdog = time.AfterFunc(time.Hour, n.expire)
	n.watchdog.Stop()
	n.retry = time.AfterFunc(time.Hour, n.askAgain)
	n.retry.Stop()
	return n
}

// ask queues a request and reports whether the node may act on it. A node that
// cannot answer votes at once: nobody waits for a dial or on a silent node.
func (n *node) ask(r *request) bool {
	if r.call.stands {
		// What a node forgot seems free there, and who waits would be first to take it, time and again,
		// for a vote that does not count. It is the holder's, who renews it while the node abstains.
		if a := n.standing.abstains.Load(); a != nil && !a.over(r.call.asked) {
			r.answer(answer{vote: voteAbstained, err: a.tell(r.call.asked)})
			r.call.release()
			return false
		}
	}
	k := r.call.kind
	n.mu.Lock()
	undo := k.undo && !(k.spare && len(n.queue) >= maxPostponed)
	refusal := n.refusal(undo)
	if refusal != nil && !undo {
		n.mu.Unlock()
		r.fail(refusal)
		r.call.release()
		return false
	}
	// An undo is queued even for a node that cannot answer now: what it undoes
	// may have been done there, or be about to be read.
	r.voted = refusal != nil
	n.queue = append(n.queue, r)
	first := len(n.queue) == 1
	if deadline := r.call.asked.Add(n.opts.nodeTimeout); refusal == nil && (n.guarded.IsZero() || deadline.Before(n.guarded)) {
		n.guarded = deadline
		n.watchdog.Reset(n.opts.nodeTimeout)
	}
	n.mu.Unlock()
	if first {
		n.wakeWriter()
	}
	if refusal != nil {
		r.fail(refusal) // the caller still holds the call
	}
	return true
}

// refusal says why the node takes no requests at present. Called with mu held.
func (n *node) refusal(undo bool) error {
	switch {
	case n.draining && !undo:
		return ErrClosed
	case n.link == nil:
		return n.down
	case !n.suspect.IsZero():
		return ErrNodeTimeout
	case !undo && len(n.queue)+n.flight.total >= maxQueue:
		return ErrNodeBusy
	default:
		return nil
	}
}

func (n *node) wakeWriter() {
	select {
	case n.kick <- struct{}{}:
	default:
	}
}

// run keeps the node connected until it is closed.
func (n *node) run() {
	defer close(n.stopped)
	for failures := 0; ; failures++ {
		l, err := n.connect(n.ctx)
		if err == nil {
			failures = 0
			n.connected(l)
		} else {
			n.disconnected(err)
		}
		if !isClosed(n.tried) {
			close(n.tried) // only now: who waits for it wants to know the outcome
		}
		if err == nil {
			n.disconnected(n.serve(l))
		}
		if sleep(n.ctx, reconnectDelay(failures)) != nil {
			return
		}
	}
}

// serve runs the connection's writer and reader until it breaks.
func (n *node) serve(l *link) error {
	g, ctx := errgroup.WithContext(n.ctx)
	stop := context.AfterFunc(ctx, func() { // the end of one is the end of both
		if n.ctx.Err() == nil {
			l.drop()
		}
		l.close()
	})
	defer stop()
	g.Go(func() error { return n.write(ctx, l) })
	g.Go(func() error { return n.read(l) })
	g.Go(func() error { return n.probe(ctx) })
	err := g.Wait()
	l.close()
	return err
}
