package redlock

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/quorumlock/redlock/internal/quorum"
)

// takeTurn waits for the caller's turn, or returns why the wait ended before it came. The caller must release a turn
// that it got. observed, which may be nil, is told if the turn does not come at once.
func (l *Locker) takeTurn(ctx context.Context, turn *semaphore.Weighted, observed *observation) error {
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
// for the nodes. If it waited, the node timeout and the validity, too, count from before that: began, which is nil if
// the call begins here. A caller that asks once is refused at once if its turn would come too
// late, as far as the last turns have shown: to wait for that would take the processor from those that are served, as
// to ask in vain does. The caller must call endTurn if it is admitted.
func (l *Locker) admit(ctx context.Context, p *plan) (began *instant, admitted bool) {
	began = p.began
	asking := l.turns.calls.Add(1)
	if l.turns.TryAcquire(1) {
		return began, true
	}
	if l.turns.calls.Load() > maxAsking { // else a turn is about to be free
		asking = max(asking, maxAsking+1) // one that came later was faster
	}
	took, longest := time.Duration(l.turns.took.Load()), l.opts.nodeTimeout/2
	if p.waits || took > 0 && took*time.Duration((asking-1)/maxAsking) <= longest || asking <= maxAsking {
		if began == nil {
			now := l.opts.clock.now()
			began = &now
		}
		bounded, cancel := context.WithDeadline(ctx, began.local.Add(longest))
		defer cancel()
		admitted = l.takeTurn(bounded, l.turns.Weighted, nil) == nil
	}
	if !admitted {
		l.turns.calls.Add(-1)
	}
	return began, admitted
}

// turnBegins returns the time if at least half of the turns are taken.
func (l *Locker) turnBegins() (now instant) {
	if l.turns.calls.Load() > maxAsking/2 {
		now = l.opts.clock.now()
	}
	return now
}

func (l *Locker) endTurn(begun instant) {
	if begun != (instant{}) {
		l.turns.took.Store(int64(max(1, l.opts.clock.now().since(begun))))
	}
	l.turns.calls.Add(-1)
	l.turns.Release(1)
}

// notAsked returns the error of a call that asked no node, because too many others of this process were ahead. ended is
// what ended the caller's wait, or nil.
func (l *Locker) notAsked(op, name string, ended error) *QuorumError {
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

// noMajorityEvery is how often a call fails for lack of a majority that is connected, unless the node timeout is short.
const noMajorityEvery = 250 * time.Millisecond

// awaitMajority holds a caller that tries again at once while no majority is connected, since all that it could do is
// fail: until there is a majority, or for noMajorityEvery since the last call that found none, but for half of the node
// timeout at most. It returns at once, and nil, if there was no such call; otherwise, when the caller came.
func (l *Locker) awaitMajority(ctx context.Context) *instant {
	now := l.opts.clock.now()
	last := time.Duration(l.noMajority.Load())
	defer func() { l.noMajority.Store(int64(l.opts.clock.local().Sub(l.opened))) }()
	rest := min(l.opened.Add(last).Add(noMajorityEvery).Sub(now.local), l.opts.nodeTimeout/2)
	if last == 0 || rest <= 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, rest)
	defer cancel()
	for {
		changed := l.peers.states.next() // before the majority is looked for
		if l.peers.enough.Load() {
			return &now
		}
		select {
		case <-changed:
		case <-bounded.Done():
			return &now
		case <-l.scope(ctx).Done():
			return &now
		}
	}
}
