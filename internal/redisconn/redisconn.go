// Package redisconn keeps one connection to one Redis server. Any number of callers share it: requests are batched,
// pipelined and kept in order.
//
// It knows authentication, scripts, pub/sub and how connections fail; no locks, no votes and no other servers.
//
// Callers append requests to a queue. A writer takes everything in the queue and sends it with one system call; a
// reader hands out the replies, which come in the order of the requests. So no caller waits for a free connection, a
// batch costs one system call, and requests about one key take effect in the order in which they were sent: an undo
// follows the request that it undoes, even if the server has not read that request yet.
//
// Each file uses only those before it, in this order: config, resolve, backoff, admission, dial, hello, request, batch,
// silence, conn, pipeline, undo, call, timeout, subscribe, replies, check, reconnect, redisconn.
package redisconn

import (
	"context"
	"errors"

	"github.com/quorumlock/redlock/internal/endpoint"
)

// New returns a Conn to the server at a URL. Start connects it. Errors quote nothing that may be part of a password.
func New(url string, config Config) (*Conn, error) {
	at, err := endpoint.Parse(url)
	if err != nil {
		return nil, err
	}
	if config.Credentials != nil && (at.Username != "" || at.Password != "") {
		return nil, errors.New("the URL has a user or a password beside NodeConfig.Credentials: leave them out of the URL")
	}
	c := &Conn{
		config: config, down: errConnecting, retries: 1, endSecond: func() {}, wanted: make(chan struct{}, 1),
		stopped: make(chan struct{}), drained: make(chan struct{}), news: make(chan struct{}, 1),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	d := &c.dialer
	d.url, d.config, d.ctx, d.say = at, &c.config, c.ctx, c.say
	d.address = &address{slots: make(chan struct{}, maxHandshakes)}
	if d.network = &usual; config.Dial == nil {
		d.address.names = new(names)
	}
	d.why = func() error { _, err := c.State(); return err }
	c.watchdog, c.retry, c.check = idleTimer(c.expire), idleTimer(c.retryUndos), idleTimer(c.runCheck)
	return c, nil
}

// Start connects, and connects again whenever the connection is lost, until Close.
func (c *Conn) Start() {
	if key, shared := c.dialer.addressKey(); shared {
		c.dialer.address = key.join(c.dialer.address)
	}
	go c.run()
}

// Addr names the server for humans, without user and password.
func (c *Conn) Addr() string { return c.dialer.url.String() }

// SameURL reports whether both were made with URLs that say the same.
func (c *Conn) SameURL(other *Conn) bool { return c.dialer.url == other.dialer.url }

// SameAddress reports whether the last connections of both led to one address, whatever their URLs say.
func (c *Conn) SameAddress(other *Conn) bool {
	at, there := c.dialer.remote.Load(), other.dialer.remote.Load()
	return at != nil && there != nil && *at == *there
}

// TLS reports whether the server is to speak TLS.
func (c *Conn) TLS() bool { return c.dialer.url.TLS }

// Drain accepts undos alone. It returns when all requests are answered, when the server is away, or when ctx is done.
func (c *Conn) Drain(ctx context.Context) {
	c.mu.Lock()
	c.draining = true
	c.mu.Unlock()
	c.retryUndos() // for the last time
	c.checkDrained()
	select {
	case <-c.drained:
	case <-ctx.Done():
	}
}

// Stopped reports whether Stop was called: what State says since may be our own doing.
func (c *Conn) Stopped() bool { return c.ctx.Err() != nil }

// Stop begins to close the connection and does not wait.
func (c *Conn) Stop() {
	c.cancel()
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l != nil {
		c.closing.Go(l.close) // with TLS, it may wait for room for the last alert
	}
}

// Close closes the connection of a Conn that was started and waits for its goroutines.
func (c *Conn) Close() {
	c.Stop()
	<-c.stopped
	c.closing.Wait()
	if key, shared := c.dialer.addressKey(); shared {
		key.leave(c.dialer.address)
	}
	c.watchdog.Stop()
	c.retry.Stop()
	c.check.Stop()
}
