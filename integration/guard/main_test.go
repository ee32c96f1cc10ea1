// Package guard_test shows on real masters what the restart guard is for, and
// that nodes which refuse work are named, and used again when they can.
package guard_test

import (
	"errors"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
)

func TestMain(m *testing.M) { fleet.Main(m) }

// abstainers returns the nodes that the error says abstain, by address.
func abstainers(t *testing.T, err error) map[string]*redlock.AbstainError {
	t.Helper()
	found := map[string]*redlock.AbstainError{}
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		t.Fatalf("got %v, want a QuorumError", err)
	}
	for _, n := range q.Nodes {
		var why *redlock.AbstainError
		if errors.As(n, &why) {
			found[n.Addr] = why
		}
	}
	return found
}
