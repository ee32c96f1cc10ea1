package sim

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
)

// world is one node and a network in a bubble, and a redigo connection on demand.
type world struct {
	t    *testing.T
	net  *Network
	node *Node
}

func inBubble(t *testing.T, f func(w world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := world{t: t, net: NewNetwork(1), node: NewNode("n0:6379", 1)}
		w.net.Attach(w.node)
		defer w.node.Close()
		f(w)
	})
}

func (w world) dial() redis.Conn {
	w.t.Helper()
	conn, err := w.net.Dial(context.Background(), "alice", "n0:6379")
	if err != nil {
		w.t.Fatalf("dial: %v", err)
	}
	c := redis.NewConn(conn, 0, 0)
	w.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (w world) do(c redis.Conn, want any, name string, args ...any) {
	w.t.Helper()
	got, err := c.Do(name, args...)
	if err != nil {
		got = "-" + err.Error()
	}
	if s, ok := got.([]byte); ok {
		got = string(s)
	}
	cases.Equals(w.t, fmt.Sprintf("%v", got), fmt.Sprintf("%v", want), "%s %v", name, args)
}

func TestCrashRefusesAndForgets(t *testing.T) {
	inBubble(t, func(w world) {
		c := w.dial()
		w.do(c, "OK", "SET", "name", "alice")
		before, _ := redis.String(c.Do("INFO", "server"))
		w.node.Crash(false)
		if _, err := c.Do("GET", "name"); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("after a crash: got %v, want a reset", err)
		}
		if _, err := w.net.Dial(context.Background(), "alice", "n0:6379"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial: got %v, want ECONNREFUSED", err)
		}
		w.node.Restart()
		c = w.dial()
		w.do(c, nil, "GET", "name")
		if after, _ := redis.String(c.Do("INFO", "server")); after == before {
			t.Error("INFO did not change over a restart")
		}
	})
}

func TestPauseLetsRequestsPileUp(t *testing.T) {
	inBubble(t, func(w world) {
		c := w.dial()
		w.node.Pause()
		time.AfterFunc(3*time.Second, w.node.Resume)
		start := time.Now()
		w.do(c, "OK", "SET", "name", "alice", "PX", 100)
		if d := time.Since(start); d < 3*time.Second || d > 3100*time.Millisecond {
			t.Errorf("answered after %v, want about 3s", d)
		}
	})
}

func TestClockStepExpiresAndKeeps(t *testing.T) {
	inBubble(t, func(w world) {
		c := w.dial()
		w.do(c, "OK", "SET", "early", "x", "PX", 60_000)
		w.node.Step(90 * time.Second)
		w.do(c, nil, "GET", "early")
		w.do(c, "OK", "SET", "late", "x", "PX", 1000)
		w.node.Step(-90 * time.Second)
		time.Sleep(89 * time.Second)
		w.do(c, "x", "GET", "late")
		w.node.SetRate(2)
		w.do(c, "OK", "SET", "fast", "x", "PX", 10_000)
		time.Sleep(5100 * time.Millisecond)
		w.do(c, nil, "GET", "fast")
	})
}

func TestRefusals(t *testing.T) {
	cases := []struct {
		set  func(*Node)
		want string
		cmd  []any
	}{
		{func(n *Node) { n.SetPassword("p") }, "NOAUTH Authentication required.", []any{"GET", "k"}},
		{
			func(n *Node) { n.Demote("n1:6379") }, "READONLY You can't write against a read only replica.",
			[]any{"SET", "k", "v"},
		},
		{
			func(n *Node) { n.SetConfig("maxmemory", "1") }, "OOM command not allowed when used memory > 'maxmemory'.",
			[]any{"SET", "k", "v"},
		},
		{func(n *Node) { n.SetLoading(true) }, "LOADING Redis is loading the dataset in memory", []any{"GET", "k"}},
		{func(n *Node) { n.Deny("TIME") }, "NOPERM this user has no permissions to run the 'time' command", []any{"TIME"}},
		{func(n *Node) { n.Fail("get", "BUSY Redis is busy", 1) }, "BUSY Redis is busy", []any{"GET", "k"}},
		{func(n *Node) { n.Do("LPUSH", "l", "x") }, string(errWrongType), []any{"GET", "l"}},
	}
	for _, tc := range cases {
		inBubble(t, func(w world) {
			tc.set(w.node)
			w.do(w.dial(), "-"+tc.want, tc.cmd[0].(string), tc.cmd[1:]...)
		})
	}
}

// TestRefusalsSpareScriptsUnderWay: as in Redis 7, a script is refused as a whole or not at all.
func TestRefusalsSpareScriptsUnderWay(t *testing.T) {
	inBubble(t, func(w world) {
		c := w.dial()
		w.node.Fail("get", "BUSY Redis is busy", -1)
		w.do(c, nil, "EVAL", `return redis.call('GET', 'k')`, 0)
		w.node.Recover()
		w.do(c, "OK", "SET", "old", "x")
		w.node.SetConfig("maxmemory", "1")
		w.do(c, "OK", "EVAL", `redis.call('DEL', 'old') return redis.call('SET', 'k', 'v')`, 0)
		if _, err := c.Do("EVAL", `return redis.call('SET', 'k', 'v')`, 0); err == nil || err.Error()[:3] != "OOM" {
			t.Errorf("got %v, want OOM", err)
		}
	})
}
