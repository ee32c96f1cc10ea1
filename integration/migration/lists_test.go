package migration_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
)

// count returns how many clients the masters have seen in the last minute, by their lists, as a monitor sees them that
// is given these lists itself.
func count(t *testing.T, f fleet.Fleet, l lists) map[string]int {
	t.Helper()
	of, to := urlsOf(f, l)
	opts := append(clientOptions(), redlock.WithoutLocking())
	if to != nil {
		opts = append(opts, redlock.WithMigration(to))
	}
	monitor, err := redlock.New(of, opts...)
	fleet.Must(t, err)
	defer monitor.Close()
	seen := map[string]int{}
	for _, n := range monitor.Nodes(t.Context()) {
		for _, c := range n.Clients {
			seen[shown(c.Lists)] = max(seen[shown(c.Lists)], c.Clients)
		}
	}
	return seen
}

// shown returns lists of addresses as a text.
func shown(lists [][]string) string {
	for _, list := range lists {
		slices.Sort(list)
	}
	return fmt.Sprint(lists)
}

// addresses returns the lists as the masters' addresses.
func (l lists) addresses(f fleet.Fleet) string {
	var all [][]string
	for _, list := range [][]int{l.from, l.to} {
		var addrs []string
		for _, i := range list {
			addrs = append(addrs, f.Nodes[i].Addr())
		}
		if addrs != nil {
			all = append(all, addrs)
		}
	}
	return shown(all)
}

// wantCounted waits until the masters count the clients as they are: each of them, and perhaps for a minute those that
// were killed.
func (d *deployment) wantCounted(t *testing.T) {
	t.Helper()
	want := map[string]int{}
	for _, p := range d.clients {
		want[p.lists.addresses(d.fleet)]++
	}
	fleet.Eventually(t, fmt.Sprintf("the masters count the clients: %v", want), func() bool {
		seen := count(t, d.fleet, d.clients[0].lists)
		for lists, n := range want {
			if seen[lists] < n || seen[lists] > n+d.kills {
				return false
			}
			delete(seen, lists)
		}
		for _, n := range seen { // of lists that nobody has any more
			if n > d.kills {
				return false
			}
		}
		return true
	})
}

// A client with a list that conflicts with that of clients at work is refused, and these notice nothing.
func TestAClientWithTheWrongListIsRefused(t *testing.T) {
	if !fleet.Judging {
		t.Parallel()
	}
	fleet.Measure(t, func(m *fleet.Measurement) {
		right, wrong := only([]int{0, 1, 2, 3, 4}), only([]int{0, 1, 2, 3, 5})
		d := deploy(m.T, 3, right)
		d.wantCounted(m.T)
		for range 5 {
			of, _ := urlsOf(d.fleet, wrong)
			began := now()
			_, err := redlock.New(of, clientOptions()...)
			took := now() - began
			var conflict *redlock.ListConflictError
			if !errors.As(err, &conflict) || shown([][]string{conflict.Own[0]}) != wrong.addresses(d.fleet) ||
				shown([][]string{conflict.Other[0]}) != right.addresses(d.fleet) {
				m.Fatalf("got %v, want an error with both lists", err)
			}
			m.Bound(took.Seconds() <= 1, "refused after %v, want at most a second", took)
		}
		told := newHistory()
		p := startClient(m.T, d.fleet, wrong, job{}, told)
		<-p.said
		told.mu.Lock()
		said := strings.Join(told.mishaps[failed], "; ")
		told.mishaps = nil
		told.mu.Unlock()
		if !strings.Contains(said, "conflicting lists of nodes: other clients use ") {
			m.Errorf("the process said %q", said)
		}
		m.Log(said)
		began := now()
		d.awaitAll(m.T, began, d.clients[0])
		d.wantCounted(m.T)
		d.end(m)
	})
}
