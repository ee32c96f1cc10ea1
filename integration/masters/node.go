package masters

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// patience bounds each call to a node or its engine. An engine that starts many containers on a busy machine takes half
// a minute for one of them.
const patience = 2 * time.Minute

// host is what a provider does with a master that it runs.
type host interface {
	Start(ctx context.Context) error // returns when the master answers
	Wipe(ctx context.Context) error  // deletes what the master, which is down, has written
	Kill(ctx context.Context) error  // at once, nothing is saved
	Stop(ctx context.Context) error  // as an operator does: SIGTERM
	Pause(ctx context.Context) error
	Resume(ctx context.Context) error
	Remove(ctx context.Context) error
	Log(ctx context.Context) string
}

// Node is one Redis master. Its address stays the same as long as it lives, whatever is done to it. A Node may be used
// by several goroutines, but what is done to it by two of them at the same time happens in any order.
type Node struct {
	host host
	addr string
	spec Spec
}

// Addr returns host:port.
func (n *Node) Addr() string { return n.addr }

// URL returns the URL for redlock.New, with user and password.
func (n *Node) URL() string { return n.URLAt(n.addr) }

// URLAt returns the node's URL with another address in it: a proxy's.
func (n *Node) URLAt(addr string) string {
	u := url.URL{Scheme: "redis", Host: addr}
	switch {
	case n.spec.ClientUser != "":
		u.User = url.UserPassword(n.spec.ClientUser, n.spec.ClientPassword)
	case n.spec.User != "" || n.spec.Password != "":
		u.User = url.UserPassword(n.spec.User, n.spec.Password)
	}
	return u.String()
}

// Kill ends the master as a power failure does. What it had not written to disk is gone.
func (n *Node) Kill() error { return n.bounded("kill", n.host.Kill) }

// Stop ends the master as an operator does.
func (n *Node) Stop() error { return n.bounded("stop", n.host.Stop) }

// Start starts the master again after Kill or Stop, at the same address, with
// what its disk has. With the default arguments, that is nothing.
func (n *Node) Start() error { return n.bounded("start", n.host.Start) }

// StartEmpty is Start after the loss of the disk.
func (n *Node) StartEmpty() error {
	if err := n.bounded("wipe", n.host.Wipe); err != nil {
		return err
	}
	return n.Start()
}

// Restart is Kill and Start.
func (n *Node) Restart() error { return errors.Join(n.Kill(), n.Start()) }

// RestartEmpty is Kill and StartEmpty.
func (n *Node) RestartEmpty() error { return errors.Join(n.Kill(), n.StartEmpty()) }

// Pause freezes the master: its connections stay open, and nothing is answered.
func (n *Node) Pause() error { return n.bounded("pause", n.host.Pause) }

// Resume ends a Pause. What had been sent meanwhile is carried out now.
func (n *Node) Resume() error { return n.bounded("resume", n.host.Resume) }

// Remove ends the master and deletes all that it has left.
func (n *Node) Remove() error { return n.bounded("remove", n.host.Remove) }

// Log returns what the server printed.
func (n *Node) Log() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return n.host.Log(ctx)
}

func (n *Node) bounded(what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", what, n.addr, err)
	}
	return nil
}

// Dial opens an admin connection. The timeout is for the dial and for each read and write.
func (n *Node) Dial(ctx context.Context, timeout time.Duration) (redis.Conn, error) {
	return n.spec.dial(ctx, n.addr, timeout)
}

func (s Spec) dial(ctx context.Context, addr string, timeout time.Duration) (redis.Conn, error) {
	return redis.DialContext(ctx, "tcp", addr,
		redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout),
		redis.DialUsername(s.User), redis.DialPassword(s.Password))
}

// asked is what ask finds out over a connection of its own.
func asked[T any](n *Node, ask func(redis.Conn) (T, error)) (answer T, err error) {
	c, err := n.Dial(context.Background(), 5*time.Second)
	if err != nil {
		return answer, err
	}
	defer func() { _ = c.Close() }() // the answer is what counts
	return ask(c)
}

// Do sends one command over a connection of its own and returns the answer.
func (n *Node) Do(command string, args ...any) (any, error) {
	return asked(n, func(c redis.Conn) (any, error) { return c.Do(command, args...) })
}

// Info returns the fields of one INFO section.
func (n *Node) Info(section string) (map[string]string, error) {
	return asked(n, func(c redis.Conn) (map[string]string, error) { return redisserver.Info(c, section) })
}

// CommandStats returns how often each command was called since the start or
// the last CONFIG RESETSTAT; names are in lower case.
func (n *Node) CommandStats() (map[string]int, error) { return asked(n, redisserver.CommandStats) }
