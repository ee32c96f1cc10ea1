package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/sim"
)

func TestMain(m *testing.M) {
	boottime.Disable() // virtual time has no boot clock
	os.Exit(m.Run())
}

// fleet is a set of simulated masters on a simulated network, in virtual time.
type fleet struct {
	t     *testing.T
	net   *sim.Network
	nodes masters
	urls  []string
}

// masters are some nodes of a fleet, to which the same is done.
type masters []*sim.Node

func (m masters) each(f func(n *sim.Node)) {
	for _, n := range m {
		f(n)
	}
}

func (m masters) do(command ...any)         { m.each(func(n *sim.Node) { n.Do(command...) }) }
func (m masters) pause()                    { m.each((*sim.Node).Pause) }
func (m masters) resume()                   { m.each((*sim.Node).Resume) }
func (m masters) crash(keepData bool)       { m.each(func(n *sim.Node) { n.Crash(keepData) }) }
func (m masters) restart()                  { m.each((*sim.Node).Restart) }
func (m masters) setUptime(d time.Duration) { m.each(func(n *sim.Node) { n.SetUptime(d) }) }
func (m masters) step(d time.Duration)      { m.each(func(n *sim.Node) { n.Step(d) }) }
func (m masters) deny(commands ...string)   { m.each(func(n *sim.Node) { n.Deny(commands...) }) }
func (m masters) recover()                  { m.each((*sim.Node).Recover) }

func (m masters) fail(command, reply string, times int) {
	m.each(func(n *sim.Node) { n.Fail(command, reply, times) })
}

// bubble runs f in virtual time with a fleet of n masters.
func bubble(t *testing.T, n int, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fl := &fleet{t: t, net: sim.NewNetwork(1)}
		for i := range n {
			node := sim.NewNode(fmt.Sprintf("n%d:6379", i), uint64(i))
			fl.net.Attach(node)
			fl.nodes = append(fl.nodes, node)
			fl.urls = append(fl.urls, "redis://"+node.Addr())
		}
		t.Cleanup(func() {
			for _, node := range fl.nodes {
				node.Close()
			}
		})
		f(t, fl)
	})
}

// subtest is t.Run with a bubble.
func subtest(t *testing.T, name string, n int, f func(t *testing.T, fl *fleet)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { bubble(t, n, f) })
}

// sized returns full, or raced under the race detector, where tests take five times as long. make test runs
// the one, make thorough the other.
func sized[T any](full, raced T) T {
	if raceDetector {
		return raced
	}
	return full
}

// collectWhenTold turns garbage collection off, except for calls of runtime.GC, until the test ends.
func collectWhenTold(t *testing.T) {
	t.Helper()
	percent := debug.SetGCPercent(-1)
	t.Cleanup(func() { debug.SetGCPercent(percent) })
}

// locker returns a Locker of the named client, which is closed when the test ends.
func (fl *fleet) locker(client string, opts ...Option) *Locker {
	fl.t.Helper()
	l, err := New(fl.urls, append([]Option{dialing(fl.net.Dialer(client))}, opts...)...)
	if err != nil {
		fl.t.Fatal(err)
	}
	fl.t.Cleanup(func() { _ = l.Close() })
	return l
}

// holding returns the number of nodes on which the key exists.
func (fl *fleet) holding(key string) int {
	count := 0
	for _, n := range fl.nodes {
		if n.Do("EXISTS", key) == int64(1) {
			count++
		}
	}
	return count
}

// knowing returns the number of nodes that know the token as the largest of the name.
func (fl *fleet) knowing(name string, token int64) (count int) {
	for _, n := range fl.nodes {
		if n.Do("ZSCORE", tokensName, name) == fmt.Sprint(token) {
			count++
		}
	}
	return count
}

// isHeld fails the test unless the key exists on so many nodes. what says when or why.
func (fl *fleet) isHeld(key string, want int, what ...string) {
	fl.t.Helper()
	if got := fl.holding(key); got != want {
		fl.t.Errorf("%s%s is on %d nodes, want %d", strings.Join(append(what, ""), ": "), key, got, want)
	}
}

// leftovers returns the keys on the nodes, except those that the library always keeps.
func (fl *fleet) leftovers() (keys []string) {
	for _, n := range fl.nodes {
		for _, key := range n.Keys() {
			own := key == tokensName || key == "redlock:node" || key == "redlock:floor" || key == "redlock:settings" ||
				key == "redlock:lists" || strings.HasPrefix(key, "redlock:clients:") || strings.HasPrefix(key, "redlock:label:")
			if !own {
				keys = append(keys, n.Addr()+" "+key)
			}
		}
	}
	return keys
}

