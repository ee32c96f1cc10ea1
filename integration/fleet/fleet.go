// Package fleet gives a test its masters, the broken networks in front of them, and Lockers that use them.
package fleet

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// choose asks REDLOCK_PROVIDER once for each test binary.
var choose = sync.OnceValues(func() (masters.Provider, error) { return masters.Choose(context.Background()) })

// Main is a package's TestMain. It says what the tests run against, or why they cannot.
func Main(m *testing.M) {
	p, err := choose()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("masters:", p)
	code := m.Run()
	if err := masters.Remove(idle.nodes); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// idle holds masters that a test has left in good order, for the next one: to
// start and remove containers takes longer than most tests do.
var idle struct {
	mu    sync.Mutex // protects nodes
	nodes []*masters.Node
}

// take returns up to n idle masters.
func take(n int) []*masters.Node {
	idle.mu.Lock()
	defer idle.mu.Unlock()
	rest := max(0, len(idle.nodes)-n)
	taken := slices.Clone(idle.nodes[rest:])
	idle.nodes = idle.nodes[:rest]
	return taken
}

// giveBack keeps the masters that are as good as new, and removes the others.
func giveBack(nodes []*masters.Node) error {
	var broken []*masters.Node
	for _, n := range nodes {
		_, err := n.Do("FLUSHALL")
		if err == nil {
			_, err = n.Do("SCRIPT", "FLUSH")
		}
		if err != nil { // killed or frozen
			broken = append(broken, n)
			continue
		}
		idle.mu.Lock()
		idle.nodes = append(idle.nodes, n)
		idle.mu.Unlock()
	}
	return masters.Remove(broken)
}

// Fleet is the masters of one test.
type Fleet struct {
	Nodes []*masters.Node
}

// Start returns n plain masters for one test. They may have served another test, but they remember nothing of it.
func Start(t *testing.T, n int) Fleet {
	t.Helper()
	p := cases.Must(choose())(t)
	nodes := take(n)
	more, err := masters.Launch(t.Context(), p, n-len(nodes), limited(t, masters.Spec{}))
	nodes = append(nodes, more...)
	t.Cleanup(func() {
		if t.Failed() {
			masters.Report(t, nodes)
			cases.NoError(t, masters.Remove(nodes))
			return
		}
		cases.NoError(t, giveBack(nodes))
	})
	cases.NoError(t, err)
	return Fleet{nodes}
}

// StartSpec starts n masters for one test alone: for those that are not the
// default, and for tests that change a master's configuration.
func StartSpec(t *testing.T, n int, spec masters.Spec) Fleet {
	t.Helper()
	p := cases.Must(choose())(t)
	return Fleet{masters.Start(t, p, n, limited(t, spec))}
}

// Locker returns a Locker that reaches the masters directly.
func (f Fleet) Locker(t *testing.T, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return Locker(t, masters.URLs(f.Nodes), opts...)
}

// Guarded returns such a Locker with the restart guard.
func (f Fleet) Guarded(t *testing.T, maxTTL time.Duration, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return Guarded(t, masters.URLs(f.Nodes), maxTTL, opts...)
}

// patience is the Lockers' node timeout unless a test is about it. A busy machine
// may suspend the whole test for a quarter of a second, the library's default.
const patience = 5 * time.Second

// Locker returns a Locker for the nodes at the URLs, without the restart guard – the masters have just
// been started – which is closed when the test ends.
func Locker(t *testing.T, urls []string, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return locker(t, urls, redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true}), opts)
}

// Guarded returns a Locker like that with the restart guard, for as long as the longest TTL.
func Guarded(t *testing.T, urls []string, maxTTL time.Duration, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return locker(t, urls, redlock.WithMaxTTL(maxTTL), opts)
}

func locker(t *testing.T, urls []string, guard redlock.Option, opts []redlock.Option) *redlock.Locker {
	t.Helper()
	l, err := redlock.New(urls, append([]redlock.Option{redlock.WithNodeTimeout(patience), guard}, opts...)...)
	cases.NoError(t, err)
	t.Cleanup(func() { cases.NoError(t, l.Close()) })
	return l
}

