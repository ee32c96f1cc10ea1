package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// Three members of etcd, with the defaults of its own command. In memory nothing is lost by a member's death either:
// only a machine's would lose it.
var (
	etcdOnDisk  = &system{name: "etcd", product: "etcd", prepare: buildEtcd, command: etcdMember, ask: askEtcd}
	etcd3       = contestant{name: "etcd", nodes: 3, system: etcdOnDisk, open: openEtcd}
	etcdMemory3 = inMemory(etcd3)
)

// etcdBinary is built once, into a cache that outlives the bench: it takes a minute the first time.
var etcdBinary = filepath.Join(os.TempDir(), "redlock-bench-etcd")

var buildEtcd = sync.OnceFunc(func() {
	cmd := exec.Command("go", "build", "-C", "etcd", "-o", etcdBinary, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		must(fmt.Errorf("build a member of etcd: %w\n%s", err, out))
	}
})

func etcdMember(all []*member, i int) *exec.Cmd {
	var cluster []string
	for j, m := range all {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", j, m.peer.Addr()))
	}
	client, peer := "http://"+all[i].client.Addr(), "http://"+all[i].peer.Addr()
	config := made(json.Marshal(map[string]string{ // which is YAML, too
		"name": fmt.Sprintf("m%d", i), "data-dir": filepath.Join(all[i].dir, "data"), "log-level": "error",
		"listen-client-urls": client, "advertise-client-urls": client,
		"listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": strings.Join(cluster, ","),
	}))
	file := filepath.Join(all[i].dir, "etcd.yaml")
	must(os.WriteFile(file, config, 0o600))
	return exec.Command(etcdBinary, file)
}

func askEtcd(ctx context.Context, addr string) (leads bool, version string) {
	c := connectEtcd([]string{addr})
	defer c.Close()
	s := made(c.Status(ctx, addr))
	made(c.Get(ctx, "x")) // agreed upon with the others, so there is a leader
	return s.Leader == s.Header.MemberId, s.Version
}

// connectEtcd has the keepalive times of etcdctl: without, a silent member would never be noticed.
func connectEtcd(nodes []string) *clientv3.Client {
	return made(clientv3.New(clientv3.Config{
		Endpoints: nodes, DialTimeout: peerTimeout,
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 6 * time.Second,
		Logger: zap.NewNop(), // else a line for each refused connection
	}))
}

// An etcdSession is the one session of a process, and the next one when it has ended.
type etcdSession struct {
	client  *clientv3.Client
	ttl     time.Duration
	mu      sync.Mutex
	session *concurrency.Session // guarded by mu
}

func (s *etcdSession) get(ctx context.Context) (_ *concurrency.Session, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.session != nil {
		select {
		case <-s.session.Done():
		default:
			return s.session, nil
		}
	}
	// The session must outlive ctx, so its lease is asked for apart.
	lease, err := s.client.Grant(ctx, int64(s.ttl/time.Second))
	if err != nil {
		return nil, err
	}
	s.session, err = concurrency.NewSession(s.client, concurrency.WithLease(lease.ID))
	return s.session, err
}

func (s *etcdSession) close() {
	ctx, cancel := context.WithTimeout(context.Background(), peerTimeout)
	defer cancel()
	if s.session != nil {
		s.session.Orphan()
		_, _ = s.client.Revoke(ctx, s.session.Lease())
	}
	_ = s.client.Close()
}

// openEtcd uses the client's own lock. It knows no time-out but the caller's: who has none gets that of the peers.
func openEtcd(nodes []string, w wish) *client {
	s := &etcdSession{client: connectEtcd(nodes), ttl: w.ttl}
	return &client{
		worker: func() worker {
			var held *concurrency.Mutex
			return worker{
				lock: func(ctx context.Context, name string) error {
					if ctx.Done() == nil {
						limited, cancel := context.WithTimeout(ctx, peerTimeout)
						defer cancel()
						ctx = limited
					}
					session, err := s.get(ctx)
					if err != nil {
						return err
					}
					held = concurrency.NewMutex(session, name)
					return held.Lock(ctx)
				},
				unlock: func(ctx context.Context) error {
					ctx, cancel := context.WithTimeout(ctx, peerTimeout)
					defer cancel()
					return held.Unlock(ctx)
				},
				held: func() any { return held },
			}
		},
		close: s.close,
	}
}

// Three members of ZooKeeper, from Debian's package, with the settings of its example.
var (
	zooKeeper = &system{
		name: "ZooKeeper", product: "ZooKeeper",
		prepare: findZooKeeper, command: zooMember, ask: askZooKeeper,
	}
	zooKeeper3       = contestant{name: "ZooKeeper", nodes: 3, system: zooKeeper, open: openZooKeeper}
	zooKeeperMemory3 = inMemory(zooKeeper3)
)

// zooJar names its dependencies.
const zooJar = "/usr/share/java/zookeeper.jar"