// nothingLeft fails the test if leftovers has any. what says when.
func (fl *fleet) nothingLeft(what ...string) {
	fl.t.Helper()
	if left := fl.leftovers(); len(left) > 0 {
		fl.t.Errorf("%sleft: %v", strings.Join(append(what, ""), ": "), left)
	}
}

// clean is nothingLeft when all messages in flight have arrived.
func (fl *fleet) clean(what ...string) {
	fl.t.Helper()
	settleNetwork()
	fl.nothingLeft(what...)
}

// withGuard and withRetention set what follows the longest TTL otherwise.
func withGuard(d time.Duration) Option {
	return newOption(func(o *options) {
		if o.guard, o.maxTTL, o.maxTTLSet = d, d, d > 0; d == 0 {
			o.node.NoRestartGuard = true
		}
		o.retention = max(o.retention, 2*d, time.Minute)
	})
}

func withRetention(d time.Duration) Option { return newOption(func(o *options) { o.retention = d }) }

// withBackoff sets how a waiting call pauses.
func withBackoff(b func(attempts int) time.Duration) LockOption {
	return waitOption{func(o *options) { o.backoff = b }}
}

// dialing sets how nodes are dialled, and asking for what their user and password are.
func dialing(f func(ctx context.Context, network, address string) (net.Conn, error)) Option {
	return WithNodeConfig(NodeConfig{Dial: f})
}

func asking(f func(ctx context.Context, addr string) (user, password string, err error)) Option {
	return WithNodeConfig(NodeConfig{Credentials: f})
}

// A call acquires "job".
type call func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error)

var calls = map[string]call{
	"Lock": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.Lock(ctx, "job", opts...)
	},
	"TryLock": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.TryLock(ctx, "job", opts...)
	},
	"without tokens": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.Lock(ctx, "job", append(opts, WithoutFencing())...)
	},
	"RLock": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.RLock(ctx, "job", opts...)
	},
	"LockAll": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.LockAll(ctx, []string{"job", "other"}, opts...)
	},
	"Acquire": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.Semaphore("job", 1).Acquire(ctx, opts...)
	},
}

// forOnce returns options of a lock for a call of Once.
func forOnce(opts []LockOption) []OnceOption {
	all := make([]OnceOption, len(opts))
	for i, opt := range opts {
		all[i] = opt
	}
	return all
}

// tries are the calls that ask once.
var tries = map[string]call{
	"Lock": calls["TryLock"],
	"RLock": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.TryRLock(ctx, "job", opts...)
	},
	"LockAll": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.TryLockAll(ctx, []string{"job", "other"}, opts...)
	},
	"without tokens": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.TryLock(ctx, "job", append(opts, WithoutFencing())...)
	},
	"Acquire": func(ctx context.Context, l *Locker, opts ...LockOption) (*Lock, error) {
		return l.Semaphore("job", 1).TryAcquire(ctx, opts...)
	},
}

// some returns these of the calls.
func some(names ...string) iter.Seq2[string, call] {
	return func(yield func(string, call) bool) {
		for _, name := range names {
			if !yield(name, calls[name]) {
				return
			}
		}
	}
}

// settleNetwork waits until all messages in flight have arrived.
func settleNetwork() {
	time.Sleep(20 * time.Millisecond)
	synctest.Wait()
}

// settles is isHeld when all messages in flight have arrived.
func (fl *fleet) settles(key string, want int, what ...string) {
	fl.t.Helper()
	settleNetwork()
	fl.isHeld(key, want, what...)
}

// must(f())(t) returns f's value, and ends the test if f fails.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// succeeds fails the test if err is one. what says what it is of.
func succeeds(t testing.TB, err error, what ...string) {
	t.Helper()
	if err != nil {
		t.Error(strings.Join(append(what, err.Error()), ": "))
	}
}

// fails fails the test unless err is another, as errors.Is says. what says what it is of, or why it is wanted.
func fails(t testing.TB, err, want error, what ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%sgot %v, want %v", strings.Join(append(what, ""), ": "), err, want)
	}
}

// newContext returns a context that carries the hold and does not end with it.
func newContext(ctx context.Context, lock *Lock) context.Context {
	around, _ := ctx.Value(scopeKey{}).(*scope)
	in := &scope{core: lock.hold.locker.core, ended: &lock.hold.finished, outer: around}
	ctx = context.WithValue(ctx, scopeKey{}, in)
	return context.WithValue(ctx, heldKey{}, &carried{lock: lock, outer: carriedBy(ctx)})
}

