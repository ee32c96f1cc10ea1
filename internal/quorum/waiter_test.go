package quorum

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestWaiterDecisions(t *testing.T) {
	const before, us, after = "0190", "0191", "0192"
	for at, line := range cases.Lines(t, "testdata/waiter.txt") {
		parts := strings.Split(line, "|")
		if len(parts) != 4 {
			t.Fatalf("%s: bad line: %s", at, line)
		}
		shared := strings.TrimSpace(parts[0]) == "reader"
		v := &Votes{others: map[string]Set{}, ahead: number(t, parts[2])}
		for i, node := range strings.Fields(parts[1]) {
			switch node {
			case "ours":
				v.Given, v.Fresh = v.Given.With(i), v.Fresh.With(i)
			case "wanted":
				v.Given, v.Fresh, v.wanted = v.Given.With(i), v.Fresh.With(i), true
			case "notif":
				v.Given = v.Given.With(i)
			case "old":
				v.others[before] = v.others[before].With(i)
			case "young":
				v.others[after] = v.others[after].With(i)
			case "reads":
				v.others[Marker] = v.others[Marker].With(i)
			case "other":
				v.others[""] = v.others[""].With(i)
			case "revoked":
				v.Revoked = true
			case "-":
			default:
				t.Fatalf("%s: unknown vote %s", at, node)
			}
		}
		var seen History
		requests := 0
		for want := range strings.FieldsSeq(parts[3]) {
			want, times, repeated := strings.Cut(want, "*")
			n := 1
			if repeated {
				n = number(t, times)
			}
			for range n {
				requests++
				seen.Record(v)
				got := [...]string{KeepVotes: "keep", GiveBack: "give", Requeue: "requeue"}[seen.Decide(v, shared, us, OneList(5))]
				equals(t, got, want, "%s: %s: request %d", at, line, requests)
			}
		}
	}
}

// With two lists, a waiter can have a majority of one of them. To the others, which may have the other list alone, it
// then seems to hold the lock, so none of them gives way to it: it must, to an older one, even to a reader.
func TestAMajorityOfOneListGivesWayToAnOlderWaiter(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		v := &Votes{Given: 0b0101, Fresh: 0b0101, wanted: wanted, others: map[string]Set{Marker: 0b1000}, ahead: 1}
		want := KeepVotes
		if wanted {
			want = GiveBack
		}
		var seen History
		seen.Record(v)
		equals(t, seen.Decide(v, false, "0191", New(0b0111, 0b1011)), want, "wanted %v", wanted)
	}
}

// A grant counts for one token: after a raise it does not count for the new token.
func TestGrantCountsForOneTokenOnly(t *testing.T) {
	const first = int64(100)
	token, said := first, NewNotifications(3)
	granted := func(when string, want int) {
		t.Helper()
		if v := said.Count(0, make([]Answer, 3), first, token); v.Given.Size() != 2 || v.Granted.Size() != want {
			t.Errorf("%s: given %b, granted %b, want 2 and %d", when, v.Given, v.Granted, want)
		}
	}
	said.Receive(0, Answer{Vote: Granted}, first, true)
	said.Receive(1, Answer{Vote: Granted}, first, true)
	granted("handed over", 2)
	token++
	granted("after a raise that no node answered", 0)
	said.Accept(1, token)
	granted("after a raise that one node accepted", 1)
	said.Receive(0, Answer{Vote: Outbid, Token: token}, first, true)
	granted("a node knows an equal token from another client", 1)
	said.Receive(1, Answer{Vote: Outbid, Token: token}, first, true)
	granted("a node knows the token from this waiter", 1)
	said.Receive(1, Answer{Vote: Outbid, Token: token + 1}, first, true)
	granted("a node knows a larger token by now", 0)
}

// A notification no longer counts once a later request to the node has not confirmed it: the node may have restarted in
// between, and have given the lock back to its holder.
func TestNotificationIsConfirmedOrDropped(t *testing.T) {
	for _, c := range []struct {
		Vote  Vote
		stale bool
		given int
	}{
		{Abstained, false, 1},
		{Failed, false, 1}, // the answer may be older than the notification
		{Abstained, true, 0},
		{Failed, true, 0},
		{Taken, true, 0},
		{Granted, true, 1},
	} {
		said := NewNotifications(3)
		said.Receive(2, Answer{Vote: Granted}, 1, true)
		if c.stale {
			said.Age()
		}
		answers := make([]Answer, 3)
		answers[2].Vote = c.Vote
		for range 2 { // the second count must not bring it back
			if v := said.Count(OneList(3).Ballot(2, c.Vote), answers, 1, 1); v.Given.Size() != c.given {
				t.Errorf("%v, stale %v: got %b, want %d", c.Vote, c.stale, v.Given, c.given)
			}
		}
	}
}

// A waiter that has votes asks again soon. Others ask the less, the more waiters are ahead and the later the answers
// come, but they look when the holder's keys expire, and before the nodes forget their queue.
func TestPauseLength(t *testing.T) {
	taken := func(ahead int, left ...time.Duration) Votes { return Votes{ahead: ahead, remaining: left} }
	some := Votes{Given: 1, ahead: 3}
	usual := Pause{Backoff: 100 * ms, short: 2 * ms, Took: ms, place: 128, longest: 15 * time.Second}
	with := func(change func(*Pause)) Pause {
		p := usual
		change(&p)
		return p
	}
	slow := with(func(p *Pause) { p.Took = time.Second })
	for _, c := range []struct {
		what  string
		Pause Pause
		votes Votes
		want  time.Duration
	}{
		{"first in line", usual, taken(0), 100 * ms},
		{"eight ahead", usual, taken(8), 300 * ms},
		{"128 ahead", usual, taken(128), 3300 * ms},
		{"a thousand ahead", usual, taken(1000), 3300 * ms},
		{"few attempts: the place does not count", with(func(p *Pause) { p.place = 0 }), taken(8), 100 * ms},
		{"slow answers", slow, taken(0), 2 * time.Second},
		{"slow answers, 128 ahead", slow, taken(128), 3300 * ms},
		{"very slow answers", with(func(p *Pause) { p.Took = time.Minute }), taken(0), 15 * time.Second},
		{"the holder's keys expire", usual, taken(0, 30*ms, 10*ms, 20*ms), 31 * ms},
		{"the holder's keys expire, two ahead", usual, taken(2, 30*ms, 10*ms, 20*ms), 35 * ms},
		{"the holder's keys expire, slow answers", slow, taken(0, 30*ms, 10*ms, 20*ms), 31 * ms},
		{"few nodes know the holder", usual, taken(0, 30*ms, 10*ms), 100 * ms},
		{"they expire later", usual, taken(0, 30*ms, 200*ms, 200*ms), 100 * ms},
		{"some votes", usual, some, 3 * ms},
		{"some votes, slow answers", slow, some, 4 * ms},
		{"some votes, a short back-off", with(func(p *Pause) { p.Backoff = ms }), some, ms},
		{"the last request", NoPause, taken(8, ms, ms, ms), 0},
	} {
		equals(t, c.Pause.Length(&c.votes, OneList(5)), c.want, "%s", c.what)
	}
}

// A node that says of each owner that it is revoked makes no waiter ask without pause.
func TestGivingBackWhatIsRevokedIsCounted(t *testing.T) {
	var p History
	if p.Decide(&Votes{Revoked: true}, false, "", OneList(3)); p.GaveBack != 1 {
		t.Errorf("gave back %d times, want 1", p.GaveBack)
	}
}
