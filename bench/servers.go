package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/faultproxy"
	"github.com/quorumlock/redlock/internal/ports"
	"github.com/quorumlock/redlock/internal/process"
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

// A system is one that agrees by consensus: contestants of a scenario lock on it instead of the masters.
type system struct {
	name    string
	product string
	dir     string // where its members keep their data; empty: where temporary files are
	prepare func() error
	command func(all []*member, i int) (*exec.Cmd, error)                          // of a member, at each start
	ask     func(ctx context.Context, addr string) (leads bool, v string, _ error) // a member: fails unless it serves
}

// inMemory is the same on a system that writes nothing to a disk.
func inMemory(c contestant) contestant {
	s := *c.system
	s.name, s.dir = s.name+" in memory", "/dev/shm"
	c.name, c.system = s.name, &s
	return c
}

// An ensemble is a system's three members.
type ensemble struct {
	*system
	members []*member
	dir     string
	version string // with the system's name
}

// A member is one process, and its ports.
type member struct {
	process.Process
	client, peer, election ports.Port
	dir                    string
}

func startEnsemble(s *system) (e *ensemble, err error) {
	if err := s.prepare(); err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	e = &ensemble{system: s}
	defer func() {
		if err != nil {
			e.stop()
		}
	}()
	if e.dir, err = os.MkdirTemp(s.dir, "redlock-bench-"); err != nil {
		return e, err
	}
	for i := range 3 {
		m := &member{dir: filepath.Join(e.dir, fmt.Sprint(i))}
		e.members = append(e.members, m)
		for _, p := range []*ports.Port{&m.client, &m.peer, &m.election} {
			if *p, err = ports.Reserve(); err != nil {
				return e, err
			}
		}
		if err := os.Mkdir(m.dir, 0o700); err != nil {
			return e, err
		}
	}
	if err := e.heal(); err != nil {
		return e, err
	}
	_, version, err := e.leader()
	e.version = s.product + " " + version
	return e, err
}

// Addr is where clients connect.
func (m *member) Addr() string { return m.client.Addr() }

// freeze stops all members, while it is another contestant's turn.
func (e *ensemble) freeze() {
	for _, m := range e.members {
		_ = m.Pause()
	}
}

// heal lets frozen members go on, starts dead ones, and returns when all serve.
func (e *ensemble) heal() error {
	for i, m := range e.members {
		if m.PID() != 0 {
			if err := m.Resume(); err != nil {
				return err
			}
			continue
		}
		cmd, err := e.command(e.members, i)
		if err == nil {
			err = m.Start(cmd, filepath.Join(m.dir, "log"))
		}
		if err != nil {
			return err
		}
	}
	_, _, err := e.leader()
	return err
}

// leader waits until all members serve, and returns which of them leads, and the version.
func (e *ensemble) leader() (leader int, version string, err error) {
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		leaders := 0
		err = nil
		for i, m := range e.members {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			leads, v, bad := e.ask(ctx, m.Addr())
			cancel()
			if leads {
				leaders, leader, version = leaders+1, i, v
			}
			if bad != nil {
				err = errors.Join(err, fmt.Errorf("%w; it printed:\n%.500s", bad, m.Log()))
			}
		}
		if err == nil && leaders == 1 {
			return leader, version, nil
		}
	}
	return 0, "", fmt.Errorf("%s has no leader: %w", e.name, err)
}

// victim is the leader or a follower.
func (e *ensemble) victim(leads bool) (*member, error) {
	i, _, err := e.leader()
	if !leads {
		i = (i + 1) % len(e.members)
	}
	return e.members[i], err
}

func (e *ensemble) stop() {
	for _, m := range e.members {
		_ = m.Kill(context.Background())
		for _, p := range []ports.Port{m.client, m.peer, m.election} {
			if p.Number != 0 {
				p.Release()
			}
		}
	}
	_ = os.RemoveAll(e.dir)
}

// A child is this binary again, in a role: so that its CPU time is nobody's, or that it can be frozen. It ends when its
// input does, and so with this process, however that ends.
type child struct {
	process.Process
	dir   string
	in    io.Closer
	out   *os.File
	lines *bufio.Scanner // that it tells its parent
}

const (
	roleEnv = "REDLOCK_BENCH_ROLE"
	toldEnv = "REDLOCK_BENCH_TOLD" // JSON
)

func startChild(role string, told any) (_ *child, err error) {
	self, err := os.Executable()
	text, bad := json.Marshal(told)
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	out, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	c := &child{out: out, lines: bufio.NewScanner(out)}
	defer func() {
		if err != nil {
			c.kill()
		}
	}()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, toldEnv+"="+string(text))
	cmd.ExtraFiles = []*os.File{said} // its descriptor 3
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "redlock-bench-"); err != nil {
		return nil, err
	}
	return c, c.Start(cmd, filepath.Join(c.dir, "log"))
}

func (c *child) kill() {
	if c.in != nil {
		_ = c.in.Close()
	}
	_ = c.Kill(context.Background())
	_ = c.out.Close()
	_ = os.RemoveAll(c.dir)
}

// asChild is the main function of such a process. In another it does nothing.
func asChild() bool {
	roles := map[string]func(told []byte, parent io.Writer) error{"proxy": proxyRole, "editor": editorRole}
	role := roles[os.Getenv(roleEnv)]
	if role != nil {
		fatal(role([]byte(os.Getenv(toldEnv)), os.NewFile(3, "parent")))
	}
	return role != nil
}

// A distance is what a proxy is told. It holds what the target answers for a while: a node further away.
type distance struct {
	Target string
	Delay  time.Duration
}

func startProxy(d distance) (p *child, addr string, err error) {
	if p, err = startChild("proxy", d); err != nil {
		return nil, "", err
	}
	if !p.lines.Scan() {
		err = fmt.Errorf("a proxy did not start: %s", p.Log())
		p.kill()
		return nil, "", err
	}
	return p, p.lines.Text(), nil
}

func proxyRole(told []byte, parent io.Writer) error {
	var d distance
	if err := json.Unmarshal(told, &d); err != nil {
		return err
	}
	p, err := faultproxy.New(d.Target)
	if err != nil {
		return err
	}
	p.Delay(faultproxy.Down, d.Delay)
	fmt.Fprintln(parent, p.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
