package lock_test

import (
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// A server that does not know SCRIPT gets the source of a script with the first call of it.
func TestServersWithoutScript(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--rename-command", "SCRIPT", ""}})
	k := fleet.Lock(t, f.Locker(t, redlock.WithTTL(fleet.Long)), "n")
	fleet.Must(t, k.Extend(t.Context()))
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	fleet.Must(t, k.Unlock())
}
