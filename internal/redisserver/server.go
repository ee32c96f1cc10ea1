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
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/ports"
	"github.com/quorumlock/redlock/internal/process"
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
	process.Process

	config Config
	args   []string
	port   ports.Port
	dir    string
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

// Start starts the server again after Kill or Stop, with the data on its disk, and returns when it answers. With the
// default arguments there is no data.
func (s *Server) Start(ctx context.Context) error {
	// Not exec.CommandContext: the server outlives the call that starts it.
	if err := s.Process.Start(exec.Command(s.config.Binary, s.args...), filepath.Join(s.dir, "log")); err != nil {
		return err
	}
	// PING goes to the unix socket, which is this server's own: another server may have taken the port first.
	dial := func(ctx context.Context) (redis.Conn, error) {
		return redis.DialContext(ctx, "unix", s.Socket(), redis.DialReadTimeout(time.Second),
			redis.DialUsername(s.config.User), redis.DialPassword(s.config.Password))
	}
	return Await(ctx, dial, s.Exited, s.Log)
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
