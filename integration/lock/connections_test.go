package lock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// connections returns how many connections to a master there are besides its administrator's, and how many of them are
// subscribed.
func connections(t *testing.T, n *masters.Node) (all, subscribed int) {
	t.Helper()
	list, err := redis.String(n.Do("CLIENT", "LIST"))
	fleet.Must(t, err)
	for line := range strings.Lines(list) {
		if !strings.Contains(line, "cmd=client") {
			all++
		}
		if strings.Contains(line, " sub=1 ") {
			subscribed++
		}
	}
	return all, subscribed
}

// asDefault are masters whose clients are the default user, whatever rights the suite runs with: those of that user are
// taken away.
var asDefault = masters.Spec{ClientUser: "default"}

func forbid(t *testing.T, f fleet.Fleet, command string) {
	t.Helper()
	for _, n := range f.Nodes {
		_, err := n.Do("ACL", "SETUSER", "default", "-"+command)
		fleet.Must(t, err)
	}
}

// withoutHello is a master that knows no HELLO, as before Redis 6. No ACL can forbid HELLO.
var withoutHello = masters.Spec{Args: []string{"--rename-command", "HELLO", ""}}

// Whoever waits is notified over the connection that it has to each master. Where HELLO is unknown it opens a second
// one; where SUBSCRIBE is forbidden, it asks. A connection that is lost meanwhile comes back subscribed.
func TestWhoeverWaitsHasOneConnection(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec            masters.Spec
		all, subscribed int // to each master, of a holder that never had to wait and of a waiter
	}{
		"RESP3":                  {masters.Spec{}, 2, 2}, // who calls Lock listens, before it has to wait
		"HELLO is unknown":       {withoutHello, 3, 1},
		"SUBSCRIBE is forbidden": {asDefault, 2, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.StartSpec(t, 3, c.spec)
			if c.subscribed == 0 {
				forbid(t, f, "subscribe")
			}
			holder, waiter := f.Locker(t), f.Locker(t, redlock.WithPollInterval(seldom, seldom))
			for again := range 3 {
				if again == 2 {
					holder = waiter // the master then notifies the connection over which the release came
				}
				k, err := holder.Lock(t.Context(), "turn")
				fleet.Must(t, err)
				got := make(chan *redlock.Lock, 1)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				go func() {
					k, err := waiter.Lock(ctx, "turn")
					if err != nil {
						t.Error(err)
					}
					got <- k
				}()
				fleet.Eventually(t, "it waits, and listens to each master", func() bool { return isQueued(t, f, c.subscribed) })
				if again == 1 && c.subscribed > 0 {
					for _, n := range f.Nodes {
						_, err := n.Do("CLIENT", "KILL", "TYPE", "pubsub")
						fleet.Must(t, err)
					}
					fleet.Eventually(t, "it is subscribed again", func() bool { return isQueued(t, f, c.subscribed) })
				}
				for _, n := range f.Nodes { // one that was replaced may still be there for a moment
					fleet.Eventually(t, fmt.Sprint(c.all, " connections to a master"), func() bool {
						all, _ := connections(t, n)
						return all == c.all
					})
				}
				fleet.Must(t, k.Unlock())
				if k := <-got; k != nil {
					fleet.Must(t, k.Unlock())
				}
			}
			f.WantCleanAfter(t, 0)
		})
	}
}

// seldom is a pause that no test waits for: without a notification, the lock comes when the holder's TTL ends.
const seldom = time.Second

// isQueued reports whether somebody is queued on a majority of the masters, and so many listen to each. A waiter may be
// given a lock's key on the third, which it has not been queued for.
func isQueued(t *testing.T, f fleet.Fleet, subscribed int) bool {
	t.Helper()
	queues := 0
	for _, n := range f.Nodes {
		waiting, err := redis.Int(n.Do("ZCARD", "redlock:wait:turn"))
		fleet.Must(t, err)
		if _, got := connections(t, n); got != subscribed {
			return false
		}
		queues += waiting
	}
	return queues > len(f.Nodes)/2
}

// A server that does not know SCRIPT gets the source of a script with the first call of it.
func TestServersWithoutScript(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 3, masters.Spec{Args: []string{"--rename-command", "SCRIPT", ""}})
	k := fleet.Lock(t, f.Locker(t, redlock.WithTTL(fleet.Long)), "n")
	fleet.Must(t, k.Extend(t.Context()))
	fleet.Eventually(t, "all nodes have granted", func() bool { return f.Holders(t, "n", k.Owner()) == 3 })
	fleet.Must(t, k.Unlock())
}
