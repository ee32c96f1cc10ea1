// Package lock_test tests the library against real masters, real networks and
// the real clock.
package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
)

func TestMain(m *testing.M) { fleet.Main(m) }

const long = fleet.Long

// lock acquires a name that nobody holds. It may take several attempts where a
// test wants a short node timeout and the machine is busy.
func lock(t *testing.T, l *redlock.Locker, name string, opts ...redlock.Option) *redlock.Lock {
	t.Helper()
	k, err := l.Lock(within(t, time.Minute), name, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func unlock(t *testing.T, k *redlock.Lock) {
	t.Helper()
	if err := k.Unlock(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// wantIs fails the test unless the error is one of its kind.
func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// within returns a context with a deadline. Its cancel belongs to the test.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// wantEnd fails the test unless the hold ends soon, and for the reason.
func wantEnd(t *testing.T, k *redlock.Lock, why error) {
	t.Helper()
	select {
	case <-k.Done():
		wantIs(t, k.Err(), why)
	case <-time.After(time.Minute):
		t.Fatalf("the hold does not end; want %v", why)
	}
}