// conflicts fails the test unless err is a ListConflictError.
func conflicts(t testing.TB, err error, what ...string) {
	t.Helper()
	if !errors.As(err, new(*ListConflictError)) {
		t.Errorf("%sgot %v, want a ListConflictError", strings.Join(append(what, ""), ": "), err)
	}
}

// errOf returns the error of a call that returns something besides.
func errOf[T any](_ T, err error) error { return err }

// failsAll fails the test unless err is each of the errors that are wanted.
func failsAll(t testing.TB, err error, wanted ...error) {
	t.Helper()
	for _, want := range wanted {
		fails(t, err, want)
	}
}

// failsSaying fails the test unless err is another, and contains the texts, with what it says of nodes.
func failsSaying(t testing.TB, err, want error, texts ...string) {
	t.Helper()
	fails(t, err, want)
	for _, text := range texts {
		if !says(err, text) {
			t.Errorf("got %+v, want that it says %q", err, text)
		}
	}
}

// failsAlone fails the test unless err is the one that is wanted, and none of the others.
func failsAlone(t testing.TB, err, want error, others ...error) {
	t.Helper()
	fails(t, err, want)
	for _, other := range others {
		if errors.Is(err, other) {
			t.Errorf("got %v, which is %v, too", err, other)
		}
	}
}

// quorumError returns the *QuorumError that err must be.
func quorumError(t testing.TB, err error) (q *QuorumError) {
	t.Helper()
	if !errors.As(err, &q) {
		t.Fatalf("got %v, want a *QuorumError", err)
	}
	return q
}

// equals fails the test unless got is want. what says what it is of, or when or why it is wanted.
func equals[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

// between fails the test unless got is least, most, or anything between them.
func between[T cmp.Ordered](t testing.TB, got, least, most T, what string, args ...any) {
	t.Helper()
	if got < least || got > most {
		t.Errorf("%s: got %v, want %v to %v", fmt.Sprintf(what, args...), got, least, most)
	}
}

// grows fails the test unless a token is larger than one of an earlier hold.
func grows(t testing.TB, token, earlier int64) {
	t.Helper()
	if token <= earlier {
		t.Errorf("token %d after %d", token, earlier)
	}
}

// expiring returns a context that ends after d, and cancelled one that has ended.
func expiring(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func cancelled(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// async calls f in a goroutine. The channel has its result.
func async[T any](f func() T) <-chan T {
	result := make(chan T, 1)
	go func() { result <- f() }()
	return result
}

// together calls f in n goroutines at one moment, and waits for them.
func together(n int, f func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { f(i) })
	}
	all.Wait()
}

// takeTurns has a Locker acquire and release, until ctx ends.
func takeTurns(ctx context.Context, t *testing.T, l *Locker, lock call, hold time.Duration) {
	t.Helper()
	for ctx.Err() == nil {
		k, err := lock(ctx, l)
		if err != nil {
			return
		}
		time.Sleep(hold)
		succeeds(t, k.Unlock())
	}
}

// within fails the test unless f returns within d of virtual time.
func within(t *testing.T, d time.Duration, what string, f func()) {
	t.Helper()
	begun := time.Now()
	f()
	if took := time.Since(begun); took > d {
		t.Errorf("%s took %v, want at most %v", what, took, d)
	}
}

// link0 names a client's connection to a node of the fleet.
func link0(client string, node int) sim.Link {
	return sim.Link{Client: client, Node: fmt.Sprintf("n%d:6379", node)}
}

// cut cuts a client off from nodes until mend.
func (fl *fleet) cut(client string, nodes ...int) {
	for _, i := range nodes {
		fl.net.Refuse(link0(client, i))
		fl.net.Cut(link0(client, i))
	}
}

func (fl *fleet) mend(client string, nodes ...int) {
	for _, i := range nodes {
		fl.net.Accept(link0(client, i))
	}
}

// cutAll cuts a client off from all nodes until mendAll.
func (fl *fleet) cutAll(client string) {
	fl.net.Refuse(sim.Link{Client: client})
	fl.net.Cut(sim.Link{Client: client})
}

func (fl *fleet) mendAll(client string) { fl.net.Accept(sim.Link{Client: client}) }

// says reports whether an error, with its nodes, contains a text.
func says(err error, part string) bool { return strings.Contains(fmt.Sprintf("%+v", err), part) }
