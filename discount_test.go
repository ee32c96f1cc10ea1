package redlock

import (
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/guard"
)

// What of an answer counts while the node abstains: for the caller, and for the one that has the lock there.
func TestDiscount(t *testing.T) {
	g := guard.New(guard.Rules{}, time.Now, nil)
	g.SetClock(time.Hour, true, 0)
	for trust, abstains := range map[guard.Trust]bool{guard.TrustOld: true, guard.TrustOurs: true, guard.TrustAll: false} {
		for v := range voteKinds {
			said := answer{vote: v}
			discount(g.Abstention(), trust, &said, time.Now)
			want := answer{vote: v, err: said.err}
			switch {
			case abstains && (v == voteGranted || v == voteOutbid):
				want.vote = voteAbstained
			case abstains && v == voteTaken:
				want.doubtful = true
			}
			if said != want || (said.err != nil) != (want.vote != v) {
				t.Errorf("trust %d, vote %d: got %+v, want %+v", trust, v, said, want)
			}
		}
	}
}
