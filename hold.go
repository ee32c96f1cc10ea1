package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
)

// hold is one acquisition, from grant to release or loss. Several handles may share it. Renewal refers to the hold and
// not to a handle, so that the garbage collector can find a forgotten handle. Handles may outlive the hold: see tenure.
type hold struct {
	locker *Locker
	name   string
	names  *protocol.Names // nil: one lock
	shared bool            // with other readers
	state  state           // guarded by mu
	owner  uuid.UUID
	token  int64

	finished  atomic.Bool // it is not held any more, for code that must not wait for mu
	scheduled int32       // see Position

	mu      sync.Mutex // guards the state, the fields below and those of the tenure
	tenure  *tenure    // nil: the hold was unlocked, and its tenure may belong to another hold
	lastEnd int64      // set if tenure is nil: when the hold would have ended without Unlock, in ns since 1970
}

// state is where a hold is in its life. What each change of it needs, and what it does to work, nodes, schedule and
// listeners, is in the functions become….
type state uint8

const (
	held       state = iota // it may be trusted until its deadline
	kept                    // it has ended at its maximum, and the nodes keep it until its work has stopped
	unlocked                // by the last Unlock
	lost                    // it has ended by itself, and is released in case that some nodes have it still
	handedOver              // by Ticket: the nodes keep it for the process that adopts it
	closed                  // with the Locker: the nodes keep it for work that is still running
	discarded               // nobody was given it
)

var stateNames = [...]string{"held", "kept", "unlocked", "lost", "handed over", "closed", "discarded"}

func (s state) String() string { return stateNames[s] }

// transitions are the states that may follow each state.
var transitions = [...][]state{
	held:   {kept, unlocked, lost, handedOver, closed, discarded},
	kept:   {unlocked, lost, closed},
	closed: {discarded},

	unlocked: {}, lost: {}, handedOver: {}, discarded: {},
}

// become panics if the hold cannot get from its state to the next one: that is a defect of this package. The caller
// holds mu, as do those of all the functions below that change the state.
func (h *hold) become(next state) (before state) {
	if before = h.state; !slices.Contains(transitions[before], next) {
		panic(fmt.Sprintf("redlock: a hold that is %s cannot become %s", before, next))
	}
	h.state = next
	return before
}

// tenure is the part of a hold that matters only until its end. A program may keep a handle long after its hold has
// ended, so what the handle's methods then need is in the hold, which is small and never reused. The rest, most of the
// memory, is the tenure, which passes with its attempt from an unlocked hold to a later one.
//
// The rule of access: code may use the tenure, and its attempt, only while it holds hold.mu and after it has checked,
// under the same lock, that the hold has not ended (hold.ended), or if it knows why the hold has ended: only the last
// Unlock takes the tenure out of its hold. Nothing else keeps a reference to a tenure: a round copies what it needs
// when it is filled in.
type tenure struct {
	attempt *attempt
	grant   grant
	caller  callers

	revokers quorum.Set                            // nodes that have told that an administrator has taken the lock
	handles  int                                   // Locks that have not been unlocked
	cause    error                                 // why the hold ended; nil while it may be trusted: see hold.ended
	detail   string                                // how it was lost, for the end of error texts
	done     chan struct{}                         // closed when the hold ends; nil: Done was not called
	contexts map[*context.CancelCauseFunc]struct{} // cancel the contexts that end with the hold
	renewal  renewal
	endings  *ending // a list, until the end; nil: Ending was not called
	wanted   *ending // nil: Wanted was not called
}

// tenures is the pool of those that belong to no hold. Their fields are zero.
var tenures = sync.Pool{New: func() any { return new(tenure) }}

// newHold returns the hold that a grant makes of an attempt.
func newHold(a *attempt, g grant) *hold {
	t := tenures.Get().(*tenure)
	t.attempt, t.grant = a, g
	p := &a.plan
	return &hold{
		locker: a.locker, tenure: t, name: p.name, names: p.names, shared: p.reads(), owner: a.owner, token: a.token,
	}
}

