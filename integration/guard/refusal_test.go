package guard_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// A trouble is a way in which a server refuses work. admin is an open connection to it.
type trouble struct {
	code       string // of its reply; "": the node is told apart by what it says
	says       string
	args       []string
	begin, end func(t *testing.T, n *masters.Node, admin redis.Conn)
}

// Every way in which a server refuses work gives an error that says which node refused what, within the node timeout;
// and when it ends, so does the trouble.
func TestRefusals(t *testing.T) {
	t.Parallel()
	do := func(command string, args ...any) func(*testing.T, *masters.Node, redis.Conn) {
		return func(t *testing.T, _ *masters.Node, admin redis.Conn) {
			t.Helper()
			cases.Must(admin.Do(command, args...))(t)
		}
	}
	set := func(name, value string) func(*testing.T, *masters.Node, redis.Conn) {
		return do("CONFIG", "SET", name, value)
	}
	// reconnect makes clients come back, as after any network fault.
	reconnect := func(name, value string) func(*testing.T, *masters.Node, redis.Conn) {
		return func(t *testing.T, n *masters.Node, admin redis.Conn) {
			t.Helper()
			set(name, value)(t, n, admin)
			do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")(t, n, admin)
		}
	}
	for _, c := range []trouble{
		{code: "OOM", begin: set("maxmemory", "1"), end: set("maxmemory", "0")},
		{code: "NOREPLICAS", begin: set("min-replicas-to-write", "1"), end: set("min-replicas-to-write", "0")},
		{code: "NOAUTH", begin: reconnect("requirepass", "secret"), end: reconnect("requirepass", "")},
		{code: "NOPERM", begin: do("ACL", "SETUSER", "default", "-evalsha"), end: do("ACL", "SETUSER", "default", "+@all")},
		{code: "MAXCLIENTS", begin: reconnect("maxclients", "1"), end: set("maxclients", "100")},
		{says: "it is a replica of", begin: do("REPLICAOF", "127.0.0.1", 1), end: do("REPLICAOF", "NO", "ONE")},
		{code: "BUSY", args: []string{"--lua-time-limit", "50"}, begin: keepBusy, end: endScript},
		{
			code: "LOADING", begin: loadSlowly, end: func(*testing.T, *masters.Node, redis.Conn) {}, // by itself
			args: []string{"--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024"},
		},
	} {
		t.Run(c.code+c.says, func(t *testing.T) {
			t.Parallel()
			// As the default user, whatever rights the suite runs with: these are what is taken away.
			f := fleet.StartSpec(t, 1, masters.Spec{ClientUser: "default", Args: c.args})
			n := f.Nodes[0]
			admin := cases.Must(n.Dial(t.Context(), 20*time.Second))(t)
			defer func() { _ = admin.Close() }()
			l := f.Locker(t, redlock.WithTTL(time.Second))
			c.begin(t, n, admin)
			fleet.Eventually(t, "it is refused", func() bool { return c.refuses(t, l) })
			c.end(t, n, admin)
			fleet.Eventually(t, "it works again", func() bool {
				k, err := l.TryLock(t.Context(), "job")
				return err == nil && k.Unlock() == nil
			})
		})
	}
}

// refuses reports whether the only node of the Locker refuses so. A call that hangs has the test run out of time.
func (c trouble) refuses(t *testing.T, l *redlock.Locker) bool {
	t.Helper()
	k, err := l.TryLock(t.Context(), "job")
	if err == nil {
		_ = k.Unlock()
		return false
	}
	fleet.WantIs(t, err, redlock.ErrNoQuorum)
	var q *redlock.QuorumError
	if !errors.As(err, &q) || !strings.Contains(err.Error(), q.Nodes[0].Addr) {
		t.Fatalf("the error does not name the node: %v", err)
	}
	var said *redlock.ReplyError
	if c.code == "" {
		return strings.Contains(err.Error(), c.says)
	}
	return errors.As(q.Nodes[0], &said) && said.Code == c.code
}

// keepBusy makes the master run a script that does not end.
func keepBusy(t *testing.T, n *masters.Node, _ redis.Conn) {
	t.Helper()
	endless := cases.Must(n.Dial(t.Context(), 20*time.Second))(t)
	t.Cleanup(func() { _ = endless.Close() })
	cases.NoError(t, endless.Send("EVAL", "while true do end", 0))
	cases.NoError(t, endless.Flush())
}

func endScript(t *testing.T, _ *masters.Node, admin redis.Conn) {
	t.Helper()
	fleet.Eventually(t, "the script is killed", func() bool {
		_, err := admin.Do("SCRIPT", "KILL")
		return err == nil
	})
}

// loadSlowly restarts the master with a file that takes it a while to load.
func loadSlowly(t *testing.T, n *masters.Node, admin redis.Conn) {
	t.Helper()
	cases.Must(admin.Do("EVAL", "for i = 1, 10000 do redis.call('SET', 'k' .. i, 'v') end", 0))(t)
	cases.Must(admin.Do("SAVE"))(t)
	cases.NoError(t, n.Kill())
	started := make(chan error, 1)
	go func() { started <- n.Start() }() // returns when it has loaded
	t.Cleanup(func() { cases.NoError(t, <-started) })
}
