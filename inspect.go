package redlock

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/runs"
)

// Inspection is what the nodes know about a name at one moment, for people and monitoring. It may be out of date.
type Inspection struct {
	Name string
	// Owner is the owner to which a majority of the nodes has given the lock; "": none. It is what [Lock.Owner] returns to
	// the holder, or "readers" if readers hold the lock ([Locker.RLock]): then Readers has their owners, sorted.
	Owner   string
	Label   string // what that owner's client calls itself; "": not known (see [WithOwnerLabel])
	Readers []string
	// ReaderLabels is what the clients of Readers call themselves, in the order of Readers.
	ReaderLabels []string

	Value     string        // what the holder has set: see [WithValue]; "": nothing
	Token     int64         // the owner's fencing token; 0: not known
	Age       time.Duration // since the token was drawn, by the nodes' clocks; 0: not known, as the token
	Remaining time.Duration // for how long a majority keeps the lock, unless it is extended; as a node's
	Waiting   int           // how many waiters the nodes know; all of one process count as one
	Runs      Runs
	Nodes     []NodeInspection

	value  string // the text that has Value
	wanted bool   // a majority of the nodes knows a waiter
}

// NodeInspection is what one node knows about a name.
type NodeInspection struct {
	Addr    string
	Err     error // a [NodeError]: why there is no answer, or why it does not count; nil: it counts
	Owner   string
	Label   string   // of the owner
	Readers []string // 1000 at most; not all if the node's list of readers was deleted
	// ReaderLabels is what the clients of Readers call themselves, in the order of Readers.
	ReaderLabels []string

	Value     string        // of the owner; "": none
	Token     int64         // the owner's; if there is none, the largest that was accepted for the name; 0: not known
	Remaining time.Duration // for how long the node keeps the lock; less than 0: for ever, so it is not a lock
	Waiting   int
	Runs      Runs

	value string // the owner's, as value.lua has it; "": none
}

// stays reports whether the node has what never ends by itself.
func (n NodeInspection) stays() bool { return n.Remaining < 0 }

// Runs is what is known about a name's runs; see [Locker.Once].
type Runs struct {
	Begun int // how many have begun, the last one included
	// Last is the state of the last one: "begun", "done" after a success, "failed" after an error or a panic; "": none has
	// begun, or its entry has ended. One that has begun and whose name has no holder has crashed, or lost its hold.
	Last      string
	Token     int64         // the token of the hold that wrote this last
	Remaining time.Duration // for how long the nodes keep this
}

// runsOf returns what an entry of a register says of runs.
func runsOf(e *runs.Entry) Runs {
	if e.Runs == 0 {
		return Runs{}
	}
	return Runs{e.Runs, e.State, e.Token, e.Left}
}

// Inspect asks every node once which owner holds the lock of the name and what is known about its runs. It takes and
// changes nothing. It returns when all have answered, at the latest after the node timeout or when ctx is done. If too
// few do, the error is a [*QuorumError] that satisfies errors.Is for [ErrNoQuorum], beside what the others say.
func (l *core) Inspect(ctx context.Context, name string) (Inspection, error) {
	key, err := l.heldKey(name)
	if err == nil {
		err = l.ended(ctx)
	}
	if err != nil {
		return Inspection{Name: name}, failed("inspect", name, err)
	}
	return l.look(ctx, "inspect", name, key, "")
}

// look asks every node once. channel: see quorumRead.
func (l *core) look(ctx context.Context, op, name, key, channel string) (Inspection, error) {
	all, err := l.quorumRead(ctx, op, name, key, channel, 0)
	i := Inspection{Name: name}
	for n, s := range all {
		i.Nodes = append(i.Nodes, s.inspection(l.nodes[n].addr()))
	}
	i.conclude(l.electorate)
	if i.Token > 0 {
		i.Age = time.Duration(max(l.tokens.time(l.opts.clock.now())-i.Token, 1)) * time.Microsecond
	}
	if err == nil {
		r := readings(all)
		i.Runs = runsOf(&r.Entry)
	}
	return i, err
}

