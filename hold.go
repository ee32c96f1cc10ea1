package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/quorum"
)

// hold is one acquisition, from grant to release or loss. Several handles may share it. Renewal refers to the hold and
// not to a handle, so that the garbage collector can find a forgotten handle. Handles may outlive the hold: see tenure.
type hold struct {
	locker *Locker
	name   string
	names  *names // nil: one lock
	shared bool   // with other readers
	owner  uuid.UUID
	token  int64

	finished  atomic.Bool // set at the beginning of finish, for code that must not wait for mu
	scheduled int32       // see Position

	mu      sync.Mutex // guards the fields below and those of the tenure
	tenure  *tenure    // nil: the hold was unlocked, and its tenure may belong to another hold
	lastEnd int64      // set if tenure is nil: when the hold would have ended without Unlock, in ns since 1970
}

// String returns the name.
func (h *hold) String() string { return h.name }

// ended returns why the hold has ended, or nil while it may be trusted. The caller holds mu.
func (h *hold) ended() error {
	if h.tenure == nil {
		return ErrUnlocked
	}
	return h.tenure.cause
}

// IsGone reports whether finish has ended the hold, and the nodes do not keep it any more. It does not read the clock:
// see check.
func (h *hold) IsGone() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended() != nil && !h.isKept()
}

// isKept reports whether the hold has ended at its maximum and the nodes keep it nevertheless. The caller holds mu.
func (h *hold) isKept() bool { return h.tenure != nil && h.tenure.kept }

// leased reports whether the hold rests on a lease: an extension makes its time whole.
func (h *hold) leased() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.ended() == nil && h.tenure.term < h.tenure.want.opts.ttl
}

// until returns when the hold ends unless it is extended, also after its end. The caller holds mu.
func (h *hold) until() time.Time {
	if h.tenure == nil {
		return time.Unix(0, h.lastEnd)
	}
	return h.tenure.deadline()
}

// covers reports whether the hold has some of the requested names, and whether it has all of them.
func (h *hold) covers(want *acquisition) (some, all bool) {
	if want.names == nil {
		has := h.has(want.name)
		return has, has
	}
	all = true
	for _, name := range want.names.list {
		has := h.has(name)
		some, all = some || has, all && has
	}
	return some, all
}

func (h *hold) has(name string) bool {
	return h.names == nil && name == h.name || h.names != nil && slices.Contains(h.names.list, name)
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
	case h.ended() != nil || h.tenure.left(now) > 0:
	case !h.tenure.atMaximum(now):
		// What forgotten has said of the reason comes before this.
		h.tenure.detail = cmp.Or(h.tenure.detail, fmt.Sprintf(": its validity ended %s ago", -h.tenure.left(now)))
		h.finish(ErrLost, true)
	case h.tenure.valid(now) <= 0:
		h.finish(ErrMaxHold, true)
	default:
		h.keep()
	}
}

// keep ends the hold at its maximum and leaves it on the nodes. The work has just been told and needs a moment to stop:
// released now, the lock would be the next holder's within milliseconds, beside it. The nodes keep the hold until the
// last handle is unlocked, or else until the validity ends by itself. Nothing extends it meanwhile. The caller holds
// mu.
func (h *hold) keep() {
	h.tenure.kept = true
	h.finish(ErrMaxHold, false)
	if !h.locker.schedule.Set(h, h.tenure.validUntil()) {
		h.unkeep() // the Locker is being closed: see Abandon
	}
}

// unkeep ends what keep began, for a caller that then releases the hold. It reports false if that has happened before.
// The caller holds mu.
func (h *hold) unkeep() bool {
	if !h.isKept() {
		return false
	}
	h.tenure.kept = false
	h.locker.schedule.Remove(h)
	if h.tenure.member != noMember {
		h.locker.listeners.leave(h.owner)
	}
	return true
}

