package guard_test

import (
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// The rights of docs/deploy/users.acl are enough, and Nodes has nothing to say about
// them. The whole suite runs with them: REDLOCK_ACL=1 go test ./...
func TestTheDocumentedRightsSuffice(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, fleet.Limited(t, masters.Spec{}))
	l := f.Guarded(t, period, redlock.WithTTL(ttl))
	k, err := l.Lock(t.Context(), "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Extend(t.Context()))
	fleet.Must(t, k.Unlock())
	fleet.Eventually(t, "all nodes vote", func() bool { return fleet.AllVote(t, l) })
	for _, n := range l.Status(t.Context()) {
		if n.Err != nil || len(n.Findings) > 0 || n.Role != "master" {
			t.Errorf("got %+v", n)
		}
	}
}