// Watch looks at a name again and again: the first pair is what [Inspector.Inspect] finds, and each further one differs
// from the one before it in the owner, the token, the value, the readers, the runs, or in whether somebody waits. It
// takes no lock. It learns at once who takes, releases, is handed or begins to want the lock, of a new value and of
// ForceUnlock; of a holder that has died at the end of its TTL; of anything else, such as the beginning of a run or a
// lock [WithoutFencing], within ten seconds. Where the nodes cannot notify it, it looks every second. What happens
// between two looks may be missed.
//
// If too few nodes answer, one pair has a [*QuorumError] that satisfies errors.Is for [ErrNoQuorum], and what the rest
// says; the watch goes on, and the next pair comes when enough of them answer. It ends without a pair when ctx is done,
// and after other errors: [ErrInvalid] for a name that cannot be one, [ErrClosed]. A loop that takes its time misses
// what happens meanwhile, and gets the latest state next.
//
// While somebody watches any name, and until 15 s later, locks cost the nodes a little more.
func (l *core) Watch(ctx context.Context, name string) iter.Seq2[Inspection, error] {
	return func(yield func(Inspection, error) bool) {
		key, err := l.heldKey(name)
		if err != nil {
			yield(Inspection{Name: name}, failed("watch", name, err))
			return
		}
		l.listeners.listen(l.ctx) //nolint:contextcheck // until Close, not until the caller leaves
		heard, end := l.listeners.watch(key)
		defer end()
		var last *Inspection // nil: too few nodes have answered
		for first := true; ; first = false {
			heard.told.Store(0)
			_, heard.accepts = l.hears()
			i, err := l.look(ctx, "watch", name, key, l.listeners.channel)
			looked := l.opts.clock.now()
			switch ended := l.ended(ctx); {
			case ctx.Err() != nil:
				return
			case ended != nil:
				yield(i, failed("watch", name, ended))
				return
			case err == nil && last != nil && last.supersedes(&i):
				last.Remaining, last.Nodes = i.Remaining, i.Nodes
			case err != nil && last == nil && !first: // told before
			default:
				if !yield(i, err) {
					return
				}
				if last = &i; err != nil {
					last = nil
				}
			}
			l.awaitChange(ctx, heard, last, looked)
		}
	}
}

// Wanted returns a channel that is closed when somebody else waits for the lock, so that a long holder can give way,
// and with Done. Who waits in the same Locker is somebody, too; for a reader, a writer is; for a permit, who waits in
// its slot's queue; for several names, who waits for any.
//
// It is closed as soon as a majority of the nodes has told of a waiter, or within a second where they cannot notify
// this client ([Inspector.Watch]). From the call to the end of the hold it costs the nodes what Watch does, and nothing
// before: call it if you would give way. In an election, candidates wait always.
func (k *Lock) Wanted() <-chan struct{} {
	h := k.hold
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(h.locker.opts.clock.now())
	t := h.tenure
	if h.state != held {
		return closedDone
	}
	if t.wanted == nil {
		t.wanted = &ending{near: make(chan struct{})}
		names := []string{h.name}
		if h.names != nil {
			names = h.names.List
		}
		go h.awaitWaiter(t.wanted, names)
	}
	return t.wanted.near
}

// awaitWaiter closes the channel of Lock.Wanted when somebody waits for one of the names.
func (h *hold) awaitWaiter(e *ending, names []string) {
	ctx, end := h.context(h.locker.ctx)
	for _, name := range names {
		go func() {
			defer end() // also of the others
			for i, err := range h.locker.Watch(ctx, name) {
				if err == nil && i.wanted {
					h.mu.Lock()
					defer h.mu.Unlock()
					e.close()
					return
				}
			}
		}()
	}
}

// supersedes reports whether later has nothing new. A value that no majority has confirmed may be missing in it.
func (i *Inspection) supersedes(later *Inspection) bool {
	return i.Owner == later.Owner && i.Token == later.Token && i.wanted == later.wanted &&
		(i.Value == later.Value || i.value > later.value) &&
		slices.Equal(i.Readers, later.Readers) &&
		i.Runs.Begun == later.Runs.Begun && i.Runs.Last == later.Runs.Last && i.Runs.Token == later.Runs.Token
}

// lookAfter is after how long a watch looks again if it hears of nothing, though a majority of the nodes could tell it.
// It must be less than the 15 s for which they do. unheard is the same where they could not. gather is how long it
// waits for the rest of a majority to tell of a change that one node has told of.
const (
	lookAfter = 10 * time.Second
	unheard   = time.Second
	gather    = 5 * time.Millisecond
)