// recycle gives the tenure and its attempt to a later hold. The caller has taken them, and must not use them again.
func (t *tenure) recycle() {
	t.attempt.recycle()
	*t = tenure{} // all fields: the pool must keep nothing alive, and the next hold must find nothing
	tenures.Put(t)
}

func (t *tenure) opts() *options { return t.attempt.plan.opts }

// observed is who is told of the hold.
func (t *tenure) observed() *observation { return t.attempt.plan.observed }

// Name returns the name.
func (h *hold) Name() string { return h.name }

// ended returns why the hold has ended, or nil while it may be trusted. The caller holds mu.
func (h *hold) ended() error {
	if h.tenure == nil {
		return ErrUnlocked
	}
	return h.tenure.cause
}

// IsGone reports whether the hold has ended, and the nodes do not keep it any more. It does not read the clock: see
// check.
func (h *hold) IsGone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state != held && h.state != kept
}

// leased reports whether the hold rests on a lease: an extension makes its time whole.
func (h *hold) leased() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.state == held && h.tenure.grant.leased()
}

// until returns when the hold ends unless it is extended, also after its end. The caller holds mu.
func (h *hold) until() time.Time {
	if h.tenure == nil {
		return time.Unix(0, h.lastEnd)
	}
	return h.tenure.grant.deadline()
}

func (h *hold) has(name string) bool {
	return h.names == nil && name == h.name || h.names != nil && slices.Contains(h.names.List, name)
}

// check ends the hold if its time is up, and returns why it has ended, or nil.
func (h *hold) check() error {
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	return h.ended()
}

// expireAt ends the hold if its time is up at now. The caller holds mu.
func (h *hold) expireAt(now instant) {
	switch {
	case h.state != held || h.tenure.grant.left(now) > 0:
	case !h.tenure.grant.atMaximum(now):
		// What forgotten has said of the reason comes before this.
		h.tenure.detail = cmp.Or(h.tenure.detail, fmt.Sprintf(": its validity ended %s ago", -h.tenure.grant.left(now)))
		h.becomeLost(ErrLost)
	case h.tenure.grant.valid(now) <= 0:
		h.becomeLost(ErrMaxHold)
	default:
		h.becomeKept()
	}
}

// tellWork has what depends on the hold know that it is not held any more: it closes Done, cancels the contexts and
// stops renewal.
func (h *hold) tellWork(cause error) {
	t := h.tenure
	h.finished.Store(true)
	t.cause = cause
	t.renewal.handle = nil
	if t.done != nil {
		close(t.done)
	}
	t.warn(0)
	t.wanted.close()
	for end := range t.contexts {
		(*end)(cause)
	}
	t.contexts = nil
}

// tellObserver tells of an end that is no Unlock, whose outcome is not known yet.
func (h *hold) tellObserver(cause error) {
	if o := h.tenure.observed(); o != nil {
		if errors.Is(cause, ErrLost) {
			cause = h.endedError("hold", cause)
		}
		o.released(h.owner, h.token, h.tenure.grant.since, cause)
	}
}

// becomeKept ends the hold at its maximum and leaves it on the nodes. The work has just been told and needs a moment to
// stop: released now, the lock would be the next holder's within milliseconds, beside it. The nodes keep the hold until
// the last handle is unlocked, or else until the validity ends by itself, when the schedule wakes it. Nothing extends
// it meanwhile. Its owner still listens: a late grant would be given back while it is to be kept.
func (h *hold) becomeKept() {
	h.become(kept)
	h.tellWork(ErrMaxHold)
	h.tellObserver(ErrMaxHold)
	if !h.locker.schedule.Set(h, h.tenure.grant.validUntil()) {
		h.becomeClosed() // see Abandon
	}
}

