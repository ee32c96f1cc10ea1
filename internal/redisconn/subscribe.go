package redisconn

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Subscription is what to listen to, over a connection of its own.
type Subscription struct {
	Channel   string
	Handshake func(do Do) error    // before listening, with each new connection
	Message   func(message string) // called for one after the other
	Needed    func() bool          // whether anybody minds if nothing comes
	Denied    func(err error)      // the server does not permit it; another attempt follows in a minute
}

// Subscribe listens until ctx is done, and connects again whenever the connection is lost.
func (c *Conn) Subscribe(ctx context.Context, s Subscription) {
	for failures := 0; ctx.Err() == nil; failures++ {
		l, err := c.open(ctx)
		if err == nil {
			stop := context.AfterFunc(ctx, l.close)
			if err = s.Handshake(l.do); err == nil {
				var stood bool
				if stood, err = c.listen(l, s); stood {
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

// listen passes on messages until the connection breaks. stood reports whether the server had agreed to that.
func (c *Conn) listen(l *link, s Subscription) (stood bool, _ error) {
	conn := redis.PubSubConn{Conn: l.set}
	if err := conn.Subscribe(s.Channel); err != nil {
		return false, err
	}
	var pulse pulse
	stop := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() { pulse.beat(stop, c.config.ConnectTimeout, s.Needed, conn.Ping, l.close) })
	defer beating.Wait()
	defer close(stop)
	for {
		switch m := conn.ReceiveWithTimeout(0).(type) {
		case redis.Subscription:
			stood = true
		case redis.Message:
			s.Message(string(m.Data))
		case error:
			return stood, m
		}
		pulse.asked.Store(false)
	}
}

// pulse finds out that a connection is half-open, as where a firewall or a restarted host forgot it and says nothing.
// To the server its client has gone then, so whoever waits for a message waits in vain. Without traffic of our own that
// would go on until TCP's keepalive, minutes.
type pulse struct{ asked atomic.Bool }

// beat pings while a message is needed, and gives the connection up where nothing comes back between one ping and the
// next.
func (p *pulse) beat(
	stop <-chan struct{}, every time.Duration, needed func() bool, ping func(string) error, giveUp func(),
) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if p.asked.Load() {
			giveUp()
			return
		}
		if !needed() {
			continue
		}
		p.asked.Store(true)
		if ping("") != nil {
			giveUp()
			return
		}
	}
}
