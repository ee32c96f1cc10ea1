package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// The second connection, for the subscription to a server that does not speak RESP3: there, a subscribed connection
// takes no commands.

// overSecond listens over a second connection, and connects again whenever that is lost. It returns when ctx is done or
// the first connection speaks RESP3.
func (c *Conn) overSecond(ctx context.Context, s *Subscription) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.mu.Lock()
	c.endSecond = cancel
	if c.protocol == resp3 {
		cancel()
	}
	c.mu.Unlock()
	for failures := 0; ctx.Err() == nil; failures++ {
		l, err := c.establish(ctx, func(_ context.Context, l *link) error { return s.Handshake(l.do) })
		if err == nil {
			stop := context.AfterFunc(ctx, l.close)
			var subscribed bool
			if subscribed, err = c.listen(l, s); subscribed {
				failures = 0
			}
			stop()
			l.close()
		}
		if sleep(ctx, s.pause(err, failures)) != nil {
			return
		}
	}
}

// listen passes messages on until the connection breaks. It reports whether the server accepted the subscription.
func (c *Conn) listen(l *link, s *Subscription) (subscribed bool, _ error) {
	conn := redis.PubSubConn{Conn: l.redigo}
	if err := conn.Subscribe(s.Channel); err != nil {
		return false, err
	}
	var unanswered atomic.Bool // a ping was sent, and nothing has come since
	stop := make(chan struct{})
	var heartbeat sync.WaitGroup
	heartbeat.Go(func() { c.heartbeat(stop, l, s.Needed, &unanswered) })
	defer heartbeat.Wait()
	defer close(stop)
	for {
		switch m := conn.ReceiveWithTimeout(0).(type) {
		case redis.Subscription:
			subscribed = true
		case redis.Message:
			s.Message(string(m.Data), false)
		case error:
			return subscribed, m
		}
		unanswered.Store(false)
	}
}

// heartbeat pings while a message is needed, and closes the connection if nothing comes between one ping and the next.
// A connection may be half-open, for example because a firewall or a restarted host forgot it. The server then has no
// subscriber any more, and a caller would wait for a message in vain until TCP's keepalive fails, for minutes.
func (c *Conn) heartbeat(stop <-chan struct{}, l *link, needed func() bool, unanswered *atomic.Bool) {
	tick := time.NewTicker(c.config.ConnectTimeout)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if unanswered.Load() {
			l.close()
			return
		}
		if !needed() {
			continue
		}
		unanswered.Store(true)
		if (redis.PubSubConn{Conn: l.redigo}).Ping("") != nil {
			l.close()
			return
		}
	}
}
