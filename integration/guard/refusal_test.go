package guard_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

func split(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	fleet.Must(t, err)
	return host, port
}

func contains(err error, text string) bool { return strings.Contains(fmt.Sprintf("%+v", err), text) }

// A master that is frozen is said not to answer, also when its connection has been replaced: nothing is wrong with its
// address.
func TestAFrozenMasterIsNotUnreachable(t *testing.T) {
	f := fleet.StartSpec(t, 3, masters.Spec{})
	l := f.Locker(t, redlock.WithNodeTimeout(250*time.Millisecond))
	n := f.Nodes[0]
	fleet.Must(t, n.Pause())
	defer func() { fleet.Must(t, n.Resume()) }()
	texts := map[string]bool{}
	fleet.Eventually(t, "the node is silent, its connection replaced, and the next one silent as well", func() bool {
		_, _ = l.TryLock(t.Context(), "job", redlock.WithTTL(time.Second), redlock.WithoutRenewal())
		for _, s := range l.Nodes(t.Context()) {
			if s.Addr != n.Addr() || s.Err == nil {
				continue
			}
			if !errors.Is(s.Err, redlock.ErrNodeTimeout) || s.Connected == errors.Is(s.Err, redlock.ErrNodeDown) {
				t.Errorf("connected %t, %v", s.Connected, s.Err)
			}
			if s.Findings[0].Code != "silent" {
				t.Errorf("got the finding %+v, want silent", s.Findings[0])
			}
			text, _, _ := strings.Cut(s.Err.Error(), " for ")
			texts[text] = true
		}
		return texts["no answer within the node timeout"] && texts["not connected: no answer"] &&
			texts["not connected: it accepts connections, but did not answer"]
	})
}

// Every way in which a server refuses work gives an error that says which node refused
// what, within the node timeout; and when it ends, so does the trouble.
func TestRefusals(t *testing.T) {
	t.Parallel()
	set := func(name, value string) func(*testing.T, redis.Conn) {
		return func(t *testing.T, admin redis.Conn) {
			t.Helper()
			_, err := admin.Do("CONFIG", "SET", name, value)
			fleet.Must(t, err)
		}
	}
	// reconnect makes clients come back, as after any network fault.
	reconnect := func(do func(*testing.T, redis.Conn)) func(*testing.T, redis.Conn) {
		return func(t *testing.T, admin redis.Conn) {
			t.Helper()
			do(t, admin)
			_, err := admin.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			fleet.Must(t, err)
		}
	}
	do := func(args ...any) func(*testing.T, redis.Conn) {
		return func(t *testing.T, admin redis.Conn) {
			t.Helper()
			_, err := admin.Do(args[0].(string), args[1:]...)
			fleet.Must(t, err)
		}
	}
	for _, c := range []struct {
		code       string
		begin, end func(*testing.T, redis.Conn)
	}{
		{"OOM", set("maxmemory", "1"), set("maxmemory", "0")},
		{"NOREPLICAS", set("min-replicas-to-write", "1"), set("min-replicas-to-write", "0")},
		{"NOAUTH", reconnect(set("requirepass", "secret")), reconnect(set("requirepass", ""))},
		{"NOPERM", do("ACL", "SETUSER", "default", "-evalsha"), do("ACL", "SETUSER", "default", "+@all")},
		{"MAXCLIENTS", reconnect(set("maxclients", "1")), set("maxclients", "100")},
	} {
		t.Run(c.code, func(t *testing.T) {
			t.Parallel()
			// As the default user, whatever rights the suite runs with: these are what is taken away.
			f := fleet.StartSpec(t, 1, masters.Spec{ClientUser: "default"})
			admin, err := f.Nodes[0].Dial(t.Context(), 5*time.Second)
			fleet.Must(t, err)
			defer func() { _ = admin.Close() }()
			l := f.Locker(t, redlock.WithTTL(time.Second))
			c.begin(t, admin)
			refused(t, l, c.code)
			c.end(t, admin)
			fleet.Eventually(t, "it works again", func() bool {
				k, err := l.TryLock(t.Context(), "job")
				return err == nil && k.Unlock(t.Context()) == nil
			})
		})
	}
}

// refused waits until the node refuses with the code; every call must return in time.
func refused(t *testing.T, l *redlock.Locker, code string) {
	t.Helper()
	var last error
	fleet.Eventually(t, "it is refused with "+code, func() bool {
		begun := time.Now()
		var k *redlock.Lock
		if k, last = l.TryLock(t.Context(), "job"); last == nil {
			_ = k.Unlock(t.Context())
		}
		if took := time.Since(begun); took > 25*time.Second {
			t.Fatalf("a call took %v", took)
		}
		said := reply(t, last)
		return said != nil && said.Code == code
	})
	if !errors.Is(last, redlock.ErrNoQuorum) {
		t.Errorf("got %v, want ErrNoQuorum", last)
	}
	t.Log(last)
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 1, masters.Spec{})
	u, err := url.Parse(f.Nodes[0].URL())
	fleet.Must(t, err)
	u.User = url.UserPassword("nobody", "hunter2")
	l := fleet.Locker(t, []string{u.String()})
	_, err = l.TryLock(t.Context(), "job")
	if said := reply(t, err); said == nil || said.Code != "WRONGPASS" || contains(err, "hunter2") {
		t.Errorf("got %v", err)
	}
	_, err = f.Nodes[0].Do("ACL", "SETUSER", "nobody", "on", ">hunter2", "+@all", "~*", "&*")
	fleet.Must(t, err)
	fleet.Eventually(t, "it is let in", func() bool {
		k, err := l.TryLock(t.Context(), "job")
		return err == nil && k.Unlock(t.Context()) == nil
	})
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 2, masters.Spec{})
	l := fleet.Locker(t, []string{f.Nodes[0].URL()})
	host, port := split(t, f.Nodes[1].Addr())
	_, err := f.Nodes[0].Do("REPLICAOF", host, port)
	fleet.Must(t, err)
	_, err = l.TryLock(t.Context(), "job")
	if err == nil || !contains(err, "it is a replica of") { // as a probe has found out already
		if said := reply(t, err); said == nil || said.Code != "READONLY" {
			t.Errorf("the first to notice: got %v", err)
		}
	}
	fleet.Eventually(t, "then the node is refused", func() bool {
		_, err := l.TryLock(t.Context(), "job")
		return err != nil && contains(err, "it is a replica of")
	})
	_, err = f.Nodes[0].Do("REPLICAOF", "NO", "ONE")
	fleet.Must(t, err)
	fleet.Eventually(t, "it is used again", func() bool {
		k, err := l.TryLock(t.Context(), "job")
		return err == nil && k.Unlock(t.Context()) == nil
	})
}

