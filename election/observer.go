package election

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/quorumlock/redlock"
)

// ErrNoLeader says that nobody leads whom others can see: nobody holds the lock, or its holder has not set a value yet.
var ErrNoLeader = errors.New("election: no leader")

// Term is what others see of a term.
type Term struct {
	Number int64  // larger than that of every earlier term: the fencing token
	Value  string // what the leader has set last, and that was not empty
	Owner  string // what marks the hold: see [redlock.Inspector.ForceUnlock]
	Label  string // what the leader's client calls itself; "": not known (see [redlock.WithOwnerLabel])
}

// Observer looks who leads, and never does. It never shows a term with a number that is smaller than one which it has
// shown, nor a term without its value. What it shows may be over when it is read. Any number of goroutines may use it
// at once.
type Observer struct {
	inspector *redlock.Inspector
	name      string

	mu   sync.Mutex // guards the field below
	last Term       // the last that was shown
}

// NewObserver returns an Observer for the name of an election. A [redlock.Locker] has an Inspector, too.
func NewObserver(i *redlock.Inspector, name string) *Observer {
	return &Observer{inspector: i, name: name}
}

// Leader asks the nodes once who leads. Its error is [ErrNoLeader] if nobody does, and otherwise that of
// [redlock.Inspector.Inspect].
func (o *Observer) Leader(ctx context.Context) (Term, error) {
	i, err := o.inspector.Inspect(ctx, o.name)
	if err != nil {
		return Term{}, err
	}
	return o.see(&i)
}

// Observe shows who leads: first the term of now, then each new term and each new value. A pair with [ErrNoLeader] says
// that nobody leads for now: at first, when a leader has gone, and often between two leaders. It learns of changes when
// [redlock.Inspector.Watch] does: at once of a leader that resigns, at the end of the TTL of one that has died. A term
// or a value may be missing if it is soon followed by another, or if the loop takes its time.
//
// Other errors are those of Watch, too: whether the last term lasts is not known then. After [redlock.ErrNoQuorum],
// Observe goes on, and the next pair tells how it is then, even if nothing has changed. It ends after other errors, and
// without a pair when ctx is done.
func (o *Observer) Observe(ctx context.Context) iter.Seq2[Term, error] {
	return func(yield func(Term, error) bool) {
		var told Term
		upToDate := false // told is what the caller knows
		for i, err := range o.inspector.Watch(ctx, o.name) {
			var now Term
			failed := err != nil
			if !failed {
				now, err = o.see(&i)
			}
			if !failed && upToDate && now.Number == told.Number && now.Value == told.Value {
				continue
			}
			if !yield(now, err) {
				return
			}
			told, upToDate = now, !failed
		}
	}
}

// see returns what may be shown of what the nodes know.
func (o *Observer) see(i *redlock.Inspection) (Term, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	seen := Term{Number: i.Token, Value: i.Value, Owner: i.Owner, Label: i.Label}
	if seen.Owner == o.last.Owner { // while a value changes no majority may have either, and a token may be forgotten
		seen.Number = cmp.Or(seen.Number, o.last.Number)
		seen.Value = cmp.Or(seen.Value, o.last.Value)
	}
	// A smaller number is what another call was told earlier, or nodes that have forgotten: so the last leader has gone.
	if seen.Owner == "" || seen.Value == "" || seen.Number == 0 || seen.Number < o.last.Number {
		return Term{}, ErrNoLeader
	}
	o.last = seen
	return seen, nil
}
