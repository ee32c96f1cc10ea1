// Package lock_test tests what only real masters and real networks can show of a single lock: packets that are late or
// lost, connections that break, and the ways to reach a server.
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

// lock acquires a name that nobody holds. It may take several attempts where a
// test wants a short node timeout and the machine is busy.
func lock(t *testing.T, l *redlock.Locker, name string) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k, err := l.Lock(ctx, name)
	fleet.Must(t, err)
	return k
}

// wantIs fails the test unless the error is one of its kind.
func wantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}