func TestBusy(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 1, masters.Spec{Args: []string{"--lua-time-limit", "50"}})
	l := f.Locker(t, redlock.WithNodeTimeout(500*time.Millisecond), redlock.WithTTL(time.Second))
	endless, err := f.Nodes[0].Dial(t.Context(), 20*time.Second)
	fleet.Must(t, err)
	defer func() { _ = endless.Close() }()
	fleet.Must(t, endless.Send("EVAL", "while true do end", 0))
	fleet.Must(t, endless.Flush())
	refused(t, l, "BUSY")
	fleet.Eventually(t, "the script is killed", func() bool {
		_, err := f.Nodes[0].Do("SCRIPT", "KILL")
		return err == nil
	})
	fleet.Eventually(t, "it works again", func() bool {
		k, err := l.TryLock(t.Context(), "job")
		return err == nil && k.Unlock(t.Context()) == nil
	})
}

// A lock that is released while the node is busy is free soon after, and not when its TTL is over.
func TestReleaseOfABusyNode(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 1, masters.Spec{Args: []string{"--lua-time-limit", "50"}})
	k, err := f.Locker(t, redlock.WithTTL(fleet.Long)).Lock(t.Context(), "job")
	fleet.Must(t, err)
	endless, err := f.Nodes[0].Dial(t.Context(), 20*time.Second)
	fleet.Must(t, err)
	defer func() { _ = endless.Close() }()
	fleet.Must(t, endless.Send("EVAL", "while true do end", 0))
	fleet.Must(t, endless.Flush())
	fleet.Eventually(t, "it is busy", func() bool {
		_, err := f.Nodes[0].Do("GET", "job")
		return err != nil && contains(err, "BUSY")
	})
	if err := k.Unlock(t.Context()); err == nil || !contains(err, "BUSY") {
		t.Errorf("got %v, want BUSY", err)
	}
	fleet.Eventually(t, "the script is killed", func() bool {
		_, err := f.Nodes[0].Do("SCRIPT", "KILL")
		return err == nil
	})
	fleet.Eventually(t, "the lock is free", func() bool {
		n, err := redis.Int(f.Nodes[0].Do("EXISTS", "job"))
		return err == nil && n == 0
	})
}

func TestLoading(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 1, masters.Spec{Args: []string{
		"--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024", "--dbfilename", "slow.rdb",
	}})
	n := f.Nodes[0]
	_, err := n.Do("EVAL", "for i = 1, 10000 do redis.call('SET', 'k' .. i, 'v') end", 0)
	fleet.Must(t, err)
	_, err = n.Do("SAVE")
	fleet.Must(t, err)
	l := f.Locker(t)
	fleet.Must(t, n.Kill())
	started := make(chan error, 1)
	go func() { started <- n.Start() }() // returns when it has loaded
	refused(t, l, "LOADING")
	fleet.Must(t, <-started)
	fleet.Eventually(t, "it works again", func() bool {
		k, err := l.TryLock(t.Context(), "job")
		return err == nil && k.Unlock(t.Context()) == nil
	})
}

func TestEvictionIsRefused(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 1, masters.Spec{Args: []string{"--maxmemory", "100mb", "--maxmemory-policy", "volatile-lru"}})
	l := f.Locker(t)
	_, err := l.TryLock(t.Context(), "job")
	if !errors.Is(err, redlock.ErrNoQuorum) || !contains(err, "CONFIG SET maxmemory-policy noeviction") {
		t.Errorf("got %v", err)
	}
	_, err = f.Nodes[0].Do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	fleet.Must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	k, err := l.Lock(ctx, "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Unlock(t.Context()))
	_, err = f.Nodes[0].Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	fleet.Must(t, err)
	fleet.Eventually(t, "a probe notices that it evicts again", func() bool {
		k, err := l.TryLock(t.Context(), "job")
		if err == nil {
			err = k.Unlock(t.Context()) // the probe may come between the two
		}
		return err != nil && contains(err, "maxmemory-policy allkeys-lru may evict locks")
	})
}

func TestOneServerUnderTwoURLs(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 2, masters.Spec{})
	nw := f.Network(t)
	l, err := redlock.New([]string{f.Nodes[0].URL(), nw.URLs[0], f.Nodes[1].URL()}, redlock.WithNodeTimeout(5*time.Second))
	if err == nil {
		fleet.Must(t, l.Close())
	}
	if !errors.Is(err, redlock.ErrInvalid) || !contains(err, f.Nodes[0].Addr()) || !contains(err, nw.Proxies[0].Addr()) {
		t.Errorf("got %v, want ErrInvalid that names both", err)
	}
}