// Lock acquires a name that nobody holds. It may take several attempts where a test wants a short node timeout and the
// machine is busy.
func Lock(t *testing.T, l *redlock.Locker, name string, opts ...redlock.LockOption) *redlock.Lock {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	return cases.Must(l.Lock(ctx, name, opts...))(t)
}

// AllVote reports whether the votes of all nodes count.
func AllVote(t *testing.T, l *redlock.Locker) bool {
	t.Helper()
	return !slices.ContainsFunc(l.Status(t.Context()), func(n redlock.NodeStatus) bool { return n.Err != nil })
}

// Healthy reports whether there is nothing to say about any node.
func Healthy(t *testing.T, l *redlock.Locker) bool {
	t.Helper()
	return !slices.ContainsFunc(l.Status(t.Context()), func(n redlock.NodeStatus) bool {
		return n.Err != nil || len(n.Findings) > 0
	})
}

// Network is one client's way to the masters: a fault proxy in front of each.
type Network struct {
	Proxies []*faultproxy.Proxy
	URLs    []string
}

// Network lays a network of its own to the masters. Its faults concern only who uses it.
func (f Fleet) Network(t *testing.T) Network {
	t.Helper()
	var nw Network
	for _, n := range f.Nodes {
		p := cases.Must(faultproxy.New(n.Addr()))(t)
		t.Cleanup(p.Close)
		nw.Proxies = append(nw.Proxies, p)
		nw.URLs = append(nw.URLs, n.URLAt(p.Addr()))
	}
	return nw
}

// Locker returns a Locker that reaches the masters through the network.
func (nw Network) Locker(t *testing.T, opts ...redlock.Option) *redlock.Locker {
	t.Helper()
	return Locker(t, nw.URLs, opts...)
}

// Each does something to every proxy.
func (nw Network) Each(do func(*faultproxy.Proxy)) {
	for _, p := range nw.Proxies {
		do(p)
	}
}

// Heal ends all faults of the network.
func (nw Network) Heal(t *testing.T) {
	t.Helper()
	nw.Each(func(p *faultproxy.Proxy) { cases.NoError(t, p.Heal()) })
}

// Holder returns what the node has at the name: an owner, or "" for nobody.
func Holder(t *testing.T, n *masters.Node, name string) string {
	t.Helper()
	owner, err := redis.String(n.Do("GET", name))
	if err != nil && err != redis.ErrNil { //nolint:errorlint // redigo returns it bare
		t.Fatalf("GET %s at %s: %v", name, n.Addr(), err)
	}
	return owner
}

// Holders counts the nodes on which the owner has the name.
func (f Fleet) Holders(t *testing.T, name, owner string) int {
	t.Helper()
	count := 0
	for _, n := range f.Nodes {
		if Holder(t, n, name) == owner {
			count++
		}
	}
	return count
}

// Grants returns on how many nodes a fresh hold of the Locker is; 0 where it gets none.
func (f Fleet) Grants(t *testing.T, l *redlock.Locker) int {
	t.Helper()
	k, err := l.TryLock(t.Context(), "which nodes grant?")
	if err != nil {
		return 0
	}
	time.Sleep(10 * time.Millisecond) // for the stragglers
	defer func() { _ = k.Unlock() }() // one that is late is carried out all the same
	return f.Holders(t, k.Name(), k.Owner())
}

// Leftovers returns what is on the nodes and is no key of the library's own.
func (f Fleet) Leftovers(t *testing.T) []string {
	t.Helper()
	return cases.Must(masters.Leftovers(f.Nodes))(t)
}

// WantClean fails the test unless all nodes are clean soon: before a TTL of [Long] could have cleaned them.
func (f Fleet) WantClean(t *testing.T) {
	t.Helper()
	var left []string
	if !Soon(func() bool { left = f.Leftovers(t); return len(left) == 0 }) {
		Unsafe(t, "left behind on %d nodes: %q", len(left), left[:min(5, len(left))])
	}
}

// BuildCommand builds the command redlock for a test in a folder of this module, and returns its path.
func BuildCommand(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "redlock")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/redlock")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return binary
}

// Long is a TTL that no test outlives: what is clean was cleaned, not expired. Tokens are kept for twice as long.
const Long = 55 * time.Second
