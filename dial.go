package redlock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/gomodule/redigo/redis"
)

// target is what a node's URL says.
type target struct {
	network, address   string
	username, password string
	db                 int
	tls                bool
}

// String names the node for people. It has no user and no password.
func (t target) String() string {
	if t.network == "unix" {
		return "unix://" + t.address
	}
	return t.address
}

// parseTarget reads redis://, rediss:// and unix:// URLs. Its errors quote
// nothing that may be part of a password.
func parseTarget(raw string) (target, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Opaque != "" || u.Scheme == "" || !strings.Contains(raw, "://") {
		return target{}, errors.New("not a URL such as redis://user:password@host:6379/0")
	}
	t := target{network: "tcp"}
	if u.User != nil {
		t.username = u.User.Username()
		var set bool
		if t.password, set = u.User.Password(); !set {
			// redis-cli takes redis://secret@host for a password, too.
			t.username, t.password = "", t.username
		}
	}
	db := strings.TrimPrefix(u.Path, "/")
	switch u.Scheme {
	case "redis", "valkey":
	case "rediss", "valkeys":
		t.tls = true
	case "unix":
		t.network, t.address, db = "unix", u.Path, u.Query().Get("db")
		if u.Host != "" || t.address == "" {
			return target{}, errors.New("a unix URL needs three slashes and a path: unix:///run/redis.sock")
		}
	default:
		return target{}, fmt.Errorf("unknown scheme %q: use redis, rediss (TLS) or unix", u.Scheme)
	}
	for key := range u.Query() {
		if t.network != "unix" || key != "db" {
			return target{}, errors.New("unknown query parameter; options are given to New")
		}
	}
	if t.network == "tcp" {
		host, port := u.Hostname(), u.Port()
		if host == "" {
			return target{}, errors.New("no host")
		}
		if port == "" {
			port = "6379"
		}
		if p, err := strconv.Atoi(port); err != nil || p < 1 || p > 65535 {
			return target{}, errors.New("port out of range 1 to 65535")
		}
		t.address = net.JoinHostPort(strings.ToLower(host), port)
	}
	if db != "" {
		if t.db, err = strconv.Atoi(db); err != nil || t.db < 0 {
			return target{}, errors.New("the database must be a number, as in redis://host:6379/2")
		}
	}
	return t, nil
}

// link is one established connection.
type link struct {
	conn    redis.Conn // sets up the connection
	wire    *wire
	replies *replies
}

// connect opens a connection for requests: it loads the scripts and reads the node's clock.
func (n *node) connect(ctx context.Context) (*link, error) {
	l, err := n.open(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, l.close) // a node that says nothing does not hold up Close
	err = n.prepare(l.conn)
	stop()
	if err != nil {
		l.close()
		return nil, causeOf(ctx, err)
	}
	l.replies = newReplies(l.wire.batch())
	return l, nil
}

// open dials, authenticates and selects the database. Every command until batch has its
// own time limit.
func (n *node) open(ctx context.Context) (*link, error) {
	timeout := n.opts.connectTimeout()
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, ErrNodeTimeout)
	defer cancel()
	l := &link{}
	conn, err := redis.DialContext(ctx, n.target.network, n.target.address,
		redis.DialContextFunc(func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := n.dial(ctx, network, address)
			l.wire = &wire{Conn: c}
			return l.wire, err
		}),
		redis.DialReadTimeout(timeout),
		redis.DialWriteTimeout(timeout),
		redis.DialUsername(n.target.username),
		redis.DialPassword(n.target.password),
		redis.DialDatabase(n.target.db),
	)
	if err != nil {
		return nil, causeOf(ctx, err)
	}
	l.conn = conn
	return l, nil
}

// causeOf prefers our own time limit's error to the ways in which the network reports it.
func causeOf(ctx context.Context, err error) error {
	var timeout net.Error
	if errors.Is(err, ErrNodeTimeout) {
		return err // which says more
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.As(err, &timeout) && timeout.Timeout() {
		return ErrNodeTimeout
	}
	return explained(err, "")
}

// prepare makes a fresh connection fit for requests, and refuses a node that is not.
func (n *node) prepare(conn redis.Conn) error {
	if err := n.meet(conn); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return fmt.Errorf("closed at the first command (a node that speaks TLS wants rediss://): %w", err)
		}
		return err
	}
	return explained(loadScripts(conn), "script")
}

func (n *node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	dial := n.opts.dialer
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	c, err := dial(ctx, network, address)
	if err != nil || !n.target.tls {
		return c, err
	}
	config := n.opts.tls.Clone()
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	t := tls.Client(c, config)
	if err := t.HandshakeContext(ctx); err != nil {
		_ = c.Close()
		return nil, fmt.Errorf("TLS handshake (does the node speak TLS?): %w", causeOf(ctx, err))
	}
	return t, nil
}

// loadScripts makes EVALSHA work. Where the user may not SCRIPT LOAD, the
// first use of each script sends its source.
func loadScripts(conn redis.Conn) error {
	for _, s := range scripts {
		if err := conn.Send("SCRIPT", "LOAD", s.source); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return err
	}
	var first error
	for range scripts {
		_, err := conn.Receive()
		if isServerError(err) && strings.HasPrefix(err.Error(), "NOPERM") {
			continue
		}
		if err != nil && first == nil {
			first = err
		}
	}
	return first
}

// close may be called more than once, by anyone. What was written reaches the node.
func (l *link) close() { _ = l.wire.Close() }

// drop closes a connection that is given up: what the kernel has not got rid of yet is discarded, for it would reach the node
// behind what is asked over the next connection – an extension behind the release.
func (l *link) drop() {
	conn := l.wire.Conn
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn() // without a farewell, for which there may be no room
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
