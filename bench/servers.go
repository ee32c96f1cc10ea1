package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A server is one redis-server process of ours, on a free port of 127.0.0.1.
type server struct {
	addr   string
	cmd    *exec.Cmd
	ctl    redis.Conn // for counting and cleaning, never measured
	paused bool
}

// startServers starts n servers that keep nothing on disk unless args say so.
func startServers(n int, args ...string) (servers []*server, err error) {
	defer func() {
		if err != nil {
			stopServers(servers)
		}
	}()
	for range n {
		s, err := startServer(args...)
		if err != nil {
			return servers, err
		}
		servers = append(servers, s)
	}
	return servers, nil
}

func startServer(args ...string) (*server, error) {
	bin := os.Getenv("REDIS_SERVER")
	if bin == "" {
		bin = "redis-server"
	}
	if _, err := exec.LookPath(bin); err != nil {
		return nil, fmt.Errorf("%w: install redis-server (apt-get install redis-server), or set REDIS_SERVER", err)
	}
	dir, err := os.MkdirTemp("", "redlock-bench-")
	if err != nil {
		return nil, err
	}
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, _ := net.SplitHostPort(addr)
	s := &server{addr: addr, cmd: exec.Command(bin, append([]string{
		"--port", port, "--bind", "127.0.0.1", "--dir", dir, "--save", "", "--appendonly", "no",
	}, args...)...)}
	// Pdeathsig: nothing is left behind, even where this process is killed.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	for range 250 {
		if s.ctl, err = redis.Dial("tcp", addr, redis.DialReadTimeout(5*time.Second)); err == nil {
			if _, err = s.ctl.Do("PING"); err == nil {
				return s, nil
			}
			s.ctl.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("redis-server on %s does not answer: %w", addr, err)
}

func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func (s *server) stop() {
	s.resume() // a stopped process does not reap its files
	if s.ctl != nil {
		s.ctl.Close()
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	for i, arg := range s.cmd.Args {
		if arg == "--dir" {
			_ = os.RemoveAll(s.cmd.Args[i+1])
		}
	}
}

func stopServers(servers []*server) {
	for _, s := range servers {
		s.stop()
	}
}

// pause makes the server silent: the kernel goes on accepting connections and
// bytes for it, nobody answers.
func (s *server) pause() {
	s.paused = true
	_ = s.cmd.Process.Signal(syscall.SIGSTOP)
}

func (s *server) resume() {
	s.paused = false
	_ = s.cmd.Process.Signal(syscall.SIGCONT)
}

// cpu is the CPU time of all of the server's threads so far. schedstat counts
// nanoseconds; the ticks of /proc/PID/stat (10 ms) are the fall-back.
func (s *server) cpu() time.Duration {
	pid := strconv.Itoa(s.cmd.Process.Pid)
	var sum time.Duration
	threads, _ := filepath.Glob("/proc/" + pid + "/task/*/schedstat")
	for _, file := range threads {
		if text, err := os.ReadFile(file); err == nil {
			ns, _, _ := strings.Cut(string(text), " ")
			n, _ := strconv.ParseInt(ns, 10, 64)
			sum += time.Duration(n)
		}
	}
	if sum > 0 {
		return sum
	}
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	// Fields 14 and 15, counted after the command name, which may hold spaces.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	user, _ := strconv.Atoi(string(fields[11]))
	system, _ := strconv.Atoi(string(fields[12]))
	return time.Duration(user+system) * 10 * time.Millisecond
}

// left lists the keys that the bench's locks left behind. The node's own records (the
// token set) are none of them.
func (s *server) left() (keys []string, err error) {
	for cursor := "0"; ; {
		reply, err := redis.Values(s.ctl.Do("SCAN", cursor, "MATCH", "*"+namePrefix+"*", "COUNT", 1000))
		if err != nil {
			return keys, err
		}
		cursor, _ = redis.String(reply[0], nil)
		page, _ := redis.Strings(reply[1], nil)
		if keys = append(keys, page...); cursor == "0" {
			return keys, nil
		}
	}
}

// onceRecords begins the keys that say what has been done: they are to stay.
const onceRecords = "redlock:once:"

// sweep counts the keys with this prefix, a second later where there are any: a master that
// lags on a busy machine may still have the releases before it. It deletes all the bench's keys.
func (s *server) sweep(prefix string) (orphans int, err error) {
	keys, err := s.left()
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	time.Sleep(time.Second)
	if keys, err = s.left(); err != nil {
		return 0, err
	}
	for _, key := range keys {
		if strings.Contains(key, prefix) && !strings.HasPrefix(key, onceRecords) {
			orphans++
		}
		if _, err := s.ctl.Do("UNLINK", key); err != nil {
			return 0, err
		}
	}
	return orphans, nil
}

// calls counts what the server has carried out: requests are scripts and the native commands; commands are
// all, those run by scripts included.
func (s *server) calls(native []string) (requests, commands int64) {
	for name, n := range s.commands() {
		commands += n
		if name == "eval" || name == "evalsha" || slices.Contains(native, name) {
			requests += n
		}
	}
	return requests, commands
}

// count returns how often one command has been carried out.
func (s *server) count(command string) int { return int(s.commands()[command]) }

// commands returns how often each command has been carried out.
func (s *server) commands() map[string]int64 {
	counts := make(map[string]int64)
	text, err := redis.String(s.ctl.Do("INFO", "commandstats"))
	if err != nil {
		return counts
	}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if ok {
			count, _, _ := strings.Cut(rest, ",")
			counts[name], _ = strconv.ParseInt(count, 10, 64)
		}
	}
	return counts
}

func addrs(servers []*server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.addr
	}
	return list
}

var errNoOwner = errors.New("the key was not ours")
