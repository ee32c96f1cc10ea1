package guard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// Two clients whose restart guards differ learn it from the masters, with no more rights than the documentation gives
// them. When one is gone for a minute, the other finds nothing any more.
func TestClientsThatDisagreeAreFound(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, fleet.Limited(t, masters.Spec{}))
	found := func(l *redlock.Locker) (list []redlock.Finding) {
		for _, n := range l.Nodes(t.Context()) {
			for _, finding := range n.Findings {
				if finding.Code == "settings" {
					list = append(list, finding)
				}
			}
		}
		return list
	}
	a := f.Locker(t, redlock.WithRestartGuard(30*time.Second))
	if list := found(a); list != nil {
		t.Errorf("alone: found %+v", list)
	}
	b, err := redlock.New(masters.URLs(f.Nodes), redlock.WithTTL(45*time.Second), redlock.WithNodeTimeout(5*time.Second))
	fleet.Must(t, err)
	// A client tells its settings when it asks for a lock, whatever comes of that: these masters have just been started.
	for _, l := range []*redlock.Locker{a, b} {
		_, _ = l.TryLock(t.Context(), "job")
	}
	const uses = "other clients use a restart guard of "
	for name, c := range map[string]struct {
		l    *redlock.Locker
		text string
	}{
		"a": {a, uses + "45 s, this one 30 s; other clients keep tokens for 90 s, this one for 60 s"},
		"b": {b, uses + "30 s, this one 45 s; other clients keep tokens for 60 s, this one for 90 s"},
	} {
		// TryLock does not wait for the last node, so the other client's settings may still be on their way to it.
		var list []redlock.Finding
		fleet.Eventually(t, name+" finds it on each node", func() bool {
			list = found(c.l)
			return len(list) == len(f.Nodes)
		})
		for _, finding := range list {
			if finding.Severity != redlock.SeverityUnsafe || !strings.HasPrefix(finding.Text, c.text) {
				t.Errorf("%s found %+v, want %q", name, finding, c.text)
			}
		}
	}
	fleet.Must(t, b.Close())
	for _, n := range f.Nodes { // a minute and a second later
		members, err := redis.Strings(n.Do("ZRANGE", "redlock:settings", 0, -1, "WITHSCORES"))
		fleet.Must(t, err)
		if len(members) != 4 {
			t.Fatalf("got %q, want two settings", members)
		}
		for i := 0; i < len(members); i += 2 {
			if strings.Contains(members[i], "guard=45000") {
				_, err = n.Do("ZINCRBY", "redlock:settings", -61000, members[i])
				fleet.Must(t, err)
			}
		}
		left, err := redis.Int64(n.Do("PTTL", "redlock:settings"))
		fleet.Must(t, err)
		if left <= 0 || left > (5*time.Minute).Milliseconds() {
			t.Errorf("the settings stay for %d ms, want five minutes at most", left)
		}
	}
	if list := found(a); list != nil {
		t.Errorf("when the other one is gone: found %+v", list)
	}
}
