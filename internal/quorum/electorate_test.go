package quorum

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestVerdicts(t *testing.T) {
	kinds := map[rune]Vote{
		'g': Granted, 'o': Outbid, 'a': Absent, 't': Taken, 'x': Abstained, 'f': Failed,
	}
	verdicts := map[string]Verdict{
		"pending": Pending, "won": Won, "short": Short, "lost": Lost,
	}
	for at, line := range cases.Lines(t, "testdata/verdict.txt") {
		nodes, outcome, _ := strings.Cut(line, " ")
		want, known := verdicts[strings.TrimSpace(outcome)]
		var votes Tally
		for node, letter := range nodes {
			v, voted := kinds[letter]
			if voted {
				votes += OneList(len(nodes)).Ballot(node, v)
			}
			known = known && (voted || letter == '.')
		}
		if n := len(nodes); !known {
			t.Errorf("%s: bad line: %s", at, line)
		} else if got := OneList(n).Verdict(votes); got != want {
			t.Errorf("%s: %s: got verdict %d, want %d", at, line, got, want)
		}
	}
}

// For every way in which up to seven nodes can vote, node after node, the verdict is correct, as early as possible, and
// final.
func TestVerdictExhaustively(t *testing.T) {
	var electorates []*Electorate
	for n := 1; n <= 7; n++ {
		electorates = append(electorates, OneList(n))
	}
	for _, lists := range [][2]Set{
		{0b011111, 0b101111}, // one of five is replaced
		{0b00111, 0b11111},   // three become five
		{0b11111, 0b00111},
		{0b0111, 0b1110},
		{0b000111, 0b111000},
		{0b0000001, 0b1111110},
		{0b0001111, 0b1110000},
	} {
		electorates = append(electorates, New(lists[0], lists[1]))
	}
	for _, e := range electorates {
		votes := make([]Vote, e.Size)
		var all func(node int)
		all = func(node int) {
			if node == e.Size {
				checkRun(t, e, votes)
				return
			}
			for v := range VoteKinds {
				if e.Size > 4 && v != Granted && v != Outbid && v != Failed {
					continue // all kinds of refusal count alike; up to four nodes try each of them
				}
				votes[node] = v
				all(node + 1)
			}
		}
		all(0)
	}
}

func checkRun(t *testing.T, e *Electorate, votes []Vote) {
	t.Helper()
	var sum Tally
	decided := Pending
	for node, v := range votes {
		if sum.Voted(node) {
			t.Fatalf("%v %v: node %d is marked before it has voted", e.Lists, votes, node)
		}
		sum += e.Ballot(node, v)
		if !sum.Voted(node) {
			t.Fatalf("%v %v: the vote of node %d is not marked", e.Lists, votes, node)
		}
		now, want := e.Verdict(sum), wantVerdict(e, votes[:node+1])
		if now != want {
			t.Fatalf("%v %v after %d votes: got verdict %d, want %d", e.Lists, votes, node+1, now, want)
		}
		if decided == Won && now != Won || decided == Lost && now != Lost {
			t.Fatalf("%v %v: verdict %d turned into %d", e.Lists, votes, decided, now)
		}
		decided = now
	}
	if decided == Pending {
		t.Fatalf("%v %v: no verdict after all votes", e.Lists, votes)
	}
}

// wantVerdict judges each list by itself, by the definition.
func wantVerdict(e *Electorate, votes []Vote) Verdict {
	won, given, possible := true, true, true
	for _, l := range e.Lists {
		granted, gave, left := 0, 0, 0
		for node := range e.Size {
			switch {
			case !l.Nodes.Has(node):
			case node >= len(votes):
				left++
			case votes[node] == Granted:
				granted++
				gave++
			case votes[node] == Outbid:
				gave++
			}
		}
		need := Majority(l.size)
		won, given, possible = won && granted >= need, given && gave >= need, possible && gave+left >= need
	}
	switch {
	case !possible:
		return Lost
	case won:
		return Won
	case given:
		return Short
	default:
		return Pending
	}
}

func TestTallyHoldsMaxNodes(t *testing.T) {
	for _, e := range []*Electorate{OneList(MaxNodes), New(All(MaxNodes), All(MaxNodes))} {
		for v := range VoteKinds {
			var sum Tally
			for node := range MaxNodes {
				sum += e.Ballot(node, v)
			}
			want := map[Vote]Verdict{Granted: Won, Outbid: Short}[v]
			if want == Pending {
				want = Lost
			}
			if got := e.Verdict(sum); got != want || sum.Voters() != e.All {
				t.Errorf("%d nodes vote %d: got verdict %d, want %d; voters %b", MaxNodes, v, got, want, sum.Voters())
			}
			if got := sum.Taken(); got != map[Vote]int{Taken: MaxNodes}[v] {
				t.Errorf("%d nodes vote %d: %d say that it is taken", MaxNodes, v, got)
			}
		}
	}
}

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
	equals(t, OneList(5).Least(), 3, "five nodes")
}
