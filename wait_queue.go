package redlock

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
)

// Waiting. A client that finds a lock taken joins the queue that each node keeps for it. On a release, each node hands
// the lock to the waiter in its queue that has waited longest: it sets the key to that waiter's owner and publishes a
// notification to the waiter's Locker. Owners begin with the time, so all nodes that know of the same waiters choose
// the same one. A majority of such votes is a hold like any other.
//
// Notifications only save time. Each waiter also repeats its request now and then: so it learns of votes whose
// notification was lost, takes over from a holder that crashed, and gets back a place that a node has lost.
//
// Votes may split between waiters if the nodes learnt of them in different orders. Then all of these waiters but the
// oldest give their votes back. A waiter also gives its votes back if another owner seems to hold the lock and a node
// says that an older waiter waits for one of them. If so many nodes fail it that it cannot get the lock, it leaves the
// queues until they are back.

// waiter is one wait for one lock under one owner.
type waiter struct {
	locker      *Locker
	hold        *hold // what the waiter becomes; its token is owned by the waiting goroutine
	queuedToken int64 // the token in the waiter's place in the queues
	askedToken  int64 // the token of the last request; owned by the waiting goroutine
	owner       string
	wake        chan struct{} // holds a value after a notification
	standing    *round        // the request by which it stands; nil: it has not asked yet, or has asked again

	mu       sync.Mutex
	notified quorum.Notifications // guarded by mu
	asking   *round               // the last request, until it is abandoned; guarded by mu
}

// newWaiter creates a waiter whose place in the queues counts from since, in µs of the nodes' time.
func (l *Locker) newWaiter(want acquireRequest, o *options, since int64) *waiter {
	return l.waiterFor(l.newHold(want, o, since))
}

// waiterFor creates a waiter for a hold that no majority has given yet.
func (l *Locker) waiterFor(h *hold) *waiter {
	w := &waiter{
		locker: l, hold: h, queuedToken: h.token, askedToken: h.token, owner: h.owner.String(),
		wake: make(chan struct{}, 1), notified: quorum.NewNotifications(len(l.nodes)),
	}
	h.setPlace()
	l.listeners.add(h.owner, w.notify)
	return w
}

// standBy returns the waiter of a request r that stands and did not get the lock: none if err ended the request, or if
// the nodes have been told another token since.
func (h *hold) standBy(r *round, err error) *waiter {
	w := h.locker.waiterFor(h)
	w.standing = r
	w.follow(r)
	if err == nil && r.command == stand {
		return w
	}
	w.withdraw()
	return nil
}

// withdraw gives up the votes and the places of a waiter that stands, if there is one.
func (w *waiter) withdraw() {
	if w == nil {
		return
	}
	w.drop(w.standing)
	w.hold.withdraw()
}

// notify takes a node's notification.
func (w *waiter) notify(node int, a quorum.Answer, main bool) {
	w.mu.Lock()
	r := w.asking
	behind := main && r != nil && quorum.Tally(r.votes.Load()).Voted(node) && r.answers[node].Vote == quorum.Taken
	w.notified.Receive(node, a, w.queuedToken, behind)
	w.mu.Unlock()
	w.signal()
}

// follow has notify compare notifications with the answers to a request.
func (w *waiter) follow(r *round) {
	w.mu.Lock()
	w.asking = r
	w.mu.Unlock()
}

// drop abandons a request that the waiter follows.
func (w *waiter) drop(r *round) {
	w.follow(nil)
	r.abandon()
}

