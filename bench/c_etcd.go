package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

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

var buildEtcd = sync.OnceValue(func() error {
	cmd := exec.Command("go", "build", "-C", "etcd", "-o", etcdBinary, ".")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build a member: %w\n%s", err, out)
	}
	return nil
})

func etcdMember(all []*member, i int) (*exec.Cmd, error) {
	var cluster []string
	for j, m := range all {
		cluster = append(cluster, fmt.Sprintf("m%d=http://%s", j, m.peer.Addr()))
	}
	client, peer := "http://"+all[i].client.Addr(), "http://"+all[i].peer.Addr()
	config, err := json.Marshal(map[string]string{ // which is YAML, too
		"name": fmt.Sprintf("m%d", i), "data-dir": filepath.Join(all[i].dir, "data"), "log-level": "error",
		"listen-client-urls": client, "advertise-client-urls": client,
		"listen-peer-urls": peer, "initial-advertise-peer-urls": peer, "initial-cluster": strings.Join(cluster, ","),
	})
	file := filepath.Join(all[i].dir, "etcd.yaml")
	return exec.Command(etcdBinary, file), errors.Join(err, os.WriteFile(file, config, 0o600))
}

func askEtcd(ctx context.Context, addr string) (leads bool, version string, err error) {
	c, err := connectEtcd([]string{addr})
	if err != nil {
		return false, "", err
	}
	defer c.Close()
	s, err := c.Status(ctx, addr)
	if err == nil && s.Leader == 0 {
		err = errors.New("no leader")
	}
	if err == nil {
		_, err = c.Get(ctx, "x") // agreed upon with the others
	}
	if err != nil {
		return false, "", fmt.Errorf("etcd at %s: %w", addr, err)
	}
	return s.Leader == s.Header.MemberId, s.Version, nil
}

// connectEtcd has the keepalive times of etcdctl: without, a silent member would never be noticed.
func connectEtcd(nodes []string) (*clientv3.Client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints: nodes, DialTimeout: peerTimeout,
		DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 6 * time.Second,
		Logger: zap.NewNop(), // else a line for each refused connection
	})
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
func openEtcd(nodes []string, w wish) (*client, error) {
	c, err := connectEtcd(nodes)
	if err != nil {
		return nil, err
	}
	s := &etcdSession{client: c, ttl: w.ttl}
	return &client{
		worker: func() (worker, error) {
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
			}, nil
		},
		close: s.close,
	}, nil
}
