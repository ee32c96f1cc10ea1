package quorum

import (
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestMajoritiesShareANode(t *testing.T) {
	for n := 1; n <= MaxNodes; n++ {
		if m := Majority(n); 2*m <= n || 2*(m-1) > n {
			t.Errorf("majority(%d) = %d", n, m)
		}
	}
}

func TestTheLeastThatSuffices(t *testing.T) {
	for a := Set(1); a < 1<<5; a++ {
		for b := Set(1); b < 1<<5; b++ {
			e := New(a, b)
			least := e.Size
			for set := Set(0); set <= e.All; set++ {
				if set&^e.All == 0 && e.Suffice(set) {
					least = min(least, set.Size())
				}
			}
			if got := e.Least(); got != least {
				t.Fatalf("%b and %b: got %d, want %d", a, b, got, least)
			}
		}
	}
	cases.Equals(t, OneList(5).Least(), 3, "five nodes")
}

// What a majority of each list has reached, and for how long a majority of some list keeps what its nodes keep.
func TestTimesOfMajorities(t *testing.T) {
	one, two := OneList(5), New(0b0111, 0b1110)
	for _, c := range []struct {
		e       *Electorate
		times   []time.Duration
		reached time.Duration
		known   bool
		kept    time.Duration
	}{
		{one, []time.Duration{5, 1, 3, 2, 4}, 3, true, 3},
		{one, []time.Duration{5, 1, 3, NoReply, NoReply}, 5, true, 1},
		{one, []time.Duration{5, 1, NoReply, NoReply, NoReply}, 0, false, 0},
		{two, []time.Duration{1, 2, NoReply, 9}, 9, true, 2},
		{two, []time.Duration{1, 2, NoReply, NoReply}, 2, true, 1},
	} {
		if got, known := c.e.MajorityBy(c.times); got != c.reached || known != c.known {
			t.Errorf("%v: reached by %d, %v; want %d, %v", c.times, got, known, c.reached, c.known)
		}
		cases.Equals(t, c.e.KeptFor(c.times), c.kept, "%v: kept", c.times)
	}
}
