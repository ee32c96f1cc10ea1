package guard_test

import (
	"context"
	"errors"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// Where too many masters refuse the password, the user or the client's conditions, Ready does not wait.
func TestReadyReportsWhatOnlyAnAdministratorCanChange(t *testing.T) {
	t.Parallel()
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
		fleet.WantIs(t, err, redlock.ErrNoQuorum)
		var q *redlock.QuorumError
		if !errors.As(err, &q) || q.Nodes[0].Outcome != "votes" {
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
	fleet.WantIs(t, err, redlock.ErrNoQuorum)
}
