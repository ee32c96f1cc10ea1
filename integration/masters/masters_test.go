package masters_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

var provider masters.Provider

func TestMain(m *testing.M) {
	if os.Getenv(parentOf) != "" {
		parent()
	}
	var err error
	if provider, err = masters.Choose(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("masters: " + provider.String())
	os.Exit(m.Run())
}

func start(t *testing.T, spec masters.Spec) *masters.Node {
	t.Helper()
	return masters.Start(t, provider, 1, spec)[0]
}

func do(t *testing.T, n *masters.Node, command string, args ...any) any {
	t.Helper()
	return cases.Must(n.Do(command, args...))(t)
}

func TestFiveMastersAreUpSoonAndIndependent(t *testing.T) {
	before := time.Now()
	nodes := masters.Start(t, provider, 5, masters.Spec{})
	t.Logf("five masters were up after %v", time.Since(before))
	for i, n := range nodes {
		do(t, n, "SET", "who", i)
	}
	for i, n := range nodes {
		if got, err := redis.Int(n.Do("GET", "who")); err != nil || got != i {
			t.Errorf("master %d: got %d, %v", i, got, err)
		}
		if policy, err := redis.Strings(n.Do("CONFIG", "GET", "maxmemory-policy")); err != nil || policy[1] != "noeviction" {
			t.Errorf("master %d: policy %q, %v; want noeviction", i, policy, err)
		}
	}
}

func TestKillForgetsAndKeepsTheAddress(t *testing.T) {
	n := start(t, masters.Spec{})
	do(t, n, "SET", "k", "v")
	cases.NoError(t, n.Kill())
	if _, err := n.Do("PING"); err == nil {
		t.Fatal("a killed master answers")
	}
	cases.NoError(t, n.Kill()) // a second time is no error
	cases.NoError(t, n.Start())
	if got := do(t, n, "GET", "k"); got != nil {
		t.Errorf("after a restart without persistence: got %q, want nothing", got)
	}
}

func TestAppendOnlyFileSurvivesKillButNotStartEmpty(t *testing.T) {
	n := start(t, masters.Spec{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	do(t, n, "SET", "k", "v")
	cases.NoError(t, n.Restart())
	if got, err := redis.String(n.Do("GET", "k")); err != nil || got != "v" {
		t.Errorf("after kill -9 and start: got %q, %v; want v", got, err)
	}
	cases.NoError(t, n.RestartEmpty())
	if got := do(t, n, "GET", "k"); got != nil {
		t.Errorf("after the loss of the disk: got %q, want nothing", got)
	}
}

func TestStopAndStart(t *testing.T) {
	n := start(t, masters.Spec{})
	cases.NoError(t, n.Stop())
	cases.NoError(t, n.Start())
	do(t, n, "PING")
}

func TestPauseHoldsRequestsUntilResume(t *testing.T) {
	n := start(t, masters.Spec{})
	c := cases.Must(n.Dial(t.Context(), 5*time.Second))(t)
	defer func() { _ = c.Close() }() // it repeats the timeout below
	if _, err := c.Do("PING"); err != nil {
		t.Fatal(err)
	}
	cases.NoError(t, n.Pause())
	cases.NoError(t, c.Send("SET", "k", "late"))
	cases.NoError(t, c.Flush())
	if _, err := redis.ReceiveWithTimeout(c, 100*time.Millisecond); err == nil {
		t.Fatal("a paused master answers")
	}
	cases.NoError(t, n.Resume())
	// The connection's own reader has given up; the server has not.
	fleet.Eventually(t, "what was sent is carried out after resume", func() bool {
		got, err := redis.String(n.Do("GET", "k"))
		return err == nil && got == "late"
	})
}

func TestKillAndRemoveAPausedMaster(t *testing.T) {
	n := start(t, masters.Spec{})
	cases.NoError(t, n.Pause())
	cases.NoError(t, n.Kill())
	cases.NoError(t, n.Start())
	cases.NoError(t, n.Pause()) // and removed while paused
}

func TestPasswordAndACL(t *testing.T) {
	for name, spec := range map[string]masters.Spec{
		"password": {Args: []string{"--requirepass", "sesame"}, Password: "sesame"},
		"ACL": {
			Args:  []string{"--aclfile", "{dir}/users.acl"},
			Files: map[string]string{"users.acl": "user default off\nuser ann on >sesame ~* &* +@all\n"},
			User:  "ann", Password: "sesame",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := start(t, spec)
			do(t, n, "SET", "k", "v")
			cases.NoError(t, n.RestartEmpty()) // the files are there again
			do(t, n, "SET", "k", "v")
			open := cases.Must(redis.Dial("tcp", n.Addr(), redis.DialReadTimeout(time.Second)))(t)
			defer func() { _ = open.Close() }() // it repeats the refusal
			if _, err := open.Do("PING"); err == nil {
				t.Error("the master lets everybody in")
			}
		})
	}
}

func TestAServerThatCannotStartSaysWhy(t *testing.T) {
	n, err := provider.Launch(t.Context(), masters.Spec{Args: []string{"--no-such-directive", "1"}})
	if err == nil {
		cases.NoError(t, n.Remove())
		t.Fatal("a server with a bad argument starts")
	}
	if !strings.Contains(err.Error(), "no-such-directive") {
		t.Errorf("got %v; want what the server printed", err)
	}
}

// With two masters on one port, all that is asked of the one is answered by the other.
func TestAServerWhosePortIsTakenDoesNotStart(t *testing.T) {
	if provider.Name() != masters.Processes {
		t.Skip("a container whose port is taken is refused by Docker")
	}
	n := start(t, masters.Spec{})
	cases.NoError(t, n.Kill())
	other := cases.Must(net.Listen("tcp", n.Addr()))(t)
	defer func() { _ = other.Close() }()
	go func() { // until the listener is closed
		for {
			c, err := other.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("+PONG\r\n"))
		}
	}()
	if err := n.Start(); err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("started on another server's port: %v", err)
	}
}
