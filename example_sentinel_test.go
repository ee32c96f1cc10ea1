package redlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// Each node is a master that Sentinels watch. The host of its URL is the name by which they know it, and the dialer
// asks them, whenever the node is connected, where that master is. docs/operations.md says what is then not promised.
func ExampleNodeConfig_sentinel() {
	masters, stop := sixMasters()
	defer stop()
	sentinel := startSentinel(masters)
	defer sentinel.Close()

	sentinels := []string{sentinel.Addr().String()} // "10.0.0.1:26379", …
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		name, _, err := net.SplitHostPort(address)
		for _, sentinel := range sentinels {
			var c redis.Conn
			if c, err = redis.DialContext(ctx, "tcp", sentinel); err != nil {
				continue
			}
			var master []string
			master, err = redis.Strings(redis.DoContext(c, ctx, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name))
			c.Close()
			if err == nil {
				return new(net.Dialer).DialContext(ctx, network, net.JoinHostPort(master[0], master[1]))
			}
		}
		return nil, fmt.Errorf("no Sentinel knows where %s is: %w", name, err)
	}
	nodes := []string{"redis://group-1", "redis://group-2", "redis://group-3", "redis://group-4", "redis://group-5"}
	locker, err := redlock.New(nodes, redlock.WithNodeConfig(redlock.NodeConfig{Dial: dial}), patient)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	ctx := context.Background()
	lock, err := locker.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	sentinel.failOver("group-1", masters.Addr(5))
	masters.Kill(0)

	// The Locker follows. The other master may lack what the former one had granted, so its vote does not count yet.
	first := locker.Status(ctx)[0]
	for !first.Connected || first.Err == nil {
		time.Sleep(10 * time.Millisecond)
		first = locker.Status(ctx)[0]
	}
	fmt.Println(first.Addr, "abstains:", errors.Is(first.Err, redlock.ErrNodeAbstains))
	fmt.Println(lock.Unlock()) // the other four are a majority
	// Output:
	// group-1:6379 abstains: true
	// <nil>
}

// sixMasters replaces the masters of five groups, and a replica that will be promoted.
func sixMasters() (masters *redlocktest.Cluster, stop func()) {
	masters, err := redlocktest.Start(6)
	if err != nil {
		log.Fatal(err)
	}
	return masters, masters.Close
}

// fakeSentinel answers each command with the address of the master whose name is in it.
type fakeSentinel struct {
	net.Listener
	mu    sync.Mutex // guards addrs
	addrs map[string]string
}

// startSentinel replaces your Sentinels.
func startSentinel(masters *redlocktest.Cluster) *fakeSentinel {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	s := &fakeSentinel{Listener: l, addrs: map[string]string{}}
	for i := range 5 {
		s.failOver(fmt.Sprintf("group-%d", i+1), masters.Addr(i))
	}
	go func() { // until Close
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.answer(c)
		}
	}()
	return s
}

func (s *fakeSentinel) failOver(name, addr string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addrs[name] = addr
}

func (s *fakeSentinel) answer(c net.Conn) {
	defer c.Close()
	for lines := bufio.NewScanner(c); lines.Scan(); {
		s.mu.Lock()
		addr := s.addrs[lines.Text()]
		s.mu.Unlock()
		if host, port, known := strings.Cut(addr, ":"); known {
			io.WriteString(c, fmt.Sprintf("*2\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(host), host, len(port), port))
		}
	}
}
