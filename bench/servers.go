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
func startServers(n int, config redisserver.Config) (servers []*server) {
	defer undo(func() { stopServers(servers) })
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for range n {
		s := &server{Server: made(redisserver.Launch(ctx, config))}
		servers = append(servers, s)
		must(s.control())
	}
	return servers
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
func (s *server) check(trust *tls.Config) error {
	const patience = 20 * time.Second
	err := attempt(func() {
		c := made(redis.Dial("tcp", s.Addr(), redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience),
			redis.DialUseTLS(trust != nil), redis.DialTLSConfig(trust)))
		defer c.Close()
		if got, want := made(redisserver.Info(c, "server"))["process_id"], strconv.Itoa(s.PID()); got != want {
			must(fmt.Errorf("the process %s answers there, not %s", got, want))
		}
		// The master ends the connection itself, before it answers anybody else: what is counted next is without it.
		made(c.Do("QUIT"))
	})
	if err != nil {
		err = fmt.Errorf("the master %s: %w", s.Addr(), err)
	}
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
func (s *server) sweep(prefix string) (orphans int) {
	left := func() []string { return made(redis.Strings(s.ctl.Do("KEYS", "*"+namePrefix+"*"))) }
	if len(left()) == 0 {
		return 0
	}
	time.Sleep(time.Second)
	for _, key := range left() {
		if strings.Contains(key, prefix) && !strings.HasPrefix(key, onceRecords) {
			orphans++
		}
		made(s.ctl.Do("UNLINK", key))
	}
	return orphans
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
	prepare func()
	command func(all []*member, i int) *exec.Cmd                                // of a member, at each start
	ask     func(ctx context.Context, addr string) (leads bool, version string) // a member: fails unless it serves
}

// inMemory is the same on a system that writes nothing to a disk.
func inMemory(c contestant) contestant {
	s := *c.system
	s.name, s.dir = s.name+" in memory", "/dev/shm"
	c.name, c.system = s.name, &s
	return c
}

// An ensemble is the members of a system.
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

func startEnsemble(s *system, n int) *ensemble {
	s.prepare()
	e := &ensemble{system: s, dir: made(os.MkdirTemp(s.dir, "redlock-bench-"))}
	defer undo(e.stop)
	for i := range n {
		m := &member{dir: filepath.Join(e.dir, fmt.Sprint(i))}
		e.members = append(e.members, m)
		for _, p := range []*ports.Port{&m.client, &m.peer, &m.election} {
			*p = made(ports.Reserve())
		}
		must(os.Mkdir(m.dir, 0o700))
	}
	_, version := e.heal()
	e.version = s.product + " " + version
	return e
}

// Addr is where clients connect.
func (m *member) Addr() string { return m.client.Addr() }

// freeze stops all members, while it is another contestant's turn.
func (e *ensemble) freeze() {
	for _, m := range e.members {
		_ = m.Pause()
	}
}

// heal lets frozen members go on and starts dead ones. When all serve, it returns which of them leads, and the version.
func (e *ensemble) heal() (leader int, version string) {
	for i, m := range e.members {
		if m.PID() != 0 {
			must(m.Resume())
		} else {
			must(m.Start(e.command(e.members, i), filepath.Join(m.dir, "log")))
		}
	}
	var err error
	for until := time.Now().Add(time.Minute); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		leaders := 0
		err = nil
		for i, m := range e.members {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			bad := attempt(func() {
				if leads, v := e.ask(ctx, m.Addr()); leads {
					leaders, leader, version = leaders+1, i, v
				}
			})
			cancel()
			if bad != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w; it printed:\n%.500s", m.Addr(), bad, m.Log()))
			}
		}
		if err == nil && leaders == 1 {
			return leader, version
		}
	}
	must(fmt.Errorf("%s has no leader: %w", e.name, err))
	return 0, ""
}

// victim is the leader or a follower.
func (e *ensemble) victim(leads bool) *member {
	i, _ := e.heal()
	if !leads {
		i = (i + 1) % len(e.members)
	}
	return e.members[i]
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

func startChild(role string, told any) *child {
	out, said, err := os.Pipe()
	must(err)
	defer said.Close()
	cmd := exec.Command(made(os.Executable()))
	cmd.Env = append(os.Environ(), roleEnv+"="+role, toldEnv+"="+string(made(json.Marshal(told))))
	cmd.ExtraFiles = []*os.File{said} // its descriptor 3
	c := &child{
		out: out, lines: bufio.NewScanner(out), in: made(cmd.StdinPipe()), dir: made(os.MkdirTemp("", "redlock-bench-")),
	}
	defer undo(c.kill)
	must(c.Start(cmd, filepath.Join(c.dir, "log")))
	return c
}

func (c *child) kill() {
	_ = c.in.Close()
	_ = c.Kill(context.Background())
	_ = c.out.Close()
	_ = os.RemoveAll(c.dir)
}

// asChild is the main function of such a process. In another it does nothing.
func asChild() bool {
	roles := map[string]func(told []byte, parent io.Writer){"proxy": proxyRole, "editor": editorRole}
	role := roles[os.Getenv(roleEnv)]
	if role != nil {
		fatal(attempt(func() { role([]byte(os.Getenv(toldEnv)), os.NewFile(3, "parent")) }))
	}
	return role != nil
}

// A distance is what a proxy is told. It holds what the target answers for a while: a node further away.
type distance struct {
	Target string
	Delay  time.Duration
}

func startProxy(d distance) (p *child, addr string) {
	p = startChild("proxy", d)
	defer undo(p.kill)
	if !p.lines.Scan() {
		must(fmt.Errorf("a proxy did not start: %s", p.Log()))
	}
	return p, p.lines.Text()
}

func proxyRole(told []byte, parent io.Writer) {
	var d distance
	must(json.Unmarshal(told, &d))
	p := made(faultproxy.New(d.Target))
	p.Delay(faultproxy.Down, d.Delay)
	fmt.Fprintln(parent, p.Addr())
	made(io.Copy(io.Discard, os.Stdin))
}