// askRevoked has the owner's hold ask a node, if there is one already: see watch.
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
	if h.ended() != nil {
		return
	}
	if h.tenure.revokers = h.tenure.revokers.With(node); h.locker.electorate.Block(h.tenure.revokers) {
		h.tenure.detail = ": " + errRevoked.Error()
		h.finish(ErrLost, true)
	}
}

// finish ends the hold: it closes Done, cancels the contexts and stops renewal. With releaseNodes it also releases what
// the nodes still keep, since nothing uses it any more. releaseNodes is false in four cases: Unlock sends the release
// itself; after Close, the nodes protect work that is still running for the rest of the TTL; after Ticket, they keep
// the lock for the process that adopts it; at the maximum, see keep. The caller holds mu. Called once.
func (h *hold) finish(cause error, releaseNodes bool) {
	h.finished.Store(true)
	h.tenure.cause = cause
	h.tenure.renewal.handle = nil
	if h.tenure.done != nil {
		close(h.tenure.done)
	}
	h.tenure.warn(0)
	for end := range h.tenure.contexts {
		(*end)(cause)
	}
	h.tenure.contexts = nil
	observed := h.tenure.want.observed
	if observed != nil && cause != ErrUnlocked { //nolint:errorlint // else leave reports the outcome when it is known
		err := cause
		if errors.Is(cause, ErrLost) {
			err = h.endedError("hold", cause)
		}
		observed.released(h.owner, h.token, h.tenure.since, err)
	}
	if h.tenure.member != noMember && !h.tenure.kept { // else a late grant would be given back while it is to be kept
		h.locker.listeners.leave(h.owner)
	}
	if releaseNodes {
		h.locker.undo(h, h.tenure.asked)
	}
	if !h.tenure.kept {
		h.locker.schedule.Remove(h) // last: Shutdown may close the connections then
	}
}

// leave gives back one handle; the last one unlocks, also if the hold has ended at its maximum and is kept since.
func (h *hold) leave() error {
	l := h.locker
	if l.calls.begin() {
		defer l.calls.end() // so that Close and Shutdown wait for the release, whose hold is not in the schedule any more
	}
	now := l.opts.clock.now()
	h.mu.Lock()
	h.expireAt(now)
	ended := h.ended()
	if ended != nil && !h.isKept() {
		h.mu.Unlock()
		if errors.Is(ended, errHandedOver) {
			return nil
		}
		return h.endedError("unlock", ended)
	}
	if h.tenure.handles--; h.tenure.handles > 0 {
		h.mu.Unlock()
		if ended != nil {
			return h.endedError("unlock", ended)
		}
		return nil
	}
	r := l.askFor(release, h)
	if ended != nil {
		h.unkeep()
		t := h.tenure // which stays, and does not change any more
		h.mu.Unlock()
		_ = h.release(r, t, now.local) // what it is to say is that the hold had ended before
		return h.endedError("unlock", ended)
	}
	t := h.take()
	h.mu.Unlock()
	err := h.release(r, t, now.local)
	if t.want.observed != nil {
		t.want.observed.released(h.owner, h.token, t.since, err)
	}
	t.recycle()
	return err
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
	if h.ended() == nil {
		h.tenure.setValue(h, value)
	}
	h.mu.Unlock()
	return h.extend(ctx, "set value")
}

// confirm extends a hold that has no handle yet, and returns the round to continue with. All rounds of a call that asks
// once have one node timeout together.
func (h *hold) confirm(ctx context.Context) (*round, quorum.Count, error) {
	l, t, begun := h.locker, h.tenure, h.tenure.start
	if t.want.waits {
		begun = l.opts.clock.now()
	}
	r := l.askFor(extend, h)
	t.extended = true
	t.asked |= r.send(l.nodes, l.electorate.All, begun.local)
	votes, err := r.wait(ctx)
	if votes.Verdict() == quorum.Won {
		t.start, t.term = begun, t.want.opts.ttl
	}
	return r, votes, err
}

