package lock_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/redisserver"
)

const secret = "s3cret+/ß%&"

func acl(t *testing.T) masters.Spec {
	t.Helper()
	return masters.Spec{
		Args:  []string{"--aclfile", "{dir}/users.acl"},
		Files: map[string]string{"users.acl": "user default off\nuser ann on >" + secret + " ~* &* +@all\n"},
		User:  "ann", Password: secret,
	}
}

func TestUserAndPassword(t *testing.T) {
	for name, spec := range map[string]masters.Spec{
		"password": {Args: []string{"--requirepass", secret}, Password: secret},
		"ACL":      acl(t),
	} {
		t.Run(name, func(t *testing.T) {
			f := fleet.StartSpec(t, 3, spec)
			k := lock(t, f.Locker(t, redlock.WithTTL(long)), "n")
			fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
			unlock(t, k)
		})
	}
}

func TestDatabase(t *testing.T) {
	f := fleet.Start(t, 3)
	var urls []string
	for _, n := range f.Nodes {
		urls = append(urls, n.URL()+"/3")
	}
	k := lock(t, fleet.Locker(t, urls, redlock.WithTTL(long)), "n")
	for _, n := range f.Nodes {
		if got := fleet.Holder(t, n, "n"); got != "" {
			t.Errorf("database 0 has %q", got)
		}
		c, err := n.Dial(t.Context(), time.Second)
		fleet.Must(t, err)
		_, err = c.Do("SELECT", 3)
		fleet.Must(t, err)
		fleet.Eventually(t, "database 3 has the key", func() bool {
			got, err := redis.String(c.Do("GET", "n"))
			return err == nil && got == k.Owner()
		})
		fleet.Must(t, c.Close())
	}
	unlock(t, k)
}

func TestAddressesWithoutAScheme(t *testing.T) {
	f := fleet.StartSpec(t, 3, masters.Spec{})
	var urls []string
	for i, n := range f.Nodes {
		at := n.Addr()
		if i == 2 {
			_, err := n.Do("ACL", "SETUSER", "ann", "on", ">"+secret, "~*", "&*", "+@all")
			fleet.Must(t, err)
			at = url.UserPassword("ann", secret).String() + "@" + at
		}
		urls = append(urls, at)
	}
	k := lock(t, fleet.Locker(t, urls, redlock.WithTTL(long)), "n")
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	unlock(t, k)
}

func TestUnixSocket(t *testing.T) {
	// Sockets do not leave a container: these masters are always processes.
	p, err := masters.NewProcesses()
	fleet.Must(t, err)
	f := fleet.Fleet{Nodes: masters.Start(t, p, 3, masters.Spec{})}
	var urls []string
	for _, n := range f.Nodes {
		urls = append(urls, "unix://"+n.Socket())
	}
	k := lock(t, fleet.Locker(t, urls, redlock.WithTTL(long)), "n")
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	unlock(t, k)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	authority, err := redisserver.NewAuthority()
	fleet.Must(t, err)
	f := fleet.StartSpec(t, 3, masters.Spec{TLS: authority})
	k := lock(t, f.Locker(t, redlock.WithTTL(long), redlock.WithTLSConfig(authority.ClientConfig())), "n")
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	unlock(t, k)

	plain := fleet.Start(t, 3)
	var asTLS, asPlain []string
	for i := range f.Nodes {
		asTLS = append(asTLS, "rediss://"+plain.Nodes[i].Addr())
		asPlain = append(asPlain, "redis://"+f.Nodes[i].Addr())
	}
	for what, c := range map[string]struct {
		urls []string
		want string
	}{
		"an authority that is not trusted": {masters.URLs(f.Nodes), "certificate"},
		"TLS to a plain server":            {asTLS, ""},
		"plain to a TLS server":            {asPlain, ""},
	} {
		l := fleet.Locker(t, c.urls, redlock.WithNodeTimeout(2*time.Second))
		_, err := l.TryLock(t.Context(), "n")
		wantIs(t, err, redlock.ErrNoQuorum)
		if err != nil && !strings.Contains(strings.ToLower(err.Error()), c.want) {
			t.Errorf("%s: the error does not mention %q: %v", what, c.want, err)
		}
	}
}

// journal is a log that may be read while it is written.
type journal struct {
	mu sync.Mutex // protects b
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.String()
}

// Whatever goes wrong, errors and logs never tell the password.
func TestThePasswordNeverAppears(t *testing.T) {
	const wrong = "hunter2-hunter2"
	f := fleet.StartSpec(t, 3, acl(t))
	var log journal
	logger := redlock.WithLogger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
	user := url.UserPassword("ann", wrong).String()

	var said []string
	tell := func(err error) {
		t.Helper()
		if err == nil {
			t.Error("no error")
			return
		}
		said = append(said, err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err))
	}
	for _, bad := range []string{
		"redis://" + user + "@127.0.0.1:port", "redis://" + user + "@127.0.0.1:99999", "redis://" + user + "@127.0.0.1/x",
		"http://" + user + "@127.0.0.1", "redis://" + user + "@%zz", "redis://" + user + "@127.0.0.1:1 2",
		"redis://ann:" + wrong + "%@h",
		user + "@127.0.0.1:6379", "redis://" + user + "@[::1", "redis://" + user + "@127.0.0.1?db=x",
		"unix://" + user + "@/s?db=x",
		"redis:" + user + "@127.0.0.1", "redis://" + user, "\x7fredis://" + user + "@h", " redis://" + user + "@h",
	} {
		l, err := redlock.New([]string{bad}, logger, redlock.WithNodeTimeout(50*time.Millisecond))
		if err == nil { // it may be a URL after all: of a server that is not there
			_, err = l.TryLock(t.Context(), "n")
			fleet.Must(t, l.Close())
		}
		tell(err)
	}
	twice := "redis://" + user + "@" + f.Nodes[0].Addr()
	_, err := redlock.New([]string{twice, twice})
	tell(err)

	var urls []string
	for _, n := range f.Nodes {
		urls = append(urls, "redis://"+user+"@"+n.Addr())
	}
	urls = append(urls, "redis://"+user+"@"+fleet.FreshAddr(t), "rediss://"+user+"@"+f.Nodes[0].Addr()+"0")
	l, err := redlock.New(urls[:4], logger, redlock.WithNodeTimeout(2*time.Second))
	fleet.Must(t, err)
	_, err = l.TryLock(t.Context(), "n")
	tell(err)
	if err != nil && !strings.Contains(err.Error(), "WRONGPASS") {
		t.Errorf("the error does not say what is wrong: %v", err)
	}
	fleet.Must(t, l.Close())
	said = append(said, log.String())
	for _, s := range said {
		for _, p := range []string{wrong, url.QueryEscape(wrong)} {
			if strings.Contains(s, p) {
				t.Errorf("the password is in: %s", s)
			}
		}
	}
}
