package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// vault has the credentials of each node, and counts how often it was asked for them.
type vault struct {
	mu       sync.Mutex // protects the fields below
	password map[string]string
	asked    map[string]int
	sealed   error
}

func (v *vault) credentials(_ context.Context, addr string) (user, password string, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked[addr]++
	return "app", v.password[addr], v.sealed
}

func (v *vault) count(addr string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[addr]
}

// rotate gives a node another password, and ends the connections that were made with the old one.
func (v *vault) rotate(t *testing.T, n *masters.Node, password string) {
	t.Helper()
	_, err := n.Do("ACL", "SETUSER", "app", "reset", "on", ">"+password, "~*", "&*", "+@all")
	fleet.Must(t, err)
	v.mu.Lock()
	v.password[n.Addr()] = password
	v.mu.Unlock()
	_, err = n.Do("CLIENT", "KILL", "USER", "app")
	fleet.Must(t, err)
}

func newVault(t *testing.T, f fleet.Fleet) *vault {
	t.Helper()
	v := &vault{password: map[string]string{}, asked: map[string]int{}}
	for _, n := range f.Nodes {
		v.rotate(t, n, "first")
	}
	return v
}

// locker returns a Locker whose URLs have no credentials.
func (v *vault) locker(t *testing.T, f fleet.Fleet) *redlock.Locker {
	t.Helper()
	var urls []string
	for _, n := range f.Nodes {
		urls = append(urls, "redis://"+n.Addr())
	}
	rotated := redlock.WithNodeConfig(redlock.NodeConfig{Credentials: v.credentials})
	return fleet.Locker(t, urls, redlock.WithTTL(fleet.Long), rotated)
}

// While the passwords of all nodes are rotated, node by node and several times, no call fails, and each rotation costs
// each node one attempt to connect.
func TestRotatedCredentials(t *testing.T) {
	t.Parallel()
	const cycles, workers, rotations = 1000, 8, 3
	f := fleet.StartSpec(t, 5, masters.Spec{})
	v := newVault(t, f)
	l := v.locker(t, f)
	voting := func(addr string) bool {
		for _, s := range l.Status(t.Context()) {
			if s.Addr == addr {
				return s.Err == nil
			}
		}
		return false
	}
	for _, n := range f.Nodes {
		fleet.Eventually(t, n.Addr()+" votes", func() bool { return voting(n.Addr()) })
	}

	var begun atomic.Int64
	rotated := make(chan struct{})
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			for { // at least so many cycles, and until the last rotation
				if begun.Add(1) > cycles {
					select {
					case <-rotated:
						return
					default:
					}
				}
				k, err := l.Lock(t.Context(), fmt.Sprint("job", w))
				if err == nil {
					err = k.Unlock()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	defer running.Wait()
	defer close(rotated)
	for i := range rotations {
		for _, n := range f.Nodes {
			before := v.count(n.Addr())
			v.rotate(t, n, fmt.Sprint("password ", i))
			fleet.Eventually(t, n.Addr()+" votes again", func() bool {
				return v.count(n.Addr()) > before && voting(n.Addr())
			})
			if got := v.count(n.Addr()) - before; got != 1 {
				t.Errorf("rotation %d: %s was asked for %d times, want once", i, n.Addr(), got)
			}
		}
	}
}

// A password that is rotated a moment too late, and a function that fails, keep the node out until the next attempt.
func TestCredentialsThatAreWrongForAWhile(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 1, masters.Spec{})
	n := f.Nodes[0]
	v := newVault(t, f)
	v.mu.Lock()
	v.password[n.Addr()], v.sealed = "an old one", errors.New("the vault is sealed")
	v.mu.Unlock()
	l := v.locker(t, f)
	_, err := l.TryLock(t.Context(), "job")
	fleet.WantIs(t, err, redlock.ErrNoQuorum)
	st := l.Status(t.Context())[0]
	fleet.WantIs(t, st.Err, v.sealed)
	if len(st.Findings) != 1 || st.Findings[0].Code != "credentials" {
		t.Errorf("got the findings %+v, want that about credentials", st.Findings)
	}

	v.mu.Lock()
	v.sealed = nil
	v.mu.Unlock()
	var refusal *redlock.ReplyError
	fleet.Eventually(t, "the password is refused", func() bool {
		return errors.As(l.Status(t.Context())[0].Err, &refusal) && refusal.Code == "WRONGPASS"
	})
	if strings.Contains(refusal.Error(), "an old one") {
		t.Errorf("the password is in: %v", refusal)
	}

	v.mu.Lock()
	v.password[n.Addr()] = "first"
	v.mu.Unlock()
	fleet.Must(t, fleet.Lock(t, l, "job").Unlock())
}
