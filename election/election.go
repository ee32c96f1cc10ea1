// Package election elects a leader among the processes that campaign for a name, and shows others who leads.
//
//	e := election.New(locker, "scheduler")
//	err := e.Run(ctx, "10.0.0.7:8080", func(ctx context.Context, term *redlock.Lock) error {
//		return schedule(ctx, term.Token()) // ctx ends when the term does
//	})
//
// A term is a hold of the lock of that name, with a value that everybody can see: the leader's address, say. Its number
// is the hold's fencing token, which grows from term to term. [Observer.Leader] and [Observer.Observe] show terms to
// whoever looks. [Leader election] says what happens at a pause, a partition and a deployment.
//
// A leader that was paused may go on after its term has ended, as any holder of a lock may: a resource is safe from it
// if it rejects the numbers of former terms. No program should decide by Leader or Observe what only a leader may do.
//
// [Leader election]: https://github.com/quorumlock/redlock/blob/main/docs/leader-election.md
package election

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/quorumlock/redlock"
)

// Election is a candidate, and an [Observer] as well. Any number of goroutines may use it at once.
type Election struct {
	*Observer

	locker *redlock.Locker
	opts   []redlock.LockOption

	mu   sync.Mutex    // guards the field below
	term *redlock.Lock // the last one; nil: there was none
}

// New returns a candidate for the name, which is that of the lock. The options are those of each term: a TTL bounds for
// how long nobody leads after a crash, [redlock.WithMaxHold] how long one candidate leads, [redlock.WithMaxWait] how
// long it campaigns.
func New(l *redlock.Locker, name string, opts ...redlock.LockOption) *Election {
	return &Election{Observer: NewObserver(l.Inspector(), name), locker: l, opts: opts}
}

// Campaign waits until it leads, behind all that have waited longer, and returns the term: its number is
// [redlock.Lock.Token], Done and Context tell of its end, SetValue shows another value, and Unlock resigns. value is
// what others see of the term, in 1 to 1,024 bytes. ctx bounds only the wait.
//
// The error is that of [redlock.Locker.Lock]. It satisfies errors.Is for [redlock.ErrInvalid] if the value is too short
// or too long, if ctx carries the term that this Election has, and, when it would lead, with [redlock.WithoutFencing]:
// a term needs its number.
func (e *Election) Campaign(ctx context.Context, value string) (*redlock.Lock, error) {
	if value == "" {
		return nil, e.invalid("the value is empty, so nobody would see the term")
	}
	opts := append(slices.Clip(e.opts), redlock.WithValue(value))
	term, err := e.locker.Lock(ctx, e.name, opts...)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case term.Token() == 0:
		err = e.invalid("WithoutFencing: a term needs its number")
	case e.term != nil && e.term.Owner() == term.Owner():
		err = e.invalid("the context carries the term: SetValue changes its value")
	default:
		e.term = term
		return term, nil
	}
	return nil, errors.Join(err, term.Unlock())
}

func (e *Election) invalid(why string) error {
	return fmt.Errorf("%w: campaign %q: %s", redlock.ErrInvalid, e.name, why)
}

// Run campaigns, calls fn when it leads, and campaigns again when the term was lost. The context of fn ends with the
// term, with the reason as its cause, and with ctx; then fn must return. Run waits for fn, and resigns when it has
// returned or panicked. It returns
//
//   - the error of [Election.Campaign], if that fails: mostly [redlock.ErrClosed], [redlock.ErrInvalid], or ctx.Err();
//   - the error of fn, or nil, if fn has returned while its term lasted, or after fn or somebody else ended it with
//     Resign, Unlock or Ticket. If Unlock has failed, because too few nodes have confirmed, its error is joined; if ctx
//     is done, ctx.Err(), unless fn has returned that.
//
// The term was lost if Unlock says so, with [redlock.ErrLost]: its time was over, a majority of the nodes had forgotten
// it or given it to another, or it had reached [redlock.WithMaxHold]. Then what fn returns does not matter.
func (e *Election) Run(
	ctx context.Context, value string, fn func(ctx context.Context, term *redlock.Lock) error,
) error {
	for {
		term, err := e.Campaign(ctx, value)
		if err != nil {
			return err
		}
		err = lead(ctx, term, fn)
		end := term.Unlock()
		if errors.Is(end, redlock.ErrLost) {
			continue
		}
		var done error
		if !errors.Is(err, ctx.Err()) {
			done = ctx.Err()
		}
		return errors.Join(err, end, done)
	}
}

// lead runs fn for the term, and resigns.
func lead(ctx context.Context, term *redlock.Lock, fn func(context.Context, *redlock.Lock) error) error {
	held, cancel := term.Context(ctx)
	defer cancel()
	defer func() { _ = term.Unlock() }() // Run asks once more what it has said, unless fn panics
	return fn(held, term)
}

// Resign ends the term that Campaign or Run has, as [redlock.Lock.Unlock] does, and returns what that returns: after a
// term that was lost, [redlock.ErrLost]. If there has been no term, it does nothing. A call of Campaign that waits goes
// on: to end it, end its ctx.
func (e *Election) Resign() error {
	e.mu.Lock()
	term := e.term
	e.mu.Unlock()
	if term == nil {
		return nil
	}
	return term.Unlock()
}