// setValue sets what the next extensions carry. The caller holds mu.
func (t *tenure) setValue(h *hold, value string) {
	t.values++
	t.value = fmt.Sprintf("%s %016d %016d %s", h.owner, h.token, t.values, value)
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
	now := l.opts.clock.now()
	if h.token > 0 && !h.shared && h.tenure.value == "" && now.since(h.tenure.since) >= l.opts.retention/2 {
		h.tenure.setValue(h, "") // it has the token, which the nodes forget otherwise while it is held
	}
	r := l.askFor(extend, h)
	x := extension{op, r, now}
	r.cancelled = &h.finished
	if then != nil {
		outcome := func() { then(x) }
		r.then = func(*round) { l.schedule.Do(outcome) }
	}
	if observed := h.tenure.want.observed; observed.detailed() {
		r.onDone = func(*round) { observed.repaired(h.owner, h.token, x.begun, r.voted(quorum.Absent)) }
	}
	h.tenure.extended = true
	h.tenure.asked |= r.send(l.nodes, l.electorate.All, x.begun.local)
	return x, nil
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
	if votes.Verdict() == quorum.Won {
		if x.begun.since(h.tenure.start) > 0 {
			h.tenure.start, h.tenure.term = x.begun, h.tenure.want.opts.ttl
		}
		h.tenure.want.observed.extended(h.owner, h.token, x.begun, h.tenure.deadline(), nil)
		return nil
	}
	failure := x.round.failure(x.op, h.name, ErrLost, votes, waitErr)
	h.tenure.want.observed.extended(h.owner, h.token, x.begun, h.tenure.deadline(), failure)
	if failure.refused { // not errors.Is: the cause of ctx may be the loss of another hold
		h.tenure.detail = ": a majority of the nodes no longer had it"
		h.finish(ErrLost, true)
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

// tenure is the part of a hold that matters only until its end. A program may keep a handle long after its hold has
// ended, so what the handle's methods then need is in the hold, which is small and never reused. The rest, four fifths
// of the memory, is the tenure, which passes from an unlocked hold to a later one.
//
// The rule of access: while a hold is being acquired, its tenure belongs to the goroutine that acquires it. Once the
// hold is shared, code may use the tenure only while it holds hold.mu and after it has checked, under the same lock,
// that the hold has not ended (hold.ended), or if it knows why the hold has ended: only the last Unlock takes the
// tenure out of its hold. Nothing else keeps a reference to a tenure: a round copies what it needs when it is filled
// in.
type tenure struct {
	want   acquisition
	since  instant // when the acquisition began
	member any     // string: this hold's member of the nodes' queues, or noMember
	caller callers
	former uuid.UUID // the owner that Adopt replaced: a concurrent Adopt that failed may have restored it on some nodes

	value    string                                // what extensions leave on the nodes beside the lock; "": nothing
	values   int                                   // how many values it has had
	revokers quorum.Set                            // nodes that have told that an administrator has taken the lock
	start    instant                               // when the request on which the validity rests was begun
	term     time.Duration                         // for how long the nodes keep it then: the TTL, or a lease
	asked    quorum.Set                            // the nodes that may have the key
	extended bool                                  // an extension was sent, and may arrive late
	handles  int                                   // Locks that have not been unlocked
	cause    error                                 // why the hold ended; nil while it may be trusted: see hold.ended
	kept     bool                                  // it has ended, and the nodes keep it: see hold.keep
	detail   string                                // how it was lost, for the end of error texts
	done     chan struct{}                         // closed when the hold ends; nil: Done was not called
	contexts map[*context.CancelCauseFunc]struct{} // cancel the contexts that end with the hold
	renewal  renewal
	endings  *ending // a list, until the end; nil: Ending was not called
}

// acquisition is what a call wants to acquire, and how. It is passed by value: else each Lock would allocate one.
type acquisition struct {
	op     string // for errors
	name   string
	key    string
	names  *names // instead of key; nil: one lock
	shared bool   // with other readers: askFor chooses the commands accordingly
	from   any    // string: the owner to take over from; nil: the lock must be free

	opts     *options
	observed *observation   // nil: there is no observer, or the hold is a step of LockAll
	waits    bool           // the call may wait for the lock
	joins    bool           // a hold that the context carries may be joined
	head     *verdictAtHead // gets what a wait finds, for the other callers of this process; nil: nobody would see it

	// Of an attempt.
	queues     bool     // nodes that refuse it put it into their queues: see waiter.go
	breaksTies bool     // the caller does not wait: it may ask again to break a tie
	admitted   bool     // has a turn to ask: see admit
	begun      *instant // when the node timeout began, if before the attempt; nil: it begins with the attempt
	breaks     int      // how many attempts have failed within it because connections broke
	waitsSince int64    // when the wait for it began, in µs of the nodes' time; 0: it begins now
}

func (want *acquisition) hasValue() bool { return want.opts.value != "" && !want.shared }

// verdictAtHead is the last verdict of the callers in a local queue, mostly that of the one at the head.
type verdictAtHead = atomic.Pointer[verdict]

// found tells the other callers how the last request failed, or with nil that it did not. If it came to no verdict,
// they go by the one before.
func (want *acquisition) found(err error) {
	if want.head == nil {
		return
	}
	v := &verdict{at: want.opts.clock.local()}
	if err != nil && (!errors.As(err, &v.failure) || v.failure.late) {
		return
	}
	want.head.Store(v)
}

// fresh returns the verdict at the head if it is not too old to go by, or nil.
func (want *acquisition) fresh(head *verdictAtHead) *verdict {
	if head == nil {
		return nil
	}
	v := head.Load()
	if v == nil || want.opts.clock.local().Sub(v.at) > queueLives || v.failure == nil && want.shared {
		return nil // that a caller has got the lock keeps no reader away
	}
	return v
}

// tenures is the pool of those that belong to no hold. Their fields are zero.
var tenures = sync.Pool{New: func() any { return new(tenure) }}

// newHold begins an attempt: it reads the clock, draws an owner and proposes a token. since is when the caller began to
// wait, in µs of the nodes' time, which the owner tells the nodes; 0: now.
func (l *Locker) newHold(want *acquisition, since int64) *hold {
	now := l.opts.clock.now()
	t := tenures.Get().(*tenure)
	t.want, t.member = *want, noMember
	t.since, t.start, t.term = now, now, want.opts.ttl
	if want.begun != nil {
		t.start = *want.begun
	}
	h := &hold{locker: l, tenure: t, name: want.name, names: want.names, shared: want.shared}
	h.owner = l.peers.agreement.Label.Owner(cmp.Or(since, l.tokens.time(now)), want.opts.fencing)
	if want.opts.fencing {
		l.peers.trim(now)
		if !l.peers.proposed.Load() { // a store each time would have all processors wait for it
			l.peers.proposed.Store(true)
		}
		h.token = l.tokens.propose(now)
	}
	return h
}

// take ends the hold by Unlock and takes its tenure out of it. The caller is then the only user of the tenure: finish
// has removed the hold from the schedule, the contexts and the listeners, and all other code comes by hold.mu. The
// caller holds mu, and the hold has not ended.
func (h *hold) take() *tenure {
	h.finish(ErrUnlocked, false)
	h.lastEnd = h.tenure.deadline().UnixNano()
	t := h.tenure
	h.tenure = nil
	return t
}

// recycle gives the tenure to a later hold. The caller has taken it, and must not use it again.
func (t *tenure) recycle() {
	*t = tenure{} // all fields: the pool must keep nothing alive, and the next hold must find nothing
	tenures.Put(t)
}

// left returns for how long the hold may still be trusted; zero or less: its time is up.
func (t *tenure) left(now instant) time.Duration {
	left := t.valid(now)
	if t.want.opts.maxHold > 0 {
		left = min(left, t.want.opts.maxHold-now.since(t.since))
	}
	return left
}

// valid returns how much is left of the validity, which the maximum hold does not bound.
func (t *tenure) valid(now instant) time.Duration {
	return t.want.opts.drift.validity(t.term, now.since(t.start))
}

// validUntil returns when the validity ends.
func (t *tenure) validUntil() time.Time {
	return t.start.local.Add(t.want.opts.drift.validity(t.term, 0))
}

// atMaximum reports whether the hold has reached the maximum.
func (t *tenure) atMaximum(now instant) bool {
	return t.want.opts.maxHold > 0 && now.since(t.since) >= t.want.opts.maxHold
}

// deadline returns when the hold ends unless it is extended.
func (t *tenure) deadline() time.Time {
	end := t.validUntil()
	if t.want.opts.maxHold > 0 {
		if limit := t.since.local.Add(t.want.opts.maxHold); limit.Before(end) {
			end = limit
		}
	}
	return end
}

// ending is a channel of Lock.Ending.
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

// warn closes the channels that are due when so much is left of the hold. At 0 that is all of them.
func (t *tenure) warn(left time.Duration) {
	for e := t.endings; e != nil; e = e.next {
		if !e.closed && left <= t.ahead(e) {
			e.closed = true
			close(e.near)
		}
	}
}

// ahead returns how much is left of the hold when an ending is due. A lease may be shorter than before, and nearly all
// of them are extended at once: so its end is near only if that has failed for a while.
func (t *tenure) ahead(e *ending) time.Duration {
	if t.term < t.want.opts.ttl {
		return min(e.before, t.term/4)
	}
	return e.before
}

// askFor returns a round that is filled in with the command k for a hold.
func (l *Locker) askFor(k *command, h *hold) *round {
	if h.shared {
		k = k.reader
	}
	r := l.rounds.Get().(*round)
	if h.names != nil {
		r.setAll(k, h.names, h.owner, h.token)
	} else {
		r.set(k, h.tenure.want.key, h.owner, h.token)
	}
	r.args[1], r.args[3] = h.tenure.want.opts.ttlArg, h.tenure.want.from
	switch k {
	case extend:
		if r.args[3] = noValue; h.tenure.value != "" {
			r.args[3] = h.tenure.value
		}
	case release:
		r.args[1], r.args[2] = h.tenure.member, noToken
		switch {
		case !h.tenure.extended:
		case h.token == 0:
			r.args[2] = untold
		default:
			// An extension that was sent on an earlier connection, now broken, may arrive after this release. The larger token
			// makes the node refuse it. Half a step is above our token and below that of every other hold, so no other hold
			// needs a second round.
			r.args[2] = strconv.FormatInt(h.token, 10) + ".5"
		}
	case stopReading:
		r.args[1] = h.tenure.member
	case read:
		r.args[2] = h.tenure.member
	case enqueue:
		r.args[3] = h.tenure.member
	case revert:
		r.args[1] = h.tenure.want.from
	case acquire:
		r.args[3] = noMember
	case acquireOrQueue:
		r.args[3] = l.listeners.channelArg
	}
	if k.form != nil {
		r.Native = k.form(&r.request, r.Native[:0])
	}
	return r
}

// askToAcquire returns a round that is filled in with the command that acquires the hold.
func (l *Locker) askToAcquire(h *hold) *round {
	switch {
	case h.tenure.want.from != nil:
		return l.askFor(adopt, h)
	case h.names != nil:
		return l.askFor(acquireAll, h)
	case h.tenure.want.queues:
		return l.askFor(acquireOrQueue, h)
	case h.tenure.want.opts.fencing:
		return l.askFor(acquire, h)
	default:
		return l.askFor(acquirePlain, h)
	}
}
