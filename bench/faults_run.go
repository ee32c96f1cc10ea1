package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis/rueidislock"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/faultproxy"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// chooseFaults finds those whose name matches.
func chooseFaults(pattern string) (chosen []fault) {
	re := made(regexp.Compile(pattern))
	for _, f := range faults {
		if re.MatchString(f.name) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		must(fmt.Errorf("no fault matches %q; -list names them", pattern))
	}
	return chosen
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
			var v verdict
			if err := attempt(func() { v = f.play(s) }); err != nil {
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

// play lets a subject meet the fault, with masters of its own. After so long they are killed: whatever does not know of
// ctx ends with them.
func (f fault) play(s subject) verdict {
	const most = 25 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	m := &stage{servers: startServers(s.nodes, redisserver.Config{})}
	defer m.stop()
	for _, one := range m.servers {
		m.proxies = append(m.proxies, made(faultproxy.New(one.Addr())))
	}
	defer time.AfterFunc(most, func() {
		for _, one := range m.servers {
			_ = one.Kill(context.Background()) // stop does it again
		}
	}).Stop()
	return f.meet(ctx, m, s)
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

const (
	ourModule     = "github.com/quorumlock/redlock"
	redigoModule  = "github.com/gomodule/redigo"
	goRedisModule = "github.com/redis/go-redis/v9"
)

// A subject is a library in one configuration, as its documentation says. Where a time-out is missing by default, it is
// shown with one as well.
type subject struct {
	contestant        // its name is the library's
	module     string // the library's
	client     string // the module of the Redis client that the library was given; empty: it has none or its own
	config     string // time-outs above all
	// patience is how long the context of an extension lasts; 0: it does not end.
	patience time.Duration
}

func impatient(s subject) subject {
	s.patience = time.Second
	return s
}

// use opens a library's client, and lets it connect by a first lock.
func (s subject) use(ctx context.Context, nodes []string, w wish) (*client, worker) {
	c := s.open(nodes, w)
	defer undo(c.close)
	one := c.worker()
	must(one.cycle(ctx, "warm"))
	return c, one
}

// redlockOn is this library with its defaults, but for the restart guard: the masters have just been started. more is
// what else is to be said.
func redlockOn(n int, more ...string) subject {
	return subject{
		contestant: contestant{name: "redlock", nodes: n, open: openRedlock(locks)}, module: ourModule,
		config: strings.Join(append([]string{"its defaults (node timeout 250 ms), no restart guard"}, more...), "; "),
	}
}

// A setting is redsync over a Redis client with certain time-outs.
type setting struct {
	client, timeouts string
	pool             openPool
}

var (
	redigoDefault  = setting{redigoModule, "no time-outs, redigo's default", redigoPool()}
	redigoSecond   = setting{redigoModule, "time-outs of 1 s (connect, read, write)", redigoPool(inASecond...)}
	goRedisDefault = setting{goRedisModule, "go-redis's default time-outs, 5 s", goRedisPool(goredis.Options{})}
	goRedisSecond  = setting{goRedisModule, "time-outs of 1 s (connect, read, write)", goRedisPool(goredis.Options{
		DialTimeout: time.Second, ReadTimeout: time.Second, WriteTimeout: time.Second,
	})}
	// go-redis honours a context's deadline only then, and redsync gives it one for each attempt: 5 % of the TTL.
	goRedisContext = setting{goRedisModule, "`ContextTimeoutEnabled`", goRedisPool(goredis.Options{
		ContextTimeoutEnabled: true,
	})}

	settings = []setting{redigoDefault, redigoSecond, goRedisDefault, goRedisSecond, goRedisContext}
)

// with is redsync in this setting on n masters. more is what else is set, by opts.
func (s setting) with(n int, more string, opts ...redsync.Option) subject {
	return subject{
		contestant: contestant{name: "redsync", nodes: n, open: openRedsync(s.pool, opts...)},
		module:     "github.com/go-redsync/redsync/v4", client: s.client, config: s.timeouts + more,
	}
}

// inAll are these settings, on three masters.
func inAll(of []setting) (all []subject) {
	for _, s := range of {
		all = append(all, s.with(3, ""))
	}
	return all
}

// on1 is rueidislock, which has one client and so one master.
func on1(config string, opts rueidislock.LockerOption) subject {
	return subject{
		contestant: contestant{name: "rueidislock", nodes: 1, open: openRueidislock(opts)},
		module:     "github.com/redis/rueidis", config: config,
	}
}

// onBsm is bsm/redislock, which has one client and so one master.
func onBsm(config string) subject {
	return subject{contestant: bsmGoRedis1, module: "github.com/bsm/redislock", client: goRedisModule, config: config}
}

// version is a module's, as this program was built with it.
func version(module string) string {
	info, _ := debug.ReadBuildInfo() // there is one: this is a module
	i := slices.IndexFunc(info.Deps, func(m *debug.Module) bool { return m.Path == module })
	switch {
	case i < 0:
		return "of unknown version" // in a test
	case info.Deps[i].Replace != nil:
		return "of this checkout"
	}
	return strings.TrimPrefix(info.Deps[i].Version, "v")
}

// String is the library and its client, with their versions, and the configuration.
func (s subject) String() string {
	text := s.name + " " + version(s.module)
	if s.client != "" {
		text += " with " + clientNames[s.client] + " " + version(s.client)
	}
	if s.nodes == 1 {
		return text + "; 1 master; " + s.config
	}
	return fmt.Sprintf("%s; %d masters; %s", text, s.nodes, s.config)
}

var clientNames = map[string]string{redigoModule: "redigo", goRedisModule: "go-redis"}

// head says what a fault is about.
func (f fault) head() string {
	return fmt.Sprintf("%s\n  %s\n  Expected: %s\n", f.name, f.about, f.want)
}

func figure(d time.Duration) string { return number(us(d)/1000) + " ms" }

var sentinels = []struct {
	err  error
	name string
}{
	{redlock.ErrTaken, "ErrTaken"},
	{redlock.ErrNoQuorum, "ErrNoQuorum"},
	{redlock.ErrLost, "ErrLost"},
	{redlock.ErrInvalid, "ErrInvalid"},
	{context.DeadlineExceeded, "context.DeadlineExceeded"},
}

// noise is what differs from run to run, or says nothing about the library.
var noise = regexp.MustCompile(`(read|write) (tcp|unix) \S+: | script: .*`)

// brief is an error's text, or the names of what errors.Is finds in one of this library's.
func brief(err error) string {
	if err == nil {
		return "no error"
	}
	if !strings.HasPrefix(err.Error(), "redlock:") {
		return strings.ReplaceAll(noise.ReplaceAllString(err.Error(), ""), "\n", "; ")
	}
	var names []string
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			names = append(names, s.name)
		}
	}
	return strings.Join(names, " and ")
}
