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
		p := poll(OneList(len(nodes)))
		for node, letter := range nodes {
			v, voted := kinds[letter]
			if voted {
				p.Cast(node, Answer{Vote: v})
			}
			known = known && (voted || letter == '.')
		}
		if !known {
			t.Errorf("%s: bad line: %s", at, line)
		} else if got := p.SoFar().Verdict(); got != want {
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
	var sum tally
	decided := Pending
	for node, v := range votes {
		if sum.voters().Has(node) {
			t.Fatalf("%v %v: node %d is marked before it has voted", e.lists, votes, node)
		}
		sum += e.ballot(node, v)
		if !sum.voters().Has(node) {
			t.Fatalf("%v %v: the vote of node %d is not marked", e.lists, votes, node)
		}
		now, want := e.verdict(sum), wantVerdict(e, votes[:node+1])
		if now != want {
			t.Fatalf("%v %v after %d votes: got verdict %d, want %d", e.lists, votes, node+1, now, want)
		}
		if decided == Won && now != Won || decided == Lost && now != Lost {
			t.Fatalf("%v %v: verdict %d turned into %d", e.lists, votes, decided, now)
		}
		decided = now
	}
	if decided == Pending {
		t.Fatalf("%v %v: no verdict after all votes", e.lists, votes)
	}
}

// wantVerdict judges each list by itself, by the definition.
func wantVerdict(e *Electorate, votes []Vote) Verdict {
	won, given, possible := true, true, true
	for _, l := range e.lists {
		granted, gave, left := 0, 0, 0
		for node := range e.Size {
			switch {
			case !l.nodes.Has(node):
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
			p := poll(e)
			for node := range MaxNodes {
				p.Cast(node, Answer{Vote: v})
			}
			want := map[Vote]Verdict{Granted: Won, Outbid: Short}[v]
			if want == Pending {
				want = Lost
			}
			if got := p.SoFar(); got.Verdict() != want || got.Voters() != e.All {
				t.Errorf("%d nodes vote %d: got verdict %d, want %d; voters %b", MaxNodes, v, got.Verdict(), want, got.Voters())
			}
			cases.Equals(t, p.SoFar().AnyTaken(), v == Taken, "%d nodes vote %d: some say that it is taken", MaxNodes, v)
		}
	}
}

// A vote tells whether it made the outcome certain; where everyone is asked, that is the last one.
func TestTheDecidingVote(t *testing.T) {
	for everyone, deciding := range map[bool]int{false: 2, true: 4} {
		p := poll(OneList(5))
		p.Everyone = everyone
		for node := range 5 {
			votes, decided := p.Cast(node, Answer{Vote: Granted})
			cases.Equals(t, votes.Certain() && !decided, node == deciding, "everyone %v: vote %d decides", everyone, node)
		}
		p.Begin()
		cases.Equals(t, p.SoFar().Voters(), 0, "voters of the next question")
	}
}
