//go:build unix

// Package redisserver runs redis-server processes, and makes them fail: it kills, stops and freezes them, and starts
// them again with or without their data. A server keeps its address all the while, and ends when this process ends.
//
// It knows processes and their directories, the certificates of servers that speak TLS, and enough of Redis to see that
// a server answers and to count its commands.
// It must not know locks, nor fleets of servers, nor any other way to run one: integration/masters runs containers.
package redisserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/ports"
)

// Config says how a server differs from the default, which is: no password, no TLS, no persistence.
type Config struct {
	// Binary is the server to run; empty: the one that [Find] finds.
	Binary string
	// Args are the server's own arguments, see [Args].
	Args []string
	// Files are written to the server's directory before its first start.
	Files map[string]string
	// User and Password are used to see whether the server answers. Args, not these, configure the server.
	User, Password string
}

// Server is one redis-server on 127.0.0.1, and its directory. Several goroutines may use it.
type Server struct {
	config Config
	args   []string
	port   ports.Port
	dir    string

	mu    sync.Mutex // protects the following fields
	child *os.Process
	gone  chan struct{} // closed by the goroutine that started the child, after Wait
}

// Find returns the path of redis-server, or of the binary that REDLOCK_REDIS_SERVER names, for example a Valkey server.
func Find() (binary string, err error) {
	if binary, err = exec.LookPath(cmp.Or(os.Getenv("REDLOCK_REDIS_SERVER"), "redis-server")); err != nil {
		err = fmt.Errorf("install redis-server (Debian: apt-get install redis-server) or set REDLOCK_REDIS_SERVER: %w", err)
	}
	return binary, err
}

// Args returns a command line for redis-server: the defaults, then own, which overrides them. In own, "{dir}" stands
// for the server's directory, and "{port}" for its port.
func Args(bind string, port int, dir string, own []string) []string {
	number := strconv.Itoa(port)
	args := []string{
		"--bind", bind, "--port", number, "--protected-mode", "no", "--dir", dir, "--daemonize", "no",
		"--save", "", "--appendonly", "no",
	}
	places := strings.NewReplacer("{dir}", dir, "{port}", number)
	for _, a := range own {
		args = append(args, places.Replace(a))
	}
	return args
}

// Launch starts a new server and returns when it answers. The caller must call Remove.
func Launch(ctx context.Context, c Config) (s *Server, err error) {
	if c.Binary == "" {
		if c.Binary, err = Find(); err != nil {
			return nil, err
		}
	}
	err = ports.Serve(func(port ports.Port) error {
		s, err = launch(ctx, c, port)
		return err
	})
	return s, err
}

func launch(ctx context.Context, c Config, port ports.Port) (*Server, error) {
	dir, err := os.MkdirTemp("", "redlock-redis-")
	if err != nil {
		return nil, err
	}
	s := &Server{config: c, port: port, dir: dir}
	s.args = append(Args("127.0.0.1", port.Number, dir, c.Args), "--unixsocket", s.Socket(), "--unixsocketperm", "700")
	for name, content := range c.Files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	if err == nil {
		err = s.Start(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", s.Addr(), err), s.Remove(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// Addr returns host:port.
func (s *Server) Addr() string { return s.port.Addr() }

// Socket returns the path of the server's unix socket.
func (s *Server) Socket() string { return filepath.Join(s.dir, "socket") }

// PID returns the server's process ID; 0: it does not run.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil {
		return 0
	}
	return s.child.Pid
}

// Log returns what the server has printed since its last start.
func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, "log")) // none before the first start, and after Remove
	return string(text)
}

// Start starts the server again after Kill or Stop, with the data on its disk, and returns when it answers. With the
// default arguments there is no data.
func (s *Server) Start(ctx context.Context) error {
	if err := s.spawn(); err != nil {
		return err
	}
	// PING goes to the unix socket, which is this server's own: another server may have taken the port first.
	dial := func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "unix", s.Socket(), redis.DialReadTimeout(time.Second),
			redis.DialUsername(s.config.User), redis.DialPassword(s.config.Password))
	}
	return Await(ctx, dial, s.exited, s.Log)
}

func (s *Server) spawn() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child != nil {
		return errors.New("the server is running already")
	}
	output, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }() // the child has its own
	gone, started := make(chan struct{}), make(chan error)
	// Not exec.CommandContext: the server outlives the call that starts it.
	cmd := exec.Command(s.config.Binary, s.args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = diesWithParent()
	go func() {
		// The kernel takes the thread that forked for the parent, not the process. So this thread must live as long as the
		// child: the runtime may end an idle thread, and the kernel would kill the child.
		runtime.LockOSThread()
		defer close(gone)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its error says no more than that the server was killed
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	s.child, s.gone = cmd.Process, gone
	return nil
}

func (s *Server) exited() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.gone:
		return true
	default:
		return false
	}
}

// Kill ends the server as a power failure does: writes that are not on disk are lost. It may be frozen, or have ended.
func (s *Server) Kill(ctx context.Context) error { return s.end(ctx, syscall.SIGKILL) }

// Stop ends the server as an operator does.
func (s *Server) Stop(ctx context.Context) error { return s.end(ctx, syscall.SIGTERM) }

func (s *Server) end(ctx context.Context, sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil {
		return nil
	}
	if err := s.child.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-s.gone:
		s.child = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the server still runs after %v: %w", sig, ctx.Err())
	}
}

// Pause freezes the server: the kernel still accepts connections and bytes for it, but no reply comes.
func (s *Server) Pause() error { return s.signal(syscall.SIGSTOP) }

// Resume ends a Pause. The server executes now what it was sent meanwhile.
func (s *Server) Resume() error { return s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.child == nil {
		return os.ErrProcessDone
	}
	return s.child.Signal(sig)
}

// Wipe deletes the files that the server has written, as the loss of its disk does. The server must not run.
func (s *Server) Wipe() error {
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if _, ours := s.config.Files[e.Name()]; !ours {
			err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
		}
	}
	return err
}

// Remove ends the server, deletes its directory and releases its port.
func (s *Server) Remove(ctx context.Context) error {
	defer s.port.Release()
	return errors.Join(s.Kill(ctx), os.RemoveAll(s.dir))
}
