package redlocktest_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// soon is how long a test waits for what should happen at once.
const soon = 30 * time.Second

func dial(t *testing.T, c *redlocktest.Cluster, node int) redis.Conn {
	t.Helper()
	conn, err := redis.DialURL(c.URLs()[node], redis.DialConnectTimeout(soon), redis.DialReadTimeout(soon))
	if err != nil {
		t.Fatalf("dial node %d: %v", node, err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func do(t *testing.T, conn redis.Conn, cmd string, args ...any) any {
	t.Helper()
	reply, err := conn.Do(cmd, args...)
	if err != nil {
		t.Fatalf("%s %v: %v", cmd, args, err)
	}
	return reply
}

func TestTTLRunsInRealTime(t *testing.T) {
	c := redlocktest.New(t, 1)
	conn := dial(t, c, 0)
	start := time.Now()
	do(t, conn, "SET", "k", "v", "PX", 40)
	if got, _ := redis.Int(do(t, conn, "PTTL", "k"), nil); got > 40 || got == -1 { // -2: it has expired
		t.Fatalf("PTTL: got %d, want at most 40", got)
	}
	cases.Eventually(t, "expiry", func() bool {
		n, _ := redis.Int(do(t, conn, "EXISTS", "k"), nil)
		return n == 0
	})
	if passed := time.Since(start); passed < 30*time.Millisecond {
		t.Errorf("expired after %s, want 40 ms", passed)
	}
}

func TestFastForward(t *testing.T) {
	c := redlocktest.New(t, 2)
	before := map[int]int64{}
	for i := range c.Len() {
		conn := dial(t, c, i)
		do(t, conn, "SET", "k", "v", "PX", 60_000)
		before[i] = seconds(t, conn)
	}
	c.FastForward(time.Minute)
	for i := range c.Len() {
		conn := dial(t, c, i)
		if n, _ := redis.Int(do(t, conn, "EXISTS", "k"), nil); n != 0 {
			t.Errorf("node %d: the key of one minute is still there", i)
		}
		if moved := seconds(t, conn) - before[i]; moved < 60 || moved > 70 {
			t.Errorf("node %d: TIME moved %d s, want 60", i, moved)
		}
		do(t, conn, "SET", "k", "v")
		do(t, conn, "PEXPIREAT", "k", 1000*(seconds(t, conn)+30))
		if left, _ := redis.Int(do(t, conn, "PTTL", "k"), nil); left < 1 || left > 30_000 {
			t.Errorf("node %d: a key that ends 30 s from the node's time has %d ms left", i, left)
		}
	}
}

func seconds(t *testing.T, conn redis.Conn) int64 {
	t.Helper()
	// By way of a script, where the time must be the same.
	s := cases.Must(redis.Int64(do(t, conn, "EVAL", "return redis.call('TIME')[1]", 0), nil))(t)
	return s
}

func TestKillAndRevive(t *testing.T) {
	c := redlocktest.New(t, 2)
	conn := dial(t, c, 0)
	do(t, conn, "SET", "k", "v")
	before := info(t, conn)
	addr := c.Addr(0)

	c.Kill(0)
	if _, err := conn.Do("PING"); err == nil {
		t.Error("the connection survived the crash")
	}
	if _, err := net.DialTimeout("tcp", addr, soon); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial a dead node: got %v, want connection refused", err)
	}
	if got := c.State(0); got != redlocktest.Down {
		t.Errorf("state: got %s, want down", got)
	}
	c.Kill(0) // harmless
	do(t, dial(t, c, 1), "PING")

	cases.NoError(t, c.Revive(0, 1))
	if got := c.Addr(0); got != addr {
		t.Errorf("address: got %s, want %s as before", got, addr)
	}
	conn = dial(t, c, 0)
	if n, _ := redis.Int(do(t, conn, "DBSIZE"), nil); n != 0 {
		t.Errorf("the revived node has %d keys, want none", n)
	}
	after := info(t, conn)
	for _, id := range []string{"run_id", "master_replid"} {
		if len(after[id]) != 40 || after[id] == before[id] {
			t.Errorf("%s: %q before and %q after the restart, want another one of 40 digits", id, before[id], after[id])
		}
	}
	if up, _ := strconv.Atoi(before["uptime_in_seconds"]); up < 3600 {
		t.Errorf("uptime at first: got %d s, want long enough for any guard", up)
	}
	if up, _ := strconv.Atoi(after["uptime_in_seconds"]); up > 5 {
		t.Errorf("uptime after the restart: got %d s, want about 0", up)
	}
}

// A crash may not let through what was on its way: an acquire from before it would be a vote after it.
func TestKillUnderLoad(t *testing.T) {
	const script = "redis.call('SET', KEYS[1], ARGV[1]); return redis.call('TIME')"
	c := redlocktest.New(t, 1)
	for range 10 {
		var clients sync.WaitGroup
		busy := make(chan struct{}, 8)
		for range cap(busy) {
			conn := dial(t, c, 0)
			clients.Go(func() {
				for i := 0; ; i++ {
					for range 20 {
						conn.Send("EVAL", script, 1, "k", "v") // Flush says it
					}
					if conn.Flush() != nil {
						return
					}
					for range 20 {
						if _, err := conn.Receive(); err != nil {
							return
						}
					}
					if i == 0 {
						busy <- struct{}{}
					}
				}
			})
		}
		for range cap(busy) {
			<-busy
		}
		c.Kill(0)
		cases.NoError(t, c.Revive(0))
		clients.Wait()
		if n, _ := redis.Int(do(t, dial(t, c, 0), "DBSIZE"), nil); n != 0 {
			t.Fatal("a request from before the crash reached the revived node")
		}
	}
}

func TestPauseWithholdsAnswers(t *testing.T) {
	c := redlocktest.New(t, 1)
	old := dial(t, c, 0)
	do(t, old, "PING")
	c.Pause(0)
	if got := c.State(0); got != redlocktest.Paused {
		t.Errorf("state: got %s, want paused", got)
	}

	fresh, err := redis.DialURL(c.URLs()[0]) // connecting works: the kernel accepts
	if err != nil {
		t.Fatalf("dial a paused node: %v", err)
	}
	defer fresh.Close()
	for name, conn := range map[string]redis.Conn{"old": old, "fresh": fresh} {
		if _, err := redis.DoWithTimeout(conn, 30*time.Millisecond, "SET", name, "v"); err == nil {
			t.Errorf("the %s connection got an answer from a paused node", name)
		}
	}

	c.Resume(0)
	conn := dial(t, c, 0)
	cases.Eventually(t, "both late requests carried out", func() bool {
		n, _ := redis.Int(do(t, conn, "EXISTS", "old", "fresh"), nil)
		return n == 2
	})
}

func TestKillWhilePaused(t *testing.T) {
	c := redlocktest.New(t, 1)
	conn := dial(t, c, 0)
	do(t, conn, "PING")
	c.Pause(0)
	conn.Send("SET", "k", "v") // what becomes of it is the test
	conn.Flush()               // likewise
	c.Kill(0)                  // must not wait for the gate
	cases.NoError(t, c.Revive(0))
	if n, _ := redis.Int(do(t, dial(t, c, 0), "DBSIZE"), nil); n != 0 {
		t.Error("what was withheld came through after the crash")
	}
}

func TestKillWhileBlocked(t *testing.T) {
	c := redlocktest.New(t, 1)
	conn := dial(t, c, 0)
	conn.Send("BLPOP", "list", 0) // Flush says it
	cases.NoError(t, conn.Flush())
	c.Kill(0)
	if _, err := conn.Receive(); err == nil {
		t.Error("BLPOP outlived the node")
	}
}

func TestEmpty(t *testing.T) {
	c := redlocktest.New(t, 1)
	conn := dial(t, c, 0)
	do(t, conn, "SET", "k", "v")
	before := info(t, conn)["run_id"]
	c.Empty(0)
	if n, _ := redis.Int(do(t, conn, "DBSIZE"), nil); n != 0 {
		t.Errorf("%d keys left", n)
	}
	if after := info(t, conn)["run_id"]; after != before {
		t.Error("run_id changed without a restart")
	}
}

func TestIdentity(t *testing.T) {
	c := redlocktest.New(t, 2)
	conn := dial(t, c, 0)
	got := info(t, conn)
	for key, want := range map[string]string{
		"role": "master", "redis_mode": "standalone", "loading": "0", "cluster_enabled": "0",
		"maxmemory_policy": "noeviction", "master_replid2": strings.Repeat("0", 40),
	} {
		cases.Equals(t, got[key], want, "INFO %s", key)
	}
	if got["redis_version"] == "" {
		t.Error("INFO has no redis_version")
	}
	if other := info(t, dial(t, c, 1)); other["run_id"] == got["run_id"] ||
		other["master_replid"] == got["master_replid"] {
		t.Error("two nodes with the same identity")
	}
	two, err := redis.String(conn.Do("INFO", "server", "Replication"))
	if err != nil || !strings.Contains(two, "run_id:") || !strings.Contains(two, "role:") ||
		strings.Contains(two, "loading:") {
		t.Errorf("INFO server replication: got %q, %v", two, err)
	}

	role, err := redis.Values(conn.Do("ROLE"))
	if err != nil || len(role) != 3 || string(role[0].([]byte)) != "master" {
		t.Errorf("ROLE: got %v, %v", role, err)
	}

	config, err := redis.StringMap(conn.Do("CONFIG", "GET", "maxmemory-policy", "append*"))
	want := map[string]string{"maxmemory-policy": "noeviction", "appendonly": "no", "appendfsync": "everysec"}
	if fmt.Sprint(config) != fmt.Sprint(want) || err != nil {
		t.Errorf("CONFIG GET: got %v, %v, want %v", config, err, want)
	}
	do(t, conn, "CONFIG", "SET", "maxmemory-policy", "volatile-lru")
	if got := info(t, conn)["maxmemory_policy"]; got != "volatile-lru" {
		t.Errorf("INFO after CONFIG SET: got %q, want volatile-lru", got)
	}
	if _, err := conn.Do("CONFIG", "SET", "no-such-thing", "1"); err == nil {
		t.Error("CONFIG SET of an unknown parameter was accepted")
	}
}

func info(t *testing.T, conn redis.Conn) map[string]string {
	t.Helper()
	text, err := redis.String(conn.Do("INFO"))
	if err != nil {
		t.Fatalf("INFO: %v", err)
	}
	fields := map[string]string{}
	for line := range strings.SplitSeq(text, "\r\n") {
		if key, value, ok := strings.Cut(line, ":"); ok {
			fields[key] = value
		}
	}
	return fields
}

func TestStart(t *testing.T) {
	if _, err := redlocktest.Start(0); err == nil {
		t.Error("Start(0): no error")
	}
	c := cases.Must(redlocktest.Start(2))(t)
	c.Close()
	c.Close() // harmless
	if got := c.State(1); got != redlocktest.Down {
		t.Errorf("after Close: got %s, want down", got)
	}
}

// Without a testing.TB the caller closes the cluster.
func ExampleStart() {
	masters, err := redlocktest.Start(5)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer masters.Close()

	masters.Kill(3, 4)
	for i := range masters.Len() {
		fmt.Println(i, masters.State(i))
	}
	// Output:
	// 0 up
	// 1 up
	// 2 up
	// 3 down
	// 4 down
}