// becomeLost ends the hold, and releases what the nodes still have of it, since nothing uses it any more. One that was
// kept has ended before, and with it the cause.
func (h *hold) becomeLost(cause error) {
	if h.become(lost) == held {
		h.tellWork(cause)
		h.tellObserver(cause)
	}
	h.tenure.attempt.release()
	h.locker.schedule.Remove(h) // last: Shutdown may close the connections then
}

// becomeUnlocked ends the hold for a caller that then releases it on the nodes, and waits for them.
func (h *hold) becomeUnlocked() {
	if h.become(unlocked) == held {
		h.tellWork(ErrUnlocked)
	}
	h.tenure.attempt.leaveQueues()
	h.locker.schedule.Remove(h)
}

// becomeClosed ends the hold since the Locker is closed. The nodes keep it for the rest of the TTL: that protects work
// which is still running.
func (h *hold) becomeClosed() {
	if h.become(closed) == held {
		h.tellWork(ErrClosed)
		h.tellObserver(ErrClosed)
	}
	h.tenure.attempt.leaveQueues()
	h.locker.schedule.Remove(h)
}

// becomeHandedOver ends the hold in this process. The nodes keep it, and grants to its owner are for the process that
// adopts it.
func (h *hold) becomeHandedOver() {
	h.become(handedOver)
	l, a, until := h.locker, h.tenure.attempt, h.tenure.grant.deadline()
	if a.member != "" {
		l.listeners.handOver(h.owner, until)
	}
	l.peers.agreement.HandedOver(until)
	a.releaseFormer()
	h.tellWork(errHandedOver)
	h.tellObserver(errHandedOver)
	l.schedule.Remove(h)
}

// becomeDiscarded ends a hold that nobody was given, and of which nobody was told, and undoes it as a failed attempt.
func (h *hold) becomeDiscarded() {
	if h.become(discarded) == held {
		h.tellWork(errDiscarded)
	}
	h.tenure.attempt.undo(h.tenure.attempt.asked)
	h.locker.schedule.Remove(h)
}

var errDiscarded = errors.New("discarded")

// discard gives up a hold that has no handle. It does so even if Close has ended it; one that was lost is released.
func (h *hold) discard() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state == held || h.state == closed {
		h.becomeDiscarded()
	}
}

// askRevoked has the owner's hold ask a node, if there is one already: see begin.
func (l *Locker) askRevoked(node int, owner uuid.UUID) {
	for _, s := range l.schedule.Sleepers() { // there may be many, and many messages
		if h := s.(*hold); h.owner == owner {
			h.askRevoked(node)
		}
	}
}

// askRevoked asks a node, in whose name somebody has said so, whether an administrator has taken the lock from the
// hold. Anybody who may publish can say it.
func (h *hold) askRevoked(node int) {
	l := h.locker
	l.nodes[node].conn.Ask(func(replies []any, err error) {
		if err != nil {
			return
		}
		if _, revoked := replies[0].([]byte); revoked {
			h.revoked(node)
		}
	}, []any{"ZSCORE", l.opts.prefix + revokedName, h.owner.String()})
}

// revoked notes that a node has taken the lock from the owner. Nodes that do so give it nothing more: when enough of
// them have, the hold ends.
func (h *hold) revoked(node int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.state != held {
		return
	}
	if h.tenure.revokers = h.tenure.revokers.With(node); h.locker.electorate.Block(h.tenure.revokers) {
		h.tenure.detail = ": " + protocol.ErrRevoked.Error()
		h.becomeLost(ErrLost)
	}
}

