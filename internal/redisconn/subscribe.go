package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Subscription is a channel and how to handle its messages.
type Subscription struct {
	Channel   string
	Handshake func(do Do) error    // runs with each new connection, before it subscribes
	Message   func(message string) // called for one message after the other
	Needed    func() bool          // reports whether a caller waits for a message
	Denied    func(err error)      // called if the user has no permission; the next attempt follows in a minute
}

// Subscribe listens until ctx is done, over a connection of its own, and connects again whenever that is lost.
func (c *Conn) Subscribe(ctx context.Context, s Subscription) {
	for failures := 0; ctx.Err() == nil; failures++ {
		l, err := c.open(ctx)
		if err == nil {
			stop := context.AfterFunc(ctx, l.close)
			if err = s.Handshake(l.do); err == nil {
				var subscribed bool
				if subscribed, err = c.listen(l, s); subscribed {
					failures = 0
				}
			}
			stop()
			l.close()
		}
		pause := reconnectDelay(failures)
		if Code(err) == "NOPERM" {
			s.Denied(err)
			pause = time.Minute
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// listen passes messages on until the connection breaks. It reports whether the server accepted the subscription.
func (c *Conn) listen(l *link, s Subscription) (subscribed bool, _ error) {
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
			s.Message(string(m.Data))
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