func findZooKeeper() {
	_, err := exec.LookPath("java")
	if _, bad := os.Stat(zooJar); bad != nil || err != nil {
		must(fmt.Errorf("install ZooKeeper (Debian: apt-get install zookeeper), or leave it out by -contestant: %w",
			errors.Join(err, bad)))
	}
}

func zooMember(all []*member, i int) *exec.Cmd {
	own := all[i]
	var config strings.Builder
	fmt.Fprintf(&config, `tickTime=2000
initLimit=10
syncLimit=5
dataDir=%s
clientPort=%d
clientPortAddress=127.0.0.1
maxClientCnxns=0
minSessionTimeout=1000
admin.enableServer=false
`, own.dir, own.client.Number)
	for j, m := range all {
		fmt.Fprintf(&config, "server.%d=127.0.0.1:%d:%d\n", j+1, m.peer.Number, m.election.Number)
	}
	file := filepath.Join(own.dir, "zoo.cfg")
	must(os.WriteFile(file, []byte(config.String()), 0o600))
	must(os.WriteFile(filepath.Join(own.dir, "myid"), []byte(strconv.Itoa(i+1)), 0o600))
	return exec.Command("java", "-Xmx512m", "-cp", zooJar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file)
}

// askZooKeeper sends the one command that it answers by default.
func askZooKeeper(ctx context.Context, addr string) (leads bool, version string) {
	conn := made(new(net.Dialer).DialContext(ctx, "tcp", addr))
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	made(conn.Write([]byte("srvr")))
	mode := ""
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		switch key, value, _ := strings.Cut(lines.Text(), ": "); key {
		case "Mode":
			mode = value
		case "Zookeeper version":
			version, _, _ = strings.Cut(value, "-")
		}
	}
	if mode == "" {
		must(errors.New("it does not serve"))
	}
	return mode == "leader", version
}

// connectZooKeeper returns when the session is there.
func connectZooKeeper(nodes []string, ttl time.Duration) *zk.Conn {
	dial := func(network, addr string, d time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, addr, d)
		return zooConn{conn, ttl}, err
	}
	c, events, err := zk.Connect(nodes, ttl, zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithDialer(dial))
	must(err)
	for late := time.After(10 * time.Second); ; {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return c
			}
		case <-late:
			c.Close()
			must(errors.New("ZooKeeper gives no session"))
		}
	}
}

// A zooConn waits for a member's greeting no longer than the peers' time-out. The client would wait for a silent member
// for almost seven TTLs, and for nothing else longer than one.
type zooConn struct {
	net.Conn

	ttl time.Duration
}

func (c zooConn) SetReadDeadline(t time.Time) error {
	if time.Until(t) > c.ttl {
		t = time.Now().Add(peerTimeout)
	}
	return c.Conn.SetReadDeadline(t)
}

// own finds what this session has in the queue of a lock, and the zxid of each.
func own(c *zk.Conn, path string) (places map[string]int64, err error) {
	all, _, err := c.Children(path)
	places = map[string]int64{}
	for _, place := range all {
		place = path + "/" + place
		_, stat, bad := c.Get(place)
		if bad == nil && stat.EphemeralOwner == c.SessionID() {
			places[place] = stat.Czxid
		} else if !errors.Is(bad, zk.ErrNoNode) {
			err = errors.Join(err, bad)
		}
	}
	return places, err
}

// forget deletes what a session has left in the queue of a lock. When the connection breaks, the client's own lock
// leaves its place behind, and its next one would wait for that until the session ends.
func forget(c *zk.Conn, path string) (err error) {
	for until := time.Now().Add(lockTTL); time.Now().Before(until); time.Sleep(10 * time.Millisecond) {
		places, bad := own(c, path)
		for place := range places {
			if wrong := c.Delete(place, -1); !errors.Is(wrong, zk.ErrNoNode) {
				bad = errors.Join(bad, wrong)
			}
		}
		if err = bad; err == nil || errors.Is(err, zk.ErrNoNode) {
			return nil
		}
	}
	return err
}

// openZooKeeper uses the client's own lock. It takes no context: its time-out is that of the session.
func openZooKeeper(nodes []string, w wish) *client {
	c := connectZooKeeper(nodes, w.ttl)
	return &client{
		worker: func() worker {
			var held *zk.Lock
			var path string
			return worker{
				lock: func(_ context.Context, name string) error {
					path = "/" + name
					held = zk.NewLock(c, path, zk.WorldACL(zk.PermAll))
					err := held.Lock()
					if err != nil {
						err = errors.Join(err, forget(c, path))
					}
					return err
				},
				unlock: func(context.Context) error {
					if held.Unlock() == nil {
						return nil
					}
					return forget(c, path)
				},
				token: func() (int64, error) {
					places, err := own(c, path)
					for _, zxid := range places {
						return zxid, nil // it has no other: see forget
					}
					return 0, errors.Join(errors.New("its place is gone"), err)
				},
			}
		},
		close: c.Close,
	}
}