// giveBack takes back one handle; the last one unlocks, also if the hold has ended at its maximum and is kept since.
func (h *hold) giveBack() error {
	l := h.locker
	if l.calls.begin() {
		defer l.calls.end() // so that Close and Shutdown wait for the release, whose hold is not in the schedule any more
	}
	now := l.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	ended := h.ended()
	if h.state == handedOver {
		h.mu.Unlock()
		return nil
	}
	last := h.state == held || h.state == kept
	if last {
		h.tenure.handles--
		last = h.tenure.handles == 0
	}
	if !last {
		h.mu.Unlock()
		if ended != nil {
			return h.endedError("unlock", ended)
		}
		return nil
	}
	t := h.tenure
	r := t.attempt.round(protocol.Release)
	h.becomeUnlocked()
	if ended == nil { // else the tenure stays, and does not change any more
		h.lastEnd, h.tenure = t.grant.deadline().UnixNano(), nil
	}
	h.mu.Unlock()
	err := h.awaitRelease(r, t, now.local)
	if ended != nil {
		return h.endedError("unlock", ended) // what it is to say is that the hold had ended before
	}
	t.observed().released(h.owner, h.token, t.grant.since, err)
	t.recycle()
	return err
}

// awaitRelease sends the round r, which releases the lock, and waits for a majority to confirm it.
func (h *hold) awaitRelease(r *round, t *tenure, now time.Time) error {
	a := t.attempt
	a.releaseFormer()
	defer r.Done()
	r.Expires = now.Add(t.opts().ttl)
	r.send(h.locker.nodes, a.asked, now)
	<-r.wake // after the node timeout at the latest: see round.wait
	votes := r.poll.SoFar()
	if votes.Verdict() == quorum.Won {
		return nil
	}
	return r.failure("unlock", h.name, ErrLost, votes, nil)
}

// extension is an attempt to extend a hold on all nodes.
type extension struct {
	op    string // for errors
	round *round
	begun instant
}

// extend extends the hold, and waits for the outcome.
func (h *hold) extend(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redlock: %s %q: %w", op, h.name, err)
	}
	if err := h.check(); err != nil {
		return h.endedError(op, err)
	}
	x, err := h.sendExtension(op, nil)
	if err != nil {
		return err
	}
	votes, err := x.round.wait(ctx)
	err = h.concludeExtension(x, votes, err)
	x.round.abandon()
	return err
}

var errReaderValue = invalid("readers have no value")

// setValue gives the hold a value, and has the nodes keep it.
func (h *hold) setValue(ctx context.Context, value string) error {
	h.mu.Lock()
	if h.state == held {
		h.tenure.attempt.setValue(value)
	}
	h.mu.Unlock()
	return h.extend(ctx, "set value")
}

// sendExtension sends an extension to all nodes. The schedule runs then when the outcome is certain; if then is nil,
// the caller waits. The extension is sent while mu is held and the hold has not ended, so that it can never follow the
// release and set again the key that this deleted.
func (h *hold) sendExtension(op string, then func(extension)) (extension, error) {
	l := h.locker
	h.mu.Lock()
	defer h.mu.Unlock()
	if ended := h.ended(); ended != nil {
		return extension{}, h.endedError(op, ended)
	}
	now, t, a := l.opts.clock.now(), h.tenure, h.tenure.attempt
	if h.token > 0 && !h.shared && a.value == "" && now.since(t.grant.since) >= l.opts.retention/2 {
		a.setValue("") // it has the token, which the nodes forget otherwise while it is held
	}
	x := extension{op, a.round(protocol.Extend), now}
	x.round.Cancelled = &h.finished
	if then != nil {
		outcome := func() { then(x) }
		x.round.then = func(*round) { l.schedule.Do(outcome) }
	}
	if o := t.observed(); o.detailed() {
		x.round.follower = repairs{o, h, now}
	}
	a.extended = true
	a.send(x.round, x.begun)
	return x, nil
}

// repairs tells an observer which nodes an extension has repaired.
type repairs struct {
	observed *observation
	hold     *hold
	begun    instant
}

func (f repairs) answered(r *round) {
	f.observed.repaired(f.hold.owner, f.hold.token, f.begun, r.voted(quorum.Absent))
}

