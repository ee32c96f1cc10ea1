package redlock

import (
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/token"
)

func TestDiscount(t *testing.T) {
	g := guard.New(&guard.Rules{}, time.Now, nil)
	g.SetClock(token.Offset{Ahead: time.Hour, Wrong: true}, 0)
	for trust, abstains := range map[guard.Trust]bool{guard.TrustOld: true, guard.TrustOurs: true, guard.TrustAll: false} {
		for v := range quorum.VoteKinds {
			a := quorum.Answer{Vote: v}
			discount(g.Abstention(), trust, &a, time.Now)
			want := quorum.Answer{Vote: v, Err: a.Err}
			switch {
			case abstains && (v == quorum.Granted || v == quorum.Outbid):
				want.Vote = quorum.Abstained
			case abstains && v == quorum.Taken:
				want.Uncounted = true
			}
			if a != want || (a.Err != nil) != (want.Vote != v) {
				t.Errorf("trust %d, vote %d: got %+v, want %+v", trust, v, a, want)
			}
		}
	}
}
