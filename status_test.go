package redlock

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/finding"
)

// A frozen node is said to be silent, before its connection is replaced and after that: its address is right.
func TestAFrozenNodeIsSilent(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[0].Pause()
		held := must(l.TryLock(t.Context(), "job"))(t)
		for after := range 40 {
			time.Sleep(500 * ms)
			synctest.Wait()
			st := l.nodes[0].status()
			if !errors.Is(st.Err, ErrNodeTimeout) || len(st.Findings) != 1 || st.Findings[0].Code != "silent" ||
				!strings.Contains(st.Findings[0].Remedy, "load") || strings.Contains(st.Findings[0].Text, "closed") {
				t.Fatalf("after %d × 500 ms: got %v, %+v", after+1, st.Err, st.Findings)
			}
			if !st.Connected && !errors.Is(st.Err, ErrNodeDown) {
				t.Errorf("not connected: got %v", st.Err)
			}
		}
		if st := l.nodes[0].status(); st.Connected {
			t.Error("its connection was not replaced")
		}
		_, err := l.TryLock(t.Context(), "job")
		runtime.KeepAlive(held) // or it would not be renewed
		failsAll(t, quorumError(t, err).Nodes[0].Err, ErrNodeTimeout, ErrNodeDown)
		fl.nodes[0].Resume()
	})
}

// A majority votes, and no lock can be taken: what keeps the others from it counts, too.
func TestMemoryThatIsFullOnMostNodes(t *testing.T) {
	for _, c := range []struct {
		full, down int
		want       finding.Severity
	}{{1, 0, finding.Degraded}, {2, 0, finding.Unavailable}, {1, 1, finding.Unavailable}} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			for _, n := range fl.nodes[:c.full] {
				n.SetConfig("maxmemory", "1")
			}
			for _, n := range fl.nodes[3-c.down:] {
				n.Crash(false)
			}
			settleNetwork()
			_, err := l.TryLock(t.Context(), "job")
			found := l.Status(t.Context())[0].Findings[0]
			if (err != nil) != (c.want == finding.Unavailable) || found.Code != finding.Memory || found.Severity != c.want {
				t.Errorf("%+v: got %v, %+v", c, err, found)
			}
			if ready := l.Ready(cancelled(t)); (ready == nil) != (err == nil) {
				t.Errorf("%+v: ready: got %v", c, ready)
			}
			fl.nodes[0].SetConfig("maxmemory", "0")
			within(t, longestPause+200*ms, "Ready, with room again", func() { succeeds(t, l.Ready(t.Context())) })
		})
	}
}

// Another program has written over a set of ours: that is said, and what is said helps.
func TestSetsOfOursThatAreNone(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		use(t, l)
		for i, want := range []string{
			"degraded: another program has written over redlock:tokens redlock:revoked: no lock",
			"unavailable: another program has written over redlock:tokens redlock:revoked, here and on so many",
		} {
			for _, key := range []string{"redlock:tokens", "redlock:revoked"} {
				fl.nodes[i].Do("SET", key, "x")
			}
			if found := l.Status(t.Context())[i].Findings; len(found) != 1 || found[0].Code != "reply-wrongtype" ||
				found[0].Remedy != "DEL redlock:tokens redlock:revoked" ||
				!strings.HasPrefix(found[0].Severity.String()+": "+found[0].Text, want) {
				t.Errorf("got %+v, want %s", found, want)
			}
		}
		if _, err := l.TryLock(t.Context(), "job"); !says(err, "WRONGTYPE") {
			t.Errorf("got %v", err)
		}
		for _, n := range fl.nodes {
			n.Do("DEL", "redlock:tokens", "redlock:revoked")
		}
		equals(t, len(l.Status(t.Context())[0].Findings), 0, "findings")
		use(t, l)
	})
}

// A server's idle timeout that ends between two probes is noted. Nothing but Nodes asks for it.
func TestAnIdleTimeoutThatClosesConnectionsIsNoted(t *testing.T) {
	for seconds, noted := range map[string]bool{"0": false, "15": true, "16": false, "?": false} {
		bubble(t, 1, func(t *testing.T, fl *fleet) {
			fl.nodes[0].SetConfig("timeout", seconds)
			l := fl.locker("a")
			time.Sleep(2 * time.Minute)
			equals(t, len(l.nodes[0].status().Findings), 0, "timeout %s: findings before Nodes is called", seconds)
			got := l.Status(t.Context())[0].Findings
			if len(got) > 0 != noted || noted && (got[0].Code != "timeout" || !strings.Contains(got[0].Text, seconds+" s,")) {
				t.Errorf("timeout %s: got %+v", seconds, got)
			}
			fl.nodes[0].SetConfig("timeout", "0")
			equals(t, len(l.Status(t.Context())[0].Findings), 0, "timeout %s, corrected: findings", seconds)
		})
	}
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Deny("config")
		fl.nodes[0].SetConfig("timeout", "1")
		equals(t, len(fl.locker("a").Status(t.Context())[0].Findings), 0, "findings when CONFIG is refused")
	})
}

func TestNodes(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		fl.nodes[1].Deny("zscore") // which is a finding only as long as the node is there
		l := fl.locker("a")
		if got := l.Status(t.Context())[1].Findings; len(got) == 0 || got[len(got)-1].Code != "lists-refused" {
			t.Errorf("the script lists is refused: got %+v", got)
		}
		fl.nodes[1].Crash(false)
		fl.nodes[2].Crash(false)
		fl.nodes[2].Restart()
		fl.nodes[3].Step(500 * ms)
		fl.nodes[4].SetConfig("maxmemory", "1000000000")
		fl.nodes[4].SetConfig("maxmemory-policy", "allkeys-lru")
		time.Sleep(3 * time.Second)
		l.Status(t.Context())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		got := l.Status(t.Context())
		codes := func(i int) string {
			var all []string
			for _, f := range got[i].Findings {
				all = append(all, string(f.Code))
			}
			return strings.Join(all, " ")
		}
		for i, want := range []string{"", "unreachable", "abstains", "", "refused"} {
			if codes(i) != want || (got[i].Err == nil) != (want == "") {
				t.Errorf("node %d: got %+v, want %q", i, got[i], want)
			}
		}
		if n := got[0]; !n.Connected || n.Product != "Redis" || n.Version == "" || n.Role != "master" ||
			n.Uptime < time.Hour || n.Persistence != "none" || n.EvictionPolicy != "noeviction" || n.RoundTrip <= 0 {
			t.Errorf("got %+v", n)
		}
		between(t, got[3].ClockOffset, 490*ms, 510*ms, "clock offset")
		if got[2].AbstainsUntil.IsZero() {
			t.Error("the end of the abstention is missing")
		}
	})
}
