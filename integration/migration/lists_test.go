package migration_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
)

// count returns how many clients the masters have seen in the last minute, by their lists, as a monitor sees them that
// is given these lists itself.
func count(t *testing.T, f fleet.Fleet, l lists) map[string]int {
	t.Helper()
	of, to := urlsOf(f, l)
	opts := clientOptions()
	if to != nil {
		opts = append(opts, redlock.WithNewNodes(to))
	}
	monitor, err := redlock.NewInspector(of, opts...)
	fleet.Must(t, err)
	defer monitor.Close()
	seen := map[string]int{}
	for _, n := range monitor.Status(t.Context()) {
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
