package lock_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/redisserver"
)

const secret = "s3cret+/ß%&"

var acl = masters.Spec{
	Args:  []string{"--aclfile", "{dir}/users.acl"},
	Files: map[string]string{"users.acl": "user default off\nuser ann on >" + secret + " ~* &* +@all\n"},
	User:  "ann", Password: secret,
}

// Each way to write a node's URL leads to it, and to the database that it names.
func TestURLs(t *testing.T) {
	t.Parallel()
	authority, err := redisserver.NewAuthority()
	fleet.Must(t, err)
	for name, c := range map[string]struct {
		spec     masters.Spec
		url      func(*masters.Node) string // nil: its own
		opts     []redlock.Option
		database int
		process  bool // sockets do not leave a container
	}{
		"password": {spec: masters.Spec{Args: []string{"--requirepass", secret}, Password: secret}},
		"ACL":      {spec: acl},
		"database": {url: func(n *masters.Node) string { return n.URL() + "/3" }, database: 3},
		"address":  {url: (*masters.Node).Addr},
		"address with a user": {
			spec: acl, url: func(n *masters.Node) string { return url.UserPassword("ann", secret).String() + "@" + n.Addr() },
		},
		"socket": {url: func(n *masters.Node) string { return "unix://" + n.Socket() }, process: true},
		"TLS": {
			spec: masters.Spec{TLS: authority},
			opts: []redlock.Option{redlock.WithNodeConfig(redlock.NodeConfig{TLS: authority.ClientConfig()})},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var f fleet.Fleet
			if c.process {
				p, err := masters.NewProcesses()
				fleet.Must(t, err)
				f.Nodes = masters.Start(t, p, 3, c.spec)
			} else {
				f = fleet.StartSpec(t, 3, c.spec)
			}
			urls := masters.URLs(f.Nodes)
			if c.url != nil {
				for i, n := range f.Nodes {
					urls[i] = c.url(n)
				}
			}
			k := fleet.Lock(t, fleet.Locker(t, urls, append(c.opts, redlock.WithTTL(fleet.Long))...), "n")
			for _, n := range f.Nodes {
				conn, err := n.Dial(t.Context(), 5*time.Second)
				fleet.Must(t, err)
				_, err = conn.Do("SELECT", c.database)
				fleet.Must(t, err)
				fleet.Eventually(t, "the database has the key", func() bool {
					got, err := redis.String(conn.Do("GET", "n"))
					return err == nil && got == k.Owner()
				})
				fleet.Must(t, conn.Close())
				if got := fleet.Holder(t, n, "n"); c.database != 0 && got != "" {
					t.Errorf("database 0 has %q", got)
				}
			}
			fleet.Must(t, k.Unlock())
		})
	}
}

// Where the certificate is not trusted, or one side speaks TLS and the other does not, the error says so. It does when
// a connection has been tried: a busy machine may take longer for that than a call waits.
func TestTLSThatFails(t *testing.T) {
	t.Parallel()
	authority, err := redisserver.NewAuthority()
	fleet.Must(t, err)
	secure, plain := fleet.StartSpec(t, 1, masters.Spec{TLS: authority}).Nodes[0], fleet.Start(t, 1).Nodes[0]
	for what, c := range map[string]struct{ url, want string }{
		"an authority that is not trusted": {secure.URL(), "certificate signed by unknown authority"},
		"TLS to a plain server":            {"rediss://" + plain.Addr(), "TLS"},
		"plain to a TLS server":            {"redis://" + secure.Addr(), "TLS"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			l := fleet.Locker(t, []string{c.url}, redlock.WithNodeTimeout(time.Second))
			var err error
			if !fleet.Soon(func() bool {
				_, err = l.TryLock(t.Context(), "n")
				fleet.WantIs(t, err, redlock.ErrNoQuorum)
				return err == nil || strings.Contains(err.Error(), c.want)
			}) {
				t.Errorf("got %v, want an error that mentions %q", err, c.want)
			}
		})
	}
}
