package redlock

import (
	"strings"
	"testing"
)

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
				votes += oneList(len(nodes)).ballot(node, v)
			}
			known = known && (voted || letter == '.')
		}
		if n := len(nodes); !known {
			t.Errorf("%s: bad line: %s", at, line)
		} else if got := oneList(n).verdict(votes); got != want {
			t.Errorf("%s: %s: got verdict %d, want %d", at, line, got, want)
		}
	}
}

// For every way in which up to seven nodes can vote, node after node, the verdict is correct, as early as possible, and
// final.
func TestVerdictExhaustively(t *testing.T) {
	var electorates []*electorate
	for n := 1; n <= 7; n++ {
		electorates = append(electorates, oneList(n))
	}
	for _, lists := range [][2]nodeSet{
		{0b011111, 0b101111}, // one of five is replaced
		{0b00111, 0b11111},   // three become five
		{0b11111, 0b00111},
		{0b0111, 0b1110},
		{0b000111, 0b111000},
		{0b0000001, 0b1111110},
		{0b0001111, 0b1110000},
	} {
		electorates = append(electorates, newElectorate(lists[0], lists[1]))
	}
	for _, e := range electorates {
		votes := make([]vote, e.size)
		var all func(node int)
		all = func(node int) {
			if node == e.size {
				checkRun(t, e, votes)
				return
			}
			for v := range voteKinds {
				if e.size > 4 && v != voteGranted && v != voteOutbid && v != voteFailed {
					continue // all kinds of refusal count alike; up to four nodes try each of them
				}
				votes[node] = v
				all(node + 1)
			}
		}
		all(0)
	}
}

func checkRun(t *testing.T, e *electorate, votes []vote) {
	t.Helper()
	var sum tally
	decided := verdictPending
	for node, v := range votes {
		if sum.voted(node) {
			t.Fatalf("%v %v: node %d is marked before it has voted", e.lists, votes, node)
		}
		sum += e.ballot(node, v)
		if !sum.voted(node) {
			t.Fatalf("%v %v: the vote of node %d is not marked", e.lists, votes, node)
		}
		now, want := e.verdict(sum), wantVerdict(e, votes[:node+1])
		if now != want {
			t.Fatalf("%v %v after %d votes: got verdict %d, want %d", e.lists, votes, node+1, now, want)
		}
		if decided == verdictWon && now != verdictWon || decided == verdictLost && now != verdictLost {
			t.Fatalf("%v %v: verdict %d turned into %d", e.lists, votes, decided, now)
		}
		decided = now
	}
	if decided == verdictPending {
		t.Fatalf("%v %v: no verdict after all votes", e.lists, votes)
	}
}

// wantVerdict judges each list by itself, by the definition.
func wantVerdict(e *electorate, votes []vote) verdict {
	won, given, possible := true, true, true
	for _, l := range e.lists {
		granted, gave, left := 0, 0, 0
		for node := range e.size {
			switch {
			case !l.nodes.has(node):
			case node >= len(votes):
				left++
			case votes[node] == voteGranted:
				granted++
				gave++
			case votes[node] == voteOutbid:
				gave++
			}
		}
		need := majority(l.size)
		won, given, possible = won && granted >= need, given && gave >= need, possible && gave+left >= need
	}
	switch {
	case !possible:
		return verdictLost
	case won:
		return verdictWon
	case given:
		return verdictShort
	default:
		return verdictPending
	}
}

func TestTallyHoldsMaxNodes(t *testing.T) {
	for _, e := range []*electorate{oneList(maxNodes), newElectorate(allNodes(maxNodes), allNodes(maxNodes))} {
		for v := range voteKinds {
			var sum tally
			for node := range maxNodes {
				sum += e.ballot(node, v)
			}
			want := map[vote]verdict{voteGranted: verdictWon, voteOutbid: verdictShort}[v]
			if want == verdictPending {
				want = verdictLost
			}
			if got := e.verdict(sum); got != want || sum.voters() != e.all {
				t.Errorf("%d nodes vote %d: got verdict %d, want %d; voters %b", maxNodes, v, got, want, sum.voters())
			}
			if got := sum.taken(); got != map[vote]int{voteTaken: maxNodes}[v] {
				t.Errorf("%d nodes vote %d: %d say that it is taken", maxNodes, v, got)
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

func TestTheLeastThatSuffices(t *testing.T) {
	for a := nodeSet(1); a < 1<<5; a++ {
		for b := nodeSet(1); b < 1<<5; b++ {
			e := newElectorate(a, b)
			least := e.size
			for set := nodeSet(0); set <= e.all; set++ {
				if set&^e.all == 0 && e.suffice(set) {
					least = min(least, set.size())
				}
			}
			if got := e.least(); got != least {
				t.Fatalf("%b and %b: got %d, want %d", a, b, got, least)
			}
		}
	}
	equals(t, oneList(5).least(), 3, "five nodes")
}
