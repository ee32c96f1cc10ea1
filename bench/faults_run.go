package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/faultproxy"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// chooseFaults finds those whose name matches.
func chooseFaults(pattern string) (chosen []fault, err error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	for _, f := range faults {
		if re.MatchString(f.name) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no fault matches %q; -list names them", pattern)
	}
	return chosen, nil
}

// play runs the faults one after the other. A peer may do what it likes; it is an error if a run fails to show
// anything, or if this library does not do what is expected.
func play(chosen []fault) error {
	began := time.Now()
	fmt.Println(machine())
	var failed error
	for _, f := range chosen {
		fmt.Print("\n" + f.head())
		for _, s := range f.subjects() {
			v, err := f.play(s)
			if err != nil {
				v = verdict{seen: "not run: " + err.Error()}
				failed = errors.Join(failed, fmt.Errorf("%s, %s: %w", f.name, s.name, err))
			} else if s.module == ourModule && !v.expected {
				failed = errors.Join(failed, fmt.Errorf("%s: redlock does not do what is expected: %s", f.name, v.seen))
			}
			fmt.Printf("  %-3s  %s:\n       %s\n", map[bool]string{true: "yes", false: "no"}[v.expected], s, v.seen)
		}
	}
	fmt.Printf("\n%s in all.\n", time.Since(began).Round(time.Second))
	return failed
}

// A failure is why a run shows nothing. must panics with it, so that a fault reads as what happens; play returns it.
type failure struct{ err error }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func made[T any](v T, err error) T {
	must(err)
	return v
}

// play lets a subject meet the fault, with masters of its own. After so long they are killed: whatever does not know of
// ctx ends with them.
func (f fault) play(s subject) (_ verdict, err error) {
	const most = 25 * time.Second
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			err = why.err
		default:
			panic(why)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	m := &stage{servers: made(startServers(s.nodes, redisserver.Config{}))}
	defer m.stop()
	for _, one := range m.servers {
		m.proxies = append(m.proxies, made(faultproxy.New(one.Addr())))
	}
	defer time.AfterFunc(most, func() {
		for _, one := range m.servers {
			_ = one.Kill(context.Background()) // stop does it again
		}
	}).Stop()
	return f.meet(ctx, m, s), nil
}

// A stage has the masters of one run: just started, each behind a proxy that can break its network.
type stage struct {
	servers []*server
	proxies []*faultproxy.Proxy
	calls   sync.WaitGroup // calls of a library, which a run may have given up
}

// stop ends the masters. Calls that are still under way fail then, and stop waits for them.
func (m *stage) stop() {
	m.network((*faultproxy.Proxy).Close)
	stopServers(m.servers)
	m.calls.Wait()
}

// last is the master that a fault is about.
func (m *stage) last() *server { return m.servers[len(m.servers)-1] }

// network does the same to the network of each master.
func (m *stage) network(do func(*faultproxy.Proxy)) {
	for _, p := range m.proxies {
		do(p)
	}
}

// have counts the masters, from the first to the n-th, that have the key.
func (m *stage) have(key string, n int) (count int) {
	for _, one := range m.servers[:n] {
		count += made(redis.Int(one.ctl.Do("EXISTS", key)))
	}
	return count
}

// gone waits until no master has the key, for as long as any of the TTLs here.
func (m *stage) gone(key string) {
	for began := time.Now(); m.have(key, len(m.servers)) > 0; time.Sleep(time.Millisecond) {
		if took := time.Since(began); took > 10*time.Second {
			must(fmt.Errorf("%d masters still have the key %s after %v", m.have(key, len(m.servers)), key, took))
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
func (m *stage) call(limit time.Duration, f func() error) timed {
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
