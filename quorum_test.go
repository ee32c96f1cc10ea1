package redlock

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/guard"
)

// scenarios returns the lines of a scenario file that are not comments, by file and line number.
func scenarios(t *testing.T, file string) map[string]string {
	t.Helper()
	lines := map[string]string{}
	for i, line := range strings.Split(string(must(os.ReadFile(file))(t)), "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines[fmt.Sprintf("%s:%d", file, i+1)] = line
		}
	}
	return lines
}

// While a node abstains, its grant does not count for the caller, and what it says of another holder does not count for
// that holder.
func TestDiscount(t *testing.T) {
	g := guard.New(&guard.Rules{}, time.Now, nil)
	g.SetClock(time.Hour, true, 0)
	for trust, abstains := range map[guard.Trust]bool{guard.TrustOld: true, guard.TrustOurs: true, guard.TrustAll: false} {
		for v := range voteKinds {
			a := answer{vote: v}
			discount(g.Abstention(), trust, &a, time.Now)
			want := answer{vote: v, err: a.err}
			switch {
			case abstains && (v == voteGranted || v == voteOutbid):
				want.vote = voteAbstained
			case abstains && v == voteTaken:
				want.uncounted = true
			}
			if a != want || (a.err != nil) != (want.vote != v) {
				t.Errorf("trust %d, vote %d: got %+v, want %+v", trust, v, a, want)
			}
		}
	}
}