// concludeExtension applies the votes on an extension. waitErr is the error that ended the wait for them, or nil.
func (h *hold) concludeExtension(x extension, votes quorum.Count, waitErr error) error {
	l := h.locker
	now := l.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	if ended := h.ended(); ended != nil {
		return h.endedError(x.op, ended)
	}
	t := h.tenure
	if votes.Verdict() == quorum.Won {
		if x.begun.since(t.grant.start) > 0 {
			t.grant = t.grant.extended(x.begun)
		}
		t.observed().extended(h.owner, h.token, x.begun, t.grant.deadline(), nil)
		return nil
	}
	failure := x.round.failure(x.op, h.name, ErrLost, votes, waitErr)
	t.observed().extended(h.owner, h.token, x.begun, t.grant.deadline(), failure)
	if failure.refused { // not errors.Is: the cause of ctx may be the loss of another hold
		t.detail = ": a majority of the nodes no longer had it"
		h.becomeLost(ErrLost)
	}
	return failure
}

// endedError returns the error of an operation on a hold that has ended. The caller need not hold mu: only the tenure
// of a lost hold is read, and a lost hold keeps its tenure, which no longer changes.
func (h *hold) endedError(op string, cause error) error {
	e := failed(op, h.name, cause)
	switch {
	case errors.Is(cause, ErrLost):
		e.detail = h.tenure.detail
	case errors.Is(cause, ErrUnlocked):
	default:
		e.reason, e.cause = ErrLost, cause
	}
	return e
}

// answered sees to the queues into which nodes have put a hold that has got the lock without them, when all nodes have
// answered its first request. If all nodes that were asked granted, it is in no queue. Otherwise it leaves the queues
// at its end, as a hold does that was waited for: until then, a node that hands it the lock gives it one more vote.
// That vote must not be returned: an extension may have counted it.
func (h *hold) answered(r *round) {
	l := h.locker
	votes := r.poll.SoFar()
	queued := r.sentTo & (votes.Who(quorum.Taken) | votes.Who(quorum.Failed))
	if queued == 0 {
		l.listeners.forget(h.owner)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	place := protocol.InQueue(h.owner, h.token, r.TTL, l.listeners.channel)
	switch h.state {
	case held, kept:
		h.tenure.attempt.member = place
	case handedOver: // grants are for the process that adopts it
		l.listeners.handOver(h.owner, h.until())
	case closed:
	case unlocked, lost, discarded:
		l.listeners.leave(h.owner)
		l.undoOwner(protocol.Release, l.opts.prefix+h.name, h.owner, place, max(l.opts.ttl, queueLives), queued)
	}
}

// ending is a channel of Lock.Ending, or that of Lock.Wanted, which has no time before the end.
type ending struct {
	before time.Duration
	near   chan struct{}
	closed bool // near is
	next   *ending
}

// endingOf returns the ending of that before, which may be new.
func (t *tenure) endingOf(before time.Duration) *ending {
	before = max(before, 0)
	for e := t.endings; e != nil; e = e.next {
		if e.before == before {
			return e
		}
	}
	t.endings = &ending{before: before, near: make(chan struct{}), next: t.endings}
	return t.endings
}

// close closes the channel, unless it is closed or there is none. The caller holds hold.mu.
func (e *ending) close() {
	if e != nil && !e.closed {
		e.closed = true
		close(e.near)
	}
}

// warn closes the channels that are due when so much is left of the hold. At 0 that is all of them.
func (t *tenure) warn(left time.Duration) {
	for e := t.endings; e != nil; e = e.next {
		if left <= t.ahead(e) {
			e.close()
		}
	}
}

// ahead returns how much is left of the hold when an ending is due. A lease may be shorter than before, and nearly all
// of them are extended at once: so its end is near only if that has failed for a while.
func (t *tenure) ahead(e *ending) time.Duration {
	if t.grant.leased() {
		return min(e.before, t.grant.term/4)
	}
	return e.before
}