// votes counts the votes by the answers so far and the notifications.
func (w *waiter) votes(r *round) quorum.Votes {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.notified.Count(quorum.Tally(r.votes.Load()), r.answers, w.askedToken, w.hold.token)
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// queue waits in the nodes' queues until the lock is held. Its first request counts as part of the attempt that failed
// before, if there was one; if w is not nil, it stands by that attempt.
func (l *Locker) queue(
	ctx context.Context, want acquireRequest, o *options, last error, w *waiter,
) (*hold, error) {
	l.listeners.listen(l.ctx, l) //nolint:contextcheck // until Close, not until the caller leaves
	l.listeners.waiting.Add(1)
	defer l.listeners.waiting.Add(-1)
	for _, i := range l.tokens.Poor() {
		l.nodes[i].measureSoon()
	}
	var r *round
	var asked instant
	if w != nil {
		r, asked, w.standing = w.standing, w.hold.start, nil
	}
	since := cmp.Or(want.waitsSince, l.tokens.time(cmp.Or(asked, o.clock.now())))
	seen := quorum.History{Stands: w != nil}
	for attempts := 1; ; attempts++ {
		if w == nil {
			w = l.newWaiter(want, o, since)
		}
		if r == nil {
			if ended := l.takeTurn(ctx, l.turns); ended != nil {
				w.hold.withdraw()
				if last == nil {
					last = l.notAsked(want.op, want.name, nil)
				}
				return nil, waitEnded(last, ended)
			}
			r, asked = w.ask()
			err := w.awaitOutcome(ctx, r)
			l.turns.Release(1)
			found := last
			if err == nil || last == nil {
				failure := r.failure(want.op, want.name, ErrTaken, quorum.Tally(r.votes.Load()), nil)
				// Where this process was late, it has found out nothing: what a majority said last still is what is known.
				if found = failure; !failure.late || !errors.Is(last, ErrTaken) {
					last = failure
					want.found(last)
				}
			}
			if v := w.votes(r); l.electorate.Suffice(v.Given) {
				want.observed.attempt(asked, nil)
			} else {
				want.observed.attempt(asked, found)
			}
		}
		pause, final := quorum.NoPause, attempts == o.maxAttempts
		if !final {
			place := 0
			if o.maxAttempts == 0 {
				place = 128
			}
			pause = quorum.NewPause(o.backoff(attempts), max(o.ttl, placeLives)/2, place, seen.Partial)
		}
		h, err := w.await(ctx, r, asked, pause, &seen)
		if conflict := l.mayLock(); conflict != nil { // found since the wait began
			w.drop(r)
			w.hold.withdraw()
			return nil, waitEnded(last, conflict)
		}
		if err != nil && !errors.Is(err, errAskAgain) {
			if errors.Is(err, errTokenAhead) { // a majority gave the lock, but it cannot be held without a token
				last, err = r.notHeld(ctx, want.op, want.name, quorum.Tally(r.votes.Load()), err, false), nil
			}
			w.drop(r)
			w.hold.withdraw()
			return nil, waitEnded(last, err)
		}
		v := w.votes(r)
		w.drop(r)
		r = nil
		if h != nil {
			return h, nil
		}
		seen.Record(&v)
		if final {
			w.hold.withdraw()
			return nil, last
		}
		decided := seen.Decide(&v, want.shared, w.owner, l.electorate)
		seen.Stands = false
		switch decided {
		case quorum.KeepVotes:
			continue
		case quorum.Requeue:
			since = l.tokens.time(o.clock.now())
		case quorum.GiveBack, quorum.Retreat:
			since++ // no owner of this wait may be that of another attempt, whose undo may still be on its way
		}
		// The node hands each returned vote to its oldest waiter. If it cannot notify that waiter, the waiter must find
		// the lock free with its next request: so this one pauses before it asks again.
		w.hold.withdraw()
		if decided == quorum.Retreat || seen.GaveBack > 2 {
			err := l.rest(ctx, o.backoff(attempts))
			if decided == quorum.Retreat && err == nil && o.maxAttempts == 0 { // what limits attempts may be all that ends the wait
				err = l.restUntilReady(ctx)
			}
			if err != nil {
				return nil, waitEnded(last, err)
			}
		}
		w = nil
	}
}

// rest returns nil after d, or earlier with the reason why the wait has ended.
func (l *Locker) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
	return l.ended(ctx)
}

// restUntilReady returns nil when the votes of a majority count, as far as the Locker knows, or when the Locker is
// refused, which the next request tells; or else the reason why the wait has ended.
func (l *Locker) restUntilReady(ctx context.Context) error {
	for {
		changed := l.peers.states.next() // before the states are read
		now := l.opts.clock.local()
		seen := l.readiness(now, false)
		if ended := l.ended(ctx); ended != nil || l.electorate.Suffice(seen.votes) || l.mayLock() != nil {
			return ended
		}
		l.awaitStates(ctx, changed, seen)
	}
}

