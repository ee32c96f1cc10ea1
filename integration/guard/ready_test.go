package guard_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// Where too many masters refuse the password, the user or the client's conditions, Ready does not wait.
func TestReadyReportsWhatOnlyAnAdministratorCanChange(t *testing.T) {
	f := fleet.StartSpec(t, 3, masters.Spec{})
	var urls []string
	for i, n := range f.Nodes {
		urls = append(urls, "redis://"+n.Addr())
		if i == 0 {
			continue
		}
		_, err := n.Do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-info", "-time")
		fleet.Must(t, err)
	}
	as := func(user string) []string {
		return []string{urls[0], "redis://" + user + "@" + f.Nodes[1].Addr(), "redis://" + user + "@" + f.Nodes[2].Addr()}
	}
	for what, c := range map[string]struct {
		urls []string
		code string
	}{
		"a wrong password": {as("app:wrong"), "WRONGPASS"},
		"a right missing":  {as("app:secret"), "NOPERM"},
		"no password set":  {as(":secret"), "ERR"},
	} {
		l := fleet.Locker(t, c.urls)
		err := l.Ready(context.Background()) // which never ends
		wantIs(t, err, redlock.ErrNoQuorum)
		var q *redlock.QuorumError
		if !errors.As(err, &q) || q.Nodes[0].Outcome != redlock.OutcomeVotes {
			t.Fatalf("%s: got %v, want a *QuorumError in which the first node votes", what, err)
		}
		for _, n := range q.Nodes[1:] {
			var refusal *redlock.ReplyError
			if !errors.As(n.Err, &refusal) || refusal.Code != c.code {
				t.Errorf("%s: got %v, want %s", what, n.Err, c.code)
			}
		}
	}

	before := fleet.Locker(t, as("default:secret")) // clients first: this user's password is any until one is set
	fleet.Must(t, before.Ready(t.Context()))
	for _, n := range f.Nodes[1:] {
		_, err := n.Do("CONFIG", "SET", "requirepass", "secret")
		fleet.Must(t, err)
	}
	fleet.Must(t, fleet.Locker(t, as("default:secret")).Ready(t.Context()))
	fleet.Must(t, before.Ready(t.Context()))
	err := fleet.Locker(t, urls).Ready(context.Background())
	wantIs(t, err, redlock.ErrNoQuorum)
}

// With a function for credentials, a refused password may be right the next time.
func TestReadyAwaitsTheRightPassword(t *testing.T) {
	f := fleet.StartSpec(t, 3, masters.Spec{})
	var urls []string
	for _, n := range f.Nodes {
		urls = append(urls, "redis://"+n.Addr())
		_, err := n.Do("ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all")
		fleet.Must(t, err)
	}
	var asked atomic.Int32
	l := fleet.Locker(t, urls, redlock.WithCredentials(func(context.Context, string) (user, password string, err error) {
		if asked.Add(1) <= 6 {
			return "app", "an old one", nil
		}
		return "app", "secret", nil
	}))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fleet.Must(t, l.Ready(ctx))
	if got := asked.Load(); got < 7 {
		t.Errorf("ready after %d connections, and the first six had a wrong password", got)
	}
}

// A client of masters that have just started is ready when a majority counts: that is when it gets a lock.
func TestReadyAfterAColdStart(t *testing.T) {
	f := fleet.StartSpec(t, 3, masters.Spec{})
	l := f.Locker(t, redlock.WithTTL(time.Second), redlock.WithRestartGuard(4*time.Second))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Ready(ended); err != nil { // nil if the machine is so busy that the guard's period is over
		wantIs(t, err, redlock.ErrNoQuorum)
		wantIs(t, err, context.Canceled)
		var q *redlock.QuorumError
		if !errors.As(err, &q) || q.Granted >= q.Need {
			t.Errorf("got %v, want a *QuorumError", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fleet.Must(t, l.Ready(ctx))
	k, err := l.TryLock(ctx, "job")
	fleet.Must(t, err)
	fleet.Must(t, k.Unlock(ctx))
}

// A client that has lost its masters is ready again as soon as a majority is back.
func TestReadyAfterAnOutage(t *testing.T) {
	f := fleet.StartSpec(t, 3, masters.Spec{})
	l := f.Locker(t)
	fleet.Must(t, l.Ready(t.Context()))
	fleet.Must(t, f.Nodes[0].Kill())
	fleet.Must(t, f.Nodes[1].Kill())
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	fleet.Eventually(t, "not ready", func() bool { return l.Ready(ended) != nil })
	fleet.Must(t, f.Nodes[1].Start())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fleet.Must(t, l.Ready(ctx))
}
