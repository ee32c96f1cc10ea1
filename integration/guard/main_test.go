// Package guard_test shows on real masters what the restart guard is for, and
// that nodes which refuse work are named, and used again when they can.
package guard_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
)

func TestMain(m *testing.M) { fleet.Main(m) }

// abstainers returns until when nodes abstain that the error says do so, by address.
func abstainers(t *testing.T, err error) map[string]time.Time {
	t.Helper()
	found := map[string]time.Time{}
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		t.Fatalf("got %v, want a QuorumError", err)
	}
	for _, n := range q.Nodes {
		if errors.Is(n, redlock.ErrNodeAbstains) {
			found[n.Addr] = n.AbstainsUntil
		}
	}
	return found
}