// readiness is what the Locker knows of whether the nodes may vote.
type readiness struct {
	failure *QuorumError
	votes   quorum.Set // the nodes whose votes count
	refused quorum.Set // those that are refused until somebody changes something
	until   time.Time  // when the first abstention ends; zero: there is none whose end is known
}

// readiness goes by what this Locker counts, or forNew by what a client that starts now does, too.
func (l *Locker) readiness(now time.Time, forNew bool) readiness {
	seen := readiness{failure: &QuorumError{Op: "ready", reason: ErrNoQuorum}}
	for i, n := range l.nodes {
		part := NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: OutcomeVotes}
		_, down := n.conn.State()
		a := n.guard.Abstention()
		if forNew {
			a = n.guard.Newcomer(now)
		}
		switch {
		case down != nil:
			part.Outcome, part.Err = OutcomeFailed, down
			if lasting(down, n.opts) {
				seen.refused = seen.refused.With(i)
			}
		case a != nil && !a.Over(now):
			part.Outcome, part.Err = OutcomeAbstained, abstainError(a, now)
			if !a.Until.IsZero() && (seen.until.IsZero() || a.Until.Before(seen.until)) {
				seen.until = a.Until
			}
		default:
			seen.votes = seen.votes.With(i)
		}
		seen.failure.Nodes = append(seen.failure.Nodes, part)
	}
	seen.failure.measure(l.electorate, seen.votes)
	return seen
}

// lasting reports whether a node is down for a reason that no time and no further attempt to connect removes.
func lasting(down error, o *options) bool {
	var refusal *ReplyError
	var mismatch redisconn.MismatchError
	switch {
	case errors.Is(down, ErrNodeRefused):
		return true
	case errors.As(down, &mismatch):
		return mismatch.Lasting() && !o.certifiesAnew(mismatch.Kind)
	case o.credentials != nil || !errors.As(down, &refusal):
		return false
	default:
		return refusal.refusesLogin() || refusal.Code == "NOPERM"
	}
}

// certifiesAnew reports whether a function decides about a certificate: it may say something else at the next attempt
// to connect.
func (o *options) certifiesAnew(kind redisconn.MismatchKind) bool {
	switch {
	case o.tls == nil:
		return false
	case kind == redisconn.OurCertificate:
		return o.tls.GetClientCertificate != nil
	default:
		return kind == redisconn.Certificate && (o.tls.VerifyConnection != nil || o.tls.VerifyPeerCertificate != nil)
	}
}

// awaitStates returns when the state of a node has changed, when the first abstention ends, or when the wait is over.
func (l *Locker) awaitStates(ctx context.Context, changed <-chan struct{}, seen readiness) {
	for _, n := range l.nodes {
		n.conn.Wanted()
	}
	var end <-chan time.Time
	if !seen.until.IsZero() {
		timer := time.NewTimer(max(time.Millisecond, seen.until.Sub(l.opts.clock.local())))
		defer timer.Stop()
		end = timer.C
	}
	select {
	case <-changed:
	case <-end:
	case <-ctx.Done():
	case <-l.ctx.Done():
	}
}

