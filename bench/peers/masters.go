package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/faultproxy"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// masters are those of one run: just started, each behind a proxy that can break its network.
type masters struct {
	all   []*master
	calls sync.WaitGroup // calls of a library, which a run may have given up
}

type master struct {
	*redisserver.Server
	proxy *faultproxy.Proxy
	ctl   redis.Conn // past the proxy: the run's own eyes and hands
}

func (m *masters) start(ctx context.Context, n int) {
	for range n {
		one := &master{Server: made(redisserver.Launch(ctx, redisserver.Config{}))}
		m.all = append(m.all, one)
		one.proxy = made(faultproxy.New(one.Addr()))
		one.ctl = made(redis.Dial("unix", one.Socket(), redis.DialReadTimeout(5*time.Second)))
	}
}

// stop ends the masters. Calls that are still under way fail then, and stop waits for them.
func (m *masters) stop() {
	for _, one := range m.all {
		if one.ctl != nil {
			_ = one.ctl.Close()
		}
		if one.proxy != nil {
			one.proxy.Close()
		}
		_ = one.Remove(context.Background()) // what was seen stands, whether or not its files could be deleted
	}
	m.calls.Wait()
}

func (m *masters) kill() {
	for _, one := range m.all {
		_ = one.Kill(context.Background()) // stop does it again
	}
}

// addrs are the masters' own addresses.
func (m *masters) addrs() []string { return m.each((*master).Addr) }

// proxied are the addresses of the proxies before the masters.
func (m *masters) proxied() []string {
	return m.each(func(one *master) string { return one.proxy.Addr() })
}

func (m *masters) each(addr func(*master) string) []string {
	list := make([]string, len(m.all))
	for i, one := range m.all {
		list[i] = addr(one)
	}
	return list
}

// last is the master that a fault is about.
func (m *masters) last() *master { return m.all[len(m.all)-1] }

// network does the same to the network of each master.
func (m *masters) network(do func(*faultproxy.Proxy)) {
	for _, one := range m.all {
		do(one.proxy)
	}
}

// partition loses all that is sent to and by the masters, over the proxies.
func (m *masters) partition() {
	m.network(func(p *faultproxy.Proxy) {
		p.Drop(faultproxy.Up)
		p.Drop(faultproxy.Down)
	})
}

func (m *masters) heal() {
	m.network(func(p *faultproxy.Proxy) { must(p.Heal()) })
}

// put sets a key as another program would.
func (one *master) put(key, value string, ttl time.Duration) {
	made(one.ctl.Do("SET", key, value, "PX", ttl.Milliseconds()))
}

// have counts the masters, from the first to the n-th, that have the key.
func (m *masters) have(key string, n int) (count int) {
	for _, one := range m.all[:n] {
		count += made(redis.Int(one.ctl.Do("EXISTS", key)))
	}
	return count
}

// gone waits until no master has the key, for as long as any of the TTLs here.
func (m *masters) gone(key string) {
	for began := time.Now(); m.have(key, len(m.all)) > 0; time.Sleep(time.Millisecond) {
		if took := time.Since(began); took > 10*time.Second {
			must(fmt.Errorf("%d masters still have the key %s after %v", m.have(key, len(m.all)), key, took))
		}
	}
}

// A timed call is what is known of a call after a while.
type timed struct {
	took     time.Duration
	returned bool
	err      error
}

// call calls f, and waits for limit at most. What f writes may be read if it has returned.
func (m *masters) call(limit time.Duration, f func() error) timed {
	done := make(chan error, 1)
	began := time.Now()
	m.calls.Go(func() { done <- f() })
	select {
	case err := <-done:
		return timed{took: time.Since(began), returned: true, err: err}
	case <-time.After(limit):
		return timed{took: limit}
	}
}

func (t timed) ok() bool { return t.returned && t.err == nil }

func (t timed) String() string {
	switch {
	case !t.returned:
		return "still blocked after " + figure(t.took)
	case t.err != nil:
		return fmt.Sprintf("failed after %s: %s", figure(t.took), brief(t.err))
	default:
		return "succeeded after " + figure(t.took)
	}
}
