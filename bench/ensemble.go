package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/quorumlock/redlock/internal/ports"
	"github.com/quorumlock/redlock/internal/process"
)

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