// awaitChange returns when it is time to look again: when a majority of the nodes has told of a change, when the lock
// that was found last may have ended by itself, and else a while after the last look, which the nodes count from, too.
func (l *core) awaitChange(ctx context.Context, heard *look, last *Inspection, looked instant) {
	most := last.lasts()
	timer := time.NewTimer(min(most-l.opts.clock.now().since(looked), unheard-chance.Duration(unheard/4)))
	defer timer.Stop()
	for told := false; ; {
		select {
		case <-heard.wake:
			if l.electorate.Suffice(quorum.Set(heard.told.Load())) {
				return
			}
			if !told {
				told = true
				timer.Reset(gather)
			}
		case <-timer.C:
			left := most - l.opts.clock.now().since(looked)
			if hears, accepts := l.hears(); told || left <= 0 || !hears || accepts != heard.accepts {
				return
			}
			timer.Reset(min(left, unheard))
		case <-ctx.Done():
			return
		case <-l.ctx.Done():
			return
		}
	}
}

// lasts is for how long, at most, what was found needs no other look.
func (i *Inspection) lasts() time.Duration {
	most := lookAfter - chance.Duration(lookAfter/4) // not all at one moment
	switch {
	case i == nil:
		return unheard
	case i.Owner != "" && (i.Remaining > 0 || !slices.ContainsFunc(i.Nodes, NodeInspection.stays)):
		return max(gather, min(most, i.Remaining+time.Millisecond))
	default:
		return most
	}
}

// hears reports whether a majority of the nodes could tell of a change, and how often nodes began to.
func (l *core) hears() (majority bool, began int64) {
	hearing := quorum.Set(0)
	for i, n := range l.nodes {
		hears, accepts := n.conn.Hears()
		if began += accepts; hears {
			hearing = hearing.With(i)
		}
	}
	return l.electorate.Suffice(hearing), began
}

// Check returns nil if at some moment of the call a majority of the nodes had given the lock of the name to the hold
// with this token: for a service that is sent a token and cannot store the largest seen. It is weaker than that: when
// the caller acts upon it, the hold may have ended, and another may have begun. The hold needs a value ([WithValue]),
// beside which the nodes keep the token; without one, the largest token that they know may be an earlier holder's.
//
// It asks the nodes twice, and returns within two node timeouts. The error satisfies errors.Is for [ErrLost] if they do
// not show such a hold (any more), [ErrNoQuorum] if too few answer, [ErrInvalid] if the name or token cannot be one.
func (l *core) Check(ctx context.Context, name string, token int64) error {
	key, err := l.heldKey(name)
	if err == nil && token <= 0 {
		err = invalid("the token %d: want what Lock.Token returns", token)
	}
	if err == nil {
		err = l.ended(ctx)
	}
	if err != nil {
		return failed("check", name, err)
	}
	// A node that has the hold in both answers had it all the time between them, and so all of these had it at one moment.
	has, silent := l.electorate.All, quorum.Set(0)
	for range 2 {
		all, err := l.quorumRead(ctx, "check", name, key, "", 0)
		if err != nil {
			return err
		}
		for at, s := range all {
			switch {
			case s.failed != nil:
				silent = silent.With(at)
			case s.Value == "" || s.Held != token:
				has &^= quorum.Set(0).With(at)
			}
		}
	}
	switch {
	case l.electorate.MayHold(has &^ silent):
		return nil
	case l.electorate.MayHold(has):
		return failed("check", name, ErrNoQuorum)
	}
	return failed("check", name, ErrLost)
}

// conclude fills in what a majority agrees on, of one list if there are two: another client may have that one alone.
func (i *Inspection) conclude(e *quorum.Electorate) {
	had, readers := make(map[string]quorum.Set), make(map[string]quorum.Set)
	labels := make(map[string]string) // by owner
	waited := quorum.Set(0)           // one may have the holder itself in its queue, if it gave the hold late
	for at, n := range i.Nodes {
		if n.Err != nil {
			continue
		}
		if i.Waiting = max(i.Waiting, n.Waiting); n.Waiting > 0 {
			waited = waited.With(at)
		}
		for r, owner := range n.Readers {
			labels[owner] = cmp.Or(labels[owner], n.ReaderLabels[r])
			readers[owner] = readers[owner].With(at)
		}
		if n.Owner != "" {
			labels[n.Owner] = cmp.Or(labels[n.Owner], n.Label)
			had[n.Owner] = had[n.Owner].With(at)
		}
	}
	i.wanted = e.MayHold(waited)
	for owner, nodes := range readers {
		if e.MayHold(nodes) {
			i.Readers = append(i.Readers, owner)
		}
	}
	slices.Sort(i.Readers)
	for _, owner := range i.Readers {
		i.ReaderLabels = append(i.ReaderLabels, labels[owner])
	}
	for owner, nodes := range had {
		// Each of two owners can have a majority of one list: the one that waits for the votes of the other has fewer.
		if e.MayHold(nodes) && (i.Owner == "" || cmp.Or(cmp.Compare(nodes.Size(), had[i.Owner].Size()),
			cmp.Compare(i.Owner, owner)) > 0) {
			i.Owner, i.Label = owner, labels[owner]
		}
	}
	if i.Owner != "" {
		i.Remaining, i.Token = i.held(e, had[i.Owner])
		i.Value = protocol.ValueIn(i.value)
	}
}