// awaitOutcome returns when the outcome of the round is certain, or as soon as answers and notifications together give
// the waiter a majority: the answer that the round still waits for may be that of a slow node.
func (w *waiter) awaitOutcome(ctx context.Context, r *round) error {
	notified := false
	defer func() {
		if notified {
			w.signal() // again, for await
		}
	}()
	for {
		select {
		case <-r.wake:
			if r.certain(quorum.Tally(r.votes.Load())) {
				return nil
			}
		case <-w.wake:
			// Only now: older notifications alone were not enough before, and would not be without an answer.
			if notified = true; w.locker.electorate.Suffice(w.votes(r).Given) {
				return nil
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

var errAskAgain = errors.New("ask again")

// await returns the hold as soon as there is one, errAskAgain when it is time for the next request, or the reason why
// the wait has ended. It counts the votes anew with each answer and each notification, and chooses the pause by all
// of them: the outcome may be certain before the waiter's own votes have come. The pause begins at the outcome, or
// when the first of these votes comes after it: the others may be on their way.
func (w *waiter) await(ctx context.Context, r *round, asked instant, p quorum.Pause, seen *quorum.History) (*hold, error) {
	l := w.locker
	begun, none := l.opts.clock.now(), true
	p.Took = begun.since(asked)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for woken := false; ; {
		v := w.votes(r)
		if v.Revoked {
			return nil, errAskAgain // under another owner
		}
		if l.electorate.Suffice(v.Given) {
			h, err := w.promote(ctx, v, asked)
			// Votes that are too old, or whose nodes did not accept the raised token, need a new request: at once after a
			// notification, otherwise after the pause, since their nodes may be out of reach.
			if h != nil || !errors.Is(err, errAskAgain) || woken {
				return h, err
			}
		}
		if seen.Stands && v.ShouldYield(w.hold.shared, w.owner, l.electorate) {
			return nil, errAskAgain // as an attempt is undone at once that does not wait
		}
		now := l.opts.clock.now()
		if none && v.Given != 0 {
			begun, none = now, false
		}
		left := p.Length(&v, l.electorate) - now.since(begun)
		if left <= 0 {
			// A notification that came meanwhile is not left for the next request, which would take it for an answer.
			if woken = w.takeWake(); woken {
				continue
			}
			return nil, errAskAgain
		}
		timer.Reset(left)
		select {
		case <-w.wake:
			woken = true
		case <-r.wake: // one more answer
		case <-timer.C:
		case <-ctx.Done():
			return nil, l.ended(ctx)
		case <-l.ctx.Done():
			return nil, ErrClosed
		}
	}
}

// takeWake reports whether a notification has come that was not looked at.
func (w *waiter) takeWake() bool {
	select {
	case <-w.wake:
		return true
	default:
		return false
	}
}

// ask sends the enqueue command to all nodes: each answers whether the lock is the waiter's, or now becomes so, and
// keeps the waiter's place otherwise.
func (w *waiter) ask() (*round, instant) {
	l := w.locker
	w.mu.Lock()
	w.notified.Age()
	w.mu.Unlock()
	r := l.askFor(enqueue, w.hold)
	r.waits = true
	w.askedToken = w.hold.token
	asked := l.opts.clock.now()
	w.hold.asked |= r.send(l.nodes, l.electorate.All, asked.local)
	w.follow(r)
	return r, asked
}

// promote turns a majority of votes into a hold. It returns errAskAgain if too few nodes accept the token or too little
// of the TTL is left, and another error if the wait is over.
func (w *waiter) promote(ctx context.Context, v quorum.Votes, asked instant) (*hold, error) {
	l, h := w.locker, w.hold
	// The TTL of a vote in answer to the last request began after that request was sent, and so did the lease of a vote
	// that was handed over after the node had answered. The lease of another vote known by notification may have begun at
	// any time since the waiter drew its owner, at h.since.
	start, term := h.since, min(l.opts.lease(), h.opts.ttl)
	switch handed := v.Fresh | v.Handed; {
	case l.electorate.Suffice(v.Fresh):
		start, term = asked, h.opts.ttl
		v.Granted = v.FreshGranted // votes known by notification may have expired since
	case l.electorate.Suffice(handed):
		start = asked
		v.Granted &= handed // for the same reason
	}
	if h.token > 0 && (!l.electorate.Suffice(v.Granted) || l.outdated(h.token)) {
		r, err := l.askToRaise(h, max(h.token, v.Highest), l.electorate.All)
		if err != nil {
			return nil, err
		}
		votes, err := r.wait(ctx)
		w.raised(r, votes)
		r.abandon()
		if err != nil {
			return nil, l.ended(ctx)
		}
		if l.electorate.Verdict(votes) != quorum.Won {
			return nil, errAskAgain
		}
	}
	// The maximum hold time (WithMaxHold) counts from here, not from the beginning of the wait.
	now, began := l.opts.clock.now(), h.since
	h.start, h.term, h.since = start, term, now
	if o := h.opts; h.left(now) < o.leastLeft(term) {
		h.since = began
		return nil, errAskAgain // the next request restarts the TTL on the nodes
	}
	l.tokens.Observe(h.token)
	return h, nil
}

// raised records which nodes accepted the new token.
func (w *waiter) raised(r *round, votes quorum.Tally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range r.answers {
		if votes.Voted(i) && r.answers[i].Vote == quorum.Granted {
			w.notified.Accept(i, w.hold.token)
		}
	}
}
