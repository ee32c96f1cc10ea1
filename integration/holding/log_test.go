package holding_test

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// A server that closes idle connections, and takes new ones at once, is no outage: nothing is logged of it, and a note
// says what to set. One that is killed is.
func TestIdleConnectionsThatServersCloseAreNoOutage(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--timeout", "2"}})
	var log fleet.Journal
	l := f.Locker(t, redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	fleet.Must(t, l.Ready(t.Context()))
	warnings := func() int { return strings.Count(log.String(), "level=WARN") }
	before, asked := connectionsReceived(t, f), 0
	fleet.Eventually(t, "servers have closed idle connections, which are made again", func() bool {
		time.Sleep(time.Second)
		asked += len(f.Nodes) // by connections of this test's own
		return connectionsReceived(t, f)-before-asked >= len(f.Nodes)
	})
	k, err := l.TryLock(t.Context(), "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Unlock())
	if n := warnings(); n > 0 {
		t.Errorf("%d warnings:\n%s", n, &log)
	}
	fleet.Eventually(t, "the finding says what to set", func() bool { // at any moment, a node may not be connected
		for _, n := range l.Status(t.Context()) {
			if !slices.ContainsFunc(n.Findings, func(f finding.Finding) bool {
				return f.Code == "timeout" && f.Severity == finding.Note
			}) {
				return false
			}
		}
		return true
	})
	fleet.Must(t, f.Nodes[0].Kill())
	fleet.Eventually(t, "the log says that a node is down", func() bool { return warnings() > 0 })
}

func connectionsReceived(t *testing.T, f fleet.Fleet) (n int) {
	t.Helper()
	for _, node := range f.Nodes {
		info, err := node.Info("stats")
		fleet.Must(t, err)
		got, err := strconv.Atoi(info["total_connections_received"])
		fleet.Must(t, err)
		n += got
	}
	return n
}
