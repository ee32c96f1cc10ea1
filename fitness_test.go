package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestUnfitNodesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(fl *fleet)
		opts  []Option
		want  string // "": accepted
	}{
		{"replica", func(fl *fleet) { fl.nodes[0].Demote("n1:6379") }, nil, "it is a replica of n1:6379"},
		{"evicts", func(fl *fleet) {
			fl.nodes[0].SetConfig("maxmemory", "1000000000")
			fl.nodes[0].SetConfig("maxmemory-policy", "volatile-lru")
		}, nil, "CONFIG SET maxmemory-policy noeviction"},
		{"evicts, and may", func(fl *fleet) {
			fl.nodes[0].SetConfig("maxmemory", "1000000000")
			fl.nodes[0].SetConfig("maxmemory-policy", "volatile-lru")
		}, []Option{WithEvictionAllowed()}, ""},
		{"limited, but does not evict", func(fl *fleet) { fl.nodes[0].SetConfig("maxmemory", "1000000000") }, nil, ""},
		{"a policy without a limit", func(fl *fleet) { fl.nodes[0].SetConfig("maxmemory-policy", "allkeys-lru") }, nil, ""},
		{"loading", func(fl *fleet) { fl.nodes[0].SetLoading(true) }, nil, "LOADING"},
		{"no INFO", func(fl *fleet) { fl.nodes[0].Deny("info") }, nil, "+info"},
		{"no CONFIG", func(fl *fleet) { fl.nodes[0].Deny("config") }, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, 1, func(t *testing.T, fl *fleet) {
				c.spoil(fl)
				_, err := fl.locker("a", c.opts...).TryLock(t.Context(), "job")
				if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("got %v, want %q", err, c.want)
				}
			})
		})
	}
}

func TestWithoutNodeInfo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		for _, n := range fl.nodes {
			n.Deny("info")
		}
		l := fl.locker("a", WithoutNodeInfo())
		other := fl.locker("b", WithoutNodeInfo())
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "INFO is refused") {
			t.Errorf("first met: got %v", err)
		}
		time.Sleep(period + time.Second)
		for i := range fl.nodes {
			fl.net.Reset(link0("a", i))
		}
		time.Sleep(2 * time.Second)
		k := must(l.TryLock(t.Context(), "job"))(t) // a network fault costs no wait
		_ = k.Unlock(t.Context())
		_ = must(other.TryLock(t.Context(), "job2"))(t)
		forgetAll := func() {
			for _, n := range fl.nodes {
				n.Crash(true) // with an old file, say
				n.Restart()
			}
		}
		forgetAll()
		time.Sleep(3 * time.Second)
		if _, err := l.TryLock(t.Context(), "job"); !errors.Is(err, ErrNoQuorum) {
			t.Errorf("restarted: got %v", err)
		}
	})
}

func TestOneServerUnderTwoNames(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.net.Attach(fl.nodes[0])
		dial := fl.net.Dialer("a")
		alias := WithDialer(func(ctx context.Context, network, address string) (net.Conn, error) {
			return dial(ctx, network, strings.Replace(address, "alias", "n0", 1))
		})
		urls := []string{fl.urls[0], "redis://alias:6379", fl.urls[2]}
		l, err := New(urls, alias)
		if err == nil {
			_ = l.Close()
		}
		if !errors.Is(err, ErrInvalid) || !strings.Contains(fmt.Sprint(err), "alias:6379") || !strings.Contains(fmt.Sprint(err), "n0:6379") {
			t.Errorf("got %v, want ErrInvalid that names both", err)
		}
	})
}

func TestAWrongClockDoesNotVote(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[1].Step(3 * time.Second)
		time.Sleep(2 * probeEvery)
		fl.nodes[0].Crash(false)
		_, err := l.TryLock(t.Context(), "job")
		if !errors.Is(err, ErrNoQuorum) || !strings.Contains(err.Error(), "its clock is ") {
			t.Errorf("got %v", err)
		}
		settleNetwork()
		fl.nodes[1].Step(-3 * time.Second)
		time.Sleep(period) // it was set forward before, and what it forgot by that has ended, too
		if _, err := l.TryLock(t.Context(), "job"); err != nil {
			t.Errorf("set right again: %v", err)
		}
	})
}

// Every answer of a node that refuses work has a type, and nobody needs to restart anything afterwards.
func TestRepliesAreTyped(t *testing.T) {
	for code, reply := range map[string]string{
		"OOM":        "OOM command not allowed when used memory > 'maxmemory'.",
		"NOREPLICAS": "NOREPLICAS Not enough good replicas to write.",
		"READONLY":   "READONLY You can't write against a read only replica.",
		"NOAUTH":     "NOAUTH Authentication required.",
		"NOPERM":     "NOPERM this user has no permissions to run the 'evalsha' command",
		"BUSY":       "BUSY Redis is busy running a script.",
		"LOADING":    "LOADING Redis is loading the dataset in memory",
		"MISCONF":    "MISCONF Redis is configured to save RDB snapshots",
		"MAXCLIENTS": "ERR max number of clients reached",
	} {
		bubble(t, 1, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			fl.nodes[0].Fail("evalsha", reply, 1)
			_, err := l.TryLock(t.Context(), "job")
			var q *QuorumError
			var said *ReplyError
			if !errors.As(err, &q) || !errors.As(q.Nodes[0], &said) || said.Code != code || q.Nodes[0].Addr != "n0:6379" {
				t.Errorf("%s: got %v", code, err)
			}
			fl.nodes[0].Recover()
			time.Sleep(5 * time.Second)
			if _, err := l.TryLock(t.Context(), "job"); err != nil {
				t.Errorf("%s, afterwards: %v", code, err)
			}
		})
	}
}

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
		if n := got[0]; !n.Connected || n.Product != "Redis" || n.Version == "" || n.Role != "master" || n.Uptime < time.Hour ||
			n.Persistence != "none" || n.EvictionPolicy != "noeviction" || n.RoundTrip <= 0 {
			t.Errorf("got %+v", n)
		}
		if off := got[3].ClockOffset; off < 490*ms || off > 510*ms {
			t.Errorf("clock offset %v, want 500ms", off)
		}
		if got[2].AbstainsUntil.IsZero() {
			t.Error("it is not said until when the node abstains")
		}
	})
}
