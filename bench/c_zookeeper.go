package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

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

func findZooKeeper() error {
	_, err := exec.LookPath("java")
	if _, bad := os.Stat(zooJar); bad != nil || err != nil {
		return fmt.Errorf("install it (Debian: apt-get install zookeeper), or leave it out by -contestant: %w",
			errors.Join(err, bad))
	}
	return nil
}

func zooMember(all []*member, i int) (*exec.Cmd, error) {
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
	err := errors.Join(os.WriteFile(file, []byte(config.String()), 0o600),
		os.WriteFile(filepath.Join(own.dir, "myid"), []byte(strconv.Itoa(i+1)), 0o600))
	return exec.Command("java", "-Xmx512m", "-cp", zooJar, "org.apache.zookeeper.server.quorum.QuorumPeerMain", file), err
}

// askZooKeeper sends the one command that it answers by default.
func askZooKeeper(ctx context.Context, addr string) (leads bool, version string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ZooKeeper at %s: %w", addr, err)
		}
	}()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false, "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return false, "", err
	}
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
		err = errors.New("it does not serve")
	}
	return mode == "leader", version, err
}

// connectZooKeeper returns when the session is there.
func connectZooKeeper(nodes []string, ttl time.Duration) (*zk.Conn, error) {
	dial := func(network, addr string, d time.Duration) (net.Conn, error) {
		conn, err := net.DialTimeout(network, addr, d)
		return zooConn{conn, ttl}, err
	}
	c, events, err := zk.Connect(nodes, ttl, zk.WithLogger(zooSilent{}), zk.WithDialer(dial))
	if err != nil {
		return nil, err
	}
	for late := time.After(10 * time.Second); ; {
		select {
		case e := <-events:
			if e.State == zk.StateHasSession {
				return c, nil
			}
		case <-late:
			c.Close()
			return nil, errors.New("ZooKeeper gives no session")
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

type zooSilent struct{}

func (zooSilent) Printf(string, ...any) {}

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
func openZooKeeper(nodes []string, w wish) (*client, error) {
	c, err := connectZooKeeper(nodes, w.ttl)
	if err != nil {
		return nil, err
	}
	return &client{
		worker: func() (worker, error) {
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
			}, nil
		},
		close: c.Close,
	}, nil
}
