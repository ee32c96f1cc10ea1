package masters

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// patience bounds everything that is asked of a node or of its engine.
const patience = 20 * time.Second

// host is what a provider does with a master that it runs.
type host interface {
	start(ctx context.Context, empty bool) error
	kill(ctx context.Context) error // at once, nothing is saved
	stop(ctx context.Context) error // as an operator does: SIGTERM
	pause(ctx context.Context) error
	resume(ctx context.Context) error
	remove(ctx context.Context) error
	exited(ctx context.Context) bool // true: it certainly does not run any more
	log(ctx context.Context) string
}

// Node is one Redis master. Its address stays the same as long as it lives,
// whatever is done to it. A Node may be used by several goroutines, but what is
// done to it by two of them at the same time happens in any order.
type Node struct {
	host
	addr   string
	socket string
	spec   Spec
}

// Addr returns host:port.
func (n *Node) Addr() string { return n.addr }

// Socket returns the path of the node's unix socket; empty with containers.
func (n *Node) Socket() string { return n.socket }

// URL returns the URL for redlock.New, with user and password.
func (n *Node) URL() string { return n.URLAt(n.addr) }

// URLAt returns the node's URL with another address in it: a proxy's.
func (n *Node) URLAt(addr string) string {
	u := url.URL{Scheme: "redis", Host: addr}
	if n.spec.TLS != nil {
		u.Scheme = "rediss"
	}
	switch {
	case n.spec.ClientUser != "":
		u.User = url.UserPassword(n.spec.ClientUser, n.spec.ClientPassword)
	case n.spec.User != "" || n.spec.Password != "":
		u.User = url.UserPassword(n.spec.User, n.spec.Password)
	}
	return u.String()
}

// Kill ends the master as a power failure does. What it had not written to disk is gone.
func (n *Node) Kill() error { return n.bounded("kill", n.kill) }

// Stop ends the master as an operator does.
func (n *Node) Stop() error { return n.bounded("stop", n.stop) }

// Start starts the master again after Kill or Stop, at the same address, with
// what its disk has. With the default arguments, that is nothing.
func (n *Node) Start() error {
	return n.bounded("start", func(ctx context.Context) error { return n.up(ctx, false) })
}

// StartEmpty is Start after the loss of the disk.
func (n *Node) StartEmpty() error {
	return n.bounded("start empty", func(ctx context.Context) error { return n.up(ctx, true) })
}

// Restart is Kill and Start.
func (n *Node) Restart() error { return errors.Join(n.Kill(), n.Start()) }

// RestartEmpty is Kill and StartEmpty.
func (n *Node) RestartEmpty() error { return errors.Join(n.Kill(), n.StartEmpty()) }

// Pause freezes the master: its connections stay open, and nothing is answered.
func (n *Node) Pause() error { return n.bounded("pause", n.pause) }

// Resume ends a Pause. What had been sent meanwhile is carried out now.
func (n *Node) Resume() error { return n.bounded("resume", n.resume) }

// Remove ends the master and deletes all that it has left.
func (n *Node) Remove() error { return n.bounded("remove", n.remove) }

// Log returns what the server printed.
func (n *Node) Log() string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return n.log(ctx)
}

func (n *Node) bounded(what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := do(ctx); err != nil {
		return fmt.Errorf("%s %s: %w", what, n.addr, err)
	}
	return nil
}

// up starts the master and returns when it answers.
func (n *Node) up(ctx context.Context, empty bool) error {
	if err := n.start(ctx, empty); err != nil {
		return err
	}
	return n.ready(ctx)
}

// ready returns when the master answers: a server that still loads its data does not. It is asked where nobody else
// can answer: another server may have been faster to take the port.
func (n *Node) ready(ctx context.Context) error {
	network, address := "tcp", n.addr
	if n.socket != "" {
		network, address = "unix", n.socket
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		c, err := n.dial(ctx, network, address, time.Second)
		if err == nil {
			_, err = c.Do("PING")
			_ = c.Close() // the answer is what counts
		}
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || n.exited(ctx) {
			return fmt.Errorf("the server does not answer: %w; it printed:\n%s", err, n.log(context.WithoutCancel(ctx)))
		}
		time.Sleep(pause)
	}
}

// Do sends one command over a connection of its own and returns the answer.
func (n *Node) Do(command string, args ...any) (any, error) {
	return n.do(context.Background(), 5*time.Second, command, args...)
}

func (n *Node) do(ctx context.Context, timeout time.Duration, command string, args ...any) (any, error) {
	c, err := n.Dial(ctx, timeout)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // the answer is what counts
	return c.Do(command, args...)
}

// Dial opens an admin connection. The timeout is for the dial and for each read and write.
func (n *Node) Dial(ctx context.Context, timeout time.Duration) (redis.Conn, error) {
	return n.dial(ctx, "tcp", n.addr, timeout)
}

func (n *Node) dial(ctx context.Context, network, address string, timeout time.Duration) (redis.Conn, error) {
	options := []redis.DialOption{
		redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout),
	}
	if n.spec.User != "" {
		options = append(options, redis.DialUsername(n.spec.User))
	}
	if n.spec.Password != "" {
		options = append(options, redis.DialPassword(n.spec.Password))
	}
	if n.spec.TLS != nil && network == "tcp" {
		options = append(options, redis.DialUseTLS(true), redis.DialTLSConfig(n.spec.TLS.ClientConfig()))
	}
	return redis.DialContext(ctx, network, address, options...)
}

// Info returns the fields of one INFO section.
func (n *Node) Info(section string) (map[string]string, error) {
	text, err := redis.String(n.Do("INFO", section))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[key] = value
		}
	}
	return fields, nil
}

// CommandStats returns how often each command was called since the start or
// the last CONFIG RESETSTAT; names are in lower case.
func (n *Node) CommandStats() (map[string]int, error) {
	fields, err := n.Info("commandstats")
	if err != nil {
		return nil, err
	}
	calls := map[string]int{}
	for key, value := range fields {
		name, isCommand := strings.CutPrefix(key, "cmdstat_")
		if !isCommand {
			continue
		}
		first, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
		if calls[name], err = strconv.Atoi(first); err != nil {
			return nil, fmt.Errorf("%s of %s: %w", key, n.addr, err)
		}
	}
	return calls, nil
}

// CPUTime returns the CPU time that the server has used since its start. It
// asks the server (getrusage, in microseconds) and not /proc (in hundredths of
// a second), so it works for containers too, but not for a paused node.
func (n *Node) CPUTime() (time.Duration, error) {
	fields, err := n.Info("cpu")
	if err != nil {
		return 0, err
	}
	var seconds float64
	for _, key := range []string{"used_cpu_user", "used_cpu_sys"} {
		part, err := strconv.ParseFloat(fields[key], 64)
		if err != nil {
			return 0, fmt.Errorf("%s of %s: %w", key, n.addr, err)
		}
		seconds += part
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