// held returns for how long a majority of a list, of these nodes, keeps the lock, and what token it has; it sets value.
func (i *Inspection) held(e *quorum.Electorate, nodes quorum.Set) (remaining time.Duration, token int64) {
	keeps, by := make([]time.Duration, len(i.Nodes)), make(map[int64]quorum.Set)
	for at, n := range i.Nodes {
		if keeps[at] = quorum.NoReply; !nodes.Has(at) {
			continue
		}
		keeps[at], by[n.Token] = n.Remaining, by[n.Token].With(at)
		if n.stays() {
			keeps[at] = math.MaxInt64
		}
		if e.MayHold(by[n.Token]) {
			token = max(token, n.Token)
		}
		i.value = max(i.value, n.value)
	}
	if remaining = e.KeptFor(keeps); remaining == math.MaxInt64 {
		remaining = protocol.Left(-1)
	}
	return remaining, token
}

// nodeState is one node's answer about a name.
type nodeState struct {
	protocol.State
	said   bool       // the node has answered the state
	failed *NodeError // why the answer does not count, or nil
}

func (s *nodeState) inspection(addr string) NodeInspection {
	n := NodeInspection{
		Addr: addr, Owner: s.Owner, Label: s.Label, Readers: s.Readers, ReaderLabels: s.Labels,
		Token: s.Held, Remaining: s.Left, Waiting: s.Waiting,
		Runs: runsOf(&s.Entry), Value: protocol.ValueIn(s.Value), value: s.Value,
	}
	if s.failed != nil {
		n.Err = *s.failed
	}
	return n
}

// readings sums up the registers of the nodes that count, and notes which of the other nodes lack it.
func readings(all []nodeState) runs.Reading {
	entries := make([]*runs.Entry, len(all))
	for i := range all {
		if all[i].failed == nil {
			entries[i] = &all[i].Entry
		}
	}
	r := runs.Latest(entries)
	for i := range all {
		if s := &all[i]; s.said && s.failed != nil && s.Entry.Text < r.Text {
			r.Lack = r.Lack.With(i)
		}
	}
	return r
}

var errNoPromise = errors.New("does not know our token, so it may still accept what an earlier holder sends")

// quorumRead asks every node about a name and waits for all, for the node timeout at most. They tell the channel of
// changes, unless it is "". Only nodes count that know a token of at least least; the error says that too few do.
func (l *core) quorumRead(ctx context.Context, op, name, key, channel string, least int64) ([]nodeState, error) {
	r := l.rounds.Get().(*round)
	r.About(protocol.Inspect, key)
	r.Channel = channel
	r.poll.Everyone = true
	r.send(l.nodes, l.electorate.All, l.opts.clock.local())
	votes, ended := r.wait(ctx)
	defer r.abandon()
	all := make([]nodeState, len(l.nodes))
	failure := &QuorumError{Op: op, Name: name, reason: ErrNoQuorum}
	var counts quorum.Set
	for i, n := range l.nodes {
		part := NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: outcomeFailed} // if it is silent
		if votes.Voted(i) {
			a := votes.Answer(i)
			all[i].State, all[i].said = a.Reply.(protocol.State)
			part.Outcome = outcomes[a.Vote]
			part.because(a.Err)
		}
		if part.Outcome == outcomeGranted && all[i].Token < least {
			part.Outcome, part.Err = outcomeAbstained, errNoPromise
		}
		if part.Outcome == outcomeGranted {
			part.Outcome, counts = outcomeAnswered, counts.With(i)
		} else {
			all[i].failed = &part
		}
		failure.Nodes = append(failure.Nodes, part)
	}
	if failure.measure(l.electorate, counts); l.electorate.Suffice(counts) {
		return all, nil
	}
	if ended != nil {
		failure.ctx = endOf(ctx, ended)
	}
	return all, failure
}
