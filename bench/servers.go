package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// A server is one redis-server process of ours.
type server struct {
	*redisserver.Server
	ctl redis.Conn // for counting and cleaning, never measured
}

// startServers starts servers, with the defaults unless config says otherwise.
func startServers(n int, config redisserver.Config) (servers []*server, err error) {
	defer func() {
		if err != nil {
			stopServers(servers)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range n {
		process, err := redisserver.Launch(ctx, config)
		if err != nil {
			return servers, err
		}
		s := &server{Server: process}
		servers = append(servers, s)
		if err := s.control(); err != nil {
			return servers, err
		}
	}
	return servers, nil
}

func stopServers(servers []*server) {
	for _, s := range servers {
		if s.ctl != nil {
			s.ctl.Close()
		}
		_ = s.Remove(context.Background())
	}
}

// revive starts the server again after it was killed.
func (s *server) revive() error {
	s.ctl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.Start(ctx); err != nil {
		return err
	}
	return s.control()
}

// control opens the bench's own connection. It never needs TLS.
func (s *server) control() (err error) {
	s.ctl, err = redis.Dial("unix", s.Socket(), redis.DialReadTimeout(5*time.Second))
	return err
}

// check fails unless the process that this server started answers at its address: another one may have taken the port.
// trust is nil where the server does not speak TLS.
func (s *server) check(trust *tls.Config) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("the master %s: %w", s.Addr(), err)
		}
	}()
	const patience = 20 * time.Second
	c, err := redis.Dial("tcp", s.Addr(), redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience),
		redis.DialUseTLS(trust != nil), redis.DialTLSConfig(trust))
	if err != nil {
		return err
	}
	defer c.Close()
	fields, err := redisserver.Info(c, "server")
	if err != nil {
		return err
	}
	if got, want := fields["process_id"], strconv.Itoa(s.PID()); got != want {
		return fmt.Errorf("the process %s answers there, not %s", got, want)
	}
	// The master ends the connection itself, before it answers anybody else: what is counted next is without it.
	_, err = c.Do("QUIT")
	return err
}

// cpuOf is the CPU time of all of a process's threads so far.
func cpuOf(pid int) (sum time.Duration) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, file := range threads {
		text, _ := os.ReadFile(file) // none of a thread that has just ended
		ns, _, _ := strings.Cut(string(text), " ")
		n, _ := strconv.ParseInt(ns, 10, 64)
		sum += time.Duration(n)
	}
	return sum
}

// onceRecords begins the keys that say what has been done: they are to stay.
const onceRecords = "redlock:once:"

// sweep counts the keys with this prefix that the bench's locks left behind, a second later where there are any: a
// master that lags on a busy machine may still have the releases before it. It deletes all the bench's keys. The node's
// own records (the token set) are none of them.
func (s *server) sweep(prefix string) (orphans int, err error) {
	left := func() ([]string, error) { return redis.Strings(s.ctl.Do("KEYS", "*"+namePrefix+"*")) }
	keys, err := left()
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	time.Sleep(time.Second)
	if keys, err = left(); err != nil || len(keys) == 0 {
		return 0, err
	}
	for _, key := range keys {
		if strings.Contains(key, prefix) && !strings.HasPrefix(key, onceRecords) {
			orphans++
		}
	}
	_, err = s.ctl.Do("UNLINK", redis.Args{}.AddFlat(keys)...)
	return orphans, err
}

func addrs[S interface{ Addr() string }](servers []S) (list []string) {
	for _, s := range servers {
		list = append(list, s.Addr())
	}
	return list
}
