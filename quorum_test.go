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

func TestVerdicts(t *testing.T) {
	kinds := map[rune]vote{
		'g': voteGranted, 'o': voteOutbid, 'a': voteAbsent, 't': voteTaken, 'x': voteAbstained, 'f': voteFailed,
	}
	verdicts := map[string]verdict{
		"pending": verdictPending, "won": verdictWon, "short": verdictShort, "lost": verdictLost,
	}
	for at, line := range scenarios(t, "testdata/verdict.txt") {
		nodes, outcome, _ := strings.Cut(line, " ")
		want, known := verdicts[strings.TrimSpace(outcome)]
		var votes tally
		for node, letter := range nodes {
			v, voted := kinds[letter]
			if voted {
				votes += ballot(node, v)
			}
			known = known && (voted || letter == '.')
		}
		if n := len(nodes); !known {
			t.Errorf("%s: bad line: %s", at, line)
		} else if got := votes.verdict(n, majority(n)); got != want {
			t.Errorf("%s: %s: got verdict %d, want %d", at, line, got, want)
		}
	}
}

// For every way in which up to seven nodes can vote, node after node, the verdict is correct, as early as possible, and
// final.
func TestVerdictExhaustively(t *testing.T) {
	for n := 1; n <= 7; n++ {
		need := majority(n)
		votes := make([]vote, n)
		var all func(node int)
		all = func(node int) {
			if node == n {
				checkRun(t, n, need, votes)
				return
			}
			for v := range voteKinds {
				if n > 4 && v != voteGranted && v != voteOutbid && v != voteFailed {
					continue // all kinds of refusal count alike; n ≤ 4 tries each of them
				}
				votes[node] = v
				all(node + 1)
			}
		}
		all(0)
	}
}

func checkRun(t *testing.T, n, need int, votes []vote) {
	t.Helper()
	var sum tally
	decided := verdictPending
	for node, v := range votes {
		if sum.voted(node) {
			t.Fatalf("n=%d %v: node %d is marked before it has voted", n, votes, node)
		}
		sum += ballot(node, v)
		if !sum.voted(node) {
			t.Fatalf("n=%d %v: the vote of node %d is not marked", n, votes, node)
		}
		now := sum.verdict(n, need)
		granted := sum.count(voteGranted)
		given := granted + sum.count(voteOutbid)
		left := n - node - 1
		var want verdict
		switch {
		case granted >= need:
			want = verdictWon
		case given >= need:
			want = verdictShort
		case given+left < need:
			want = verdictLost
		}
		if now != want {
			t.Fatalf("n=%d %v after %d votes: got verdict %d, want %d", n, votes, node+1, now, want)
		}
		if decided == verdictWon && now != verdictWon || decided == verdictLost && now != verdictLost {
			t.Fatalf("n=%d %v: verdict %d turned into %d", n, votes, decided, now)
		}
		decided = now
	}
	if decided == verdictPending {
		t.Fatalf("n=%d %v: no verdict after all votes", n, votes)
	}
}

func TestTallyHoldsMaxNodes(t *testing.T) {
	for v := range voteKinds {
		var sum tally
		for node := range maxNodes {
			sum += ballot(node, v)
		}
		if got := sum.count(v); got != maxNodes {
			t.Errorf("%d nodes vote %d: got %d", maxNodes, v, got)
		}
		for w := range voteKinds {
			if w != v && sum.count(w) != 0 {
				t.Errorf("votes of kind %d also count as kind %d", v, w)
			}
		}
	}
}

func TestMajoritiesShareANode(t *testing.T) {
	for n := 1; n <= maxNodes; n++ {
		if m := majority(n); 2*m <= n || 2*(m-1) > n {
			t.Errorf("majority(%d) = %d", n, m)
		}
	}
}

// While a node abstains, its grant does not count for the caller, and what it says of another holder does not count for
// that holder.
func TestDiscount(t *testing.T) {
	g := guard.New(guard.Rules{}, time.Now, nil)
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
