package redlock

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestNodes(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[1].Crash(false)
		fl.nodes[2].Crash(false)
		fl.nodes[2].Restart()
		fl.nodes[3].Step(500 * ms)
		fl.nodes[4].SetConfig("maxmemory", "1000000000")
		fl.nodes[4].SetConfig("maxmemory-policy", "allkeys-lru")
		time.Sleep(3 * time.Second)
		l.Nodes(t.Context())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := l.Nodes(t.Context())
		first := func(i int) string {
			if len(got[i].Findings) == 0 {
				return ""
			}
			return got[i].Findings[0].Code
		}
		for i, want := range []string{"", "unreachable", "abstains", "", "refused"} {
			if first(i) != want || (got[i].Err == nil) != (want == "") {
				t.Errorf("node %d: got %+v, want %q", i, got[i], want)
			}
		}
		if n := got[0]; !n.Connected || n.Product != "Redis" || n.Version == "" || n.Role != "master" ||
			n.Uptime < time.Hour || n.Persistence != "none" || n.EvictionPolicy != "noeviction" || n.RoundTrip <= 0 {
			t.Errorf("got %+v", n)
		}
		if off := got[3].ClockOffset; off < 490*ms || off > 510*ms {
			t.Errorf("clock offset %v, want 500ms", off)
		}
		if got[2].AbstainsUntil.IsZero() {
			t.Error("the end of the abstention is missing")
		}
	})
}
