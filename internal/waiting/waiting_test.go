package waiting

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/quorum"
)

func TestWaiterDecisions(t *testing.T) {
	const before, us, after = "0190", "0191", "0192"
	for at, parts := range cases.Rows(t, "testdata/waiter.txt", 4) {
		shared := parts[0] == "reader"
		v := &Votes{others: map[string]quorum.Set{}, ahead: cases.Must(strconv.Atoi(parts[2]))(t)}
		for i, node := range strings.Fields(parts[1]) {
			switch node {
			case "ours":
				v.Given, v.fresh = v.Given.With(i), v.fresh.With(i)
			case "wanted":
				v.Given, v.fresh, v.wanted = v.Given.With(i), v.fresh.With(i), true
			case "notif":
				v.Given = v.Given.With(i)
			case "old":
				v.others[before] = v.others[before].With(i)
			case "young":
				v.others[after] = v.others[after].With(i)
			case "reads":
				v.others[quorum.Marker] = v.others[quorum.Marker].With(i)
			case "other":
				v.others[""] = v.others[""].With(i)
			case "revoked":
				v.Revoked = true
			case "-":
			default:
				t.Fatalf("%s: unknown vote %s", at, node)
			}
		}
		v.sum(quorum.OneList(5))
		var seen History
		requests := 0
		for want := range strings.FieldsSeq(parts[3]) {
			want, times, repeated := strings.Cut(want, "*")
			n := 1
			if repeated {
				n = cases.Must(strconv.Atoi(times))(t)
			}
			for range n {
				requests++
				d, _ := seen.Decide(v, Claimant{Shared: shared, Owner: us})
				got := [...]string{KeepVotes: "keep", GiveBack: "give", Requeue: "requeue"}[d]
				cases.Equals(t, got, want, "%s: %v: request %d", at, parts, requests)
			}
		}
	}
}

// A vote that does not count is none for its owner, of whom it tells all the same: an older one is given way to.
func TestVotesThatDoNotCount(t *testing.T) {
	p, said := poll(quorum.OneList(3)), NewNotifications(3)
	p.Cast(0, quorum.Answer{Vote: quorum.Granted})
	for i := range 2 {
		p.Cast(1+i, quorum.Answer{Vote: quorum.Taken, Owner: "0190", Uncounted: true})
	}
	v := said.Weigh(p.SoFar(), 1, 1)
	cases.Equals(t, v.rivalHolds, false, "the owner holds the lock")
	cases.Equals(t, v.yields(Claimant{Owner: "0191"}), true, "yields to the owner")
}

// With two lists, a waiter can have a majority of one of them. To the others, which may have the other list alone, it
// then seems to hold the lock, so none of them gives way to it: it must, to an older one, even to a reader.
func TestAMajorityOfOneListGivesWayToAnOlderWaiter(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		v := &Votes{Given: 0b0101, fresh: 0b0101, wanted: wanted, ahead: 1}
		v.others = map[string]quorum.Set{quorum.Marker: 0b1000}
		want := KeepVotes
		if wanted {
			want = GiveBack
		}
		var seen History
		v.sum(quorum.New(0b0111, 0b1011))
		d, _ := seen.Decide(v, Claimant{Owner: "0191"})
		cases.Equals(t, d, want, "wanted %v", wanted)
	}
}

// The first request counts as an attempt: votes that it splits are given back at once, and not only if the next request
// finds them split as well.
func TestTheFirstRequestSplitsAtOnce(t *testing.T) {
	v := &Votes{Given: 0b00011, fresh: 0b00011, others: map[string]quorum.Set{"0190": 0b01100}}
	v.sum(quorum.OneList(5))
	seen := History{First: true}
	for request, want := range []Decision{GiveBack, KeepVotes, GiveBack} {
		cases.Equals(t, seen.YieldsAtOnce(v, Claimant{Owner: "0191"}), request == 0, "request %d: at once", request)
		d, _ := seen.Decide(v, Claimant{Owner: "0191"})
		cases.Equals(t, d, want, "request %d", request)
	}
}

// A waiter goes to the end of the queues after requests in a row that found no way on: one that found nothing, or so
// few nodes that the waiter retreats, begins the row anew.
func TestARowOfRequestsBeginsAnew(t *testing.T) {
	stuck := &Votes{Given: 0b00011, others: map[string]quorum.Set{"": 0b01100}}
	for what, between := range map[string][]*Votes{
		"no votes": {{}}, "a retreat": {{Given: 1, cutOff: true}, {Given: 1, cutOff: true}},
	} {
		var h History
		for range 2 {
			for i := range stuckAfter {
				d, _ := h.Decide(stuck, Claimant{Owner: "0191"})
				cases.Equals(t, d, KeepVotes, "%s: request %d", what, i)
			}
			for _, v := range between {
				h.Decide(v, Claimant{Owner: "0191"})
			}
		}
	}
}

// A grant counts for one token: after a raise it does not count for the new token.
func TestGrantCountsForOneTokenOnly(t *testing.T) {
	const first = int64(100)
	token, said := first, NewNotifications(3)
	granted := func(when string, want int) {
		t.Helper()
		if v := said.Weigh(poll(quorum.OneList(3)).SoFar(), first, token); v.Given.Size() != 2 || v.granted.Size() != want {
			t.Errorf("%s: given %b, granted %b, want 2 and %d", when, v.Given, v.granted, want)
		}
	}
	said.Receive(0, quorum.Answer{Vote: quorum.Granted}, first, HandedOver)
	said.Receive(1, quorum.Answer{Vote: quorum.Granted}, first, HandedOver)
	granted("handed over", 2)
	token++
	granted("after a raise that no node answered", 0)
	said.Accept(1, token)
	granted("after a raise that one node accepted", 1)
	said.Receive(0, quorum.Answer{Vote: quorum.Outbid, Token: token}, first, HandedOver)
	granted("a node knows an equal token from another client", 1)
	said.Receive(1, quorum.Answer{Vote: quorum.Outbid, Token: token}, first, HandedOver)
	granted("a node knows the token from this waiter", 1)
	said.Receive(1, quorum.Answer{Vote: quorum.Outbid, Token: token + 1}, first, HandedOver)
	granted("a node knows a larger token by now", 0)
}

// A notification no longer counts once a later request to the node has not confirmed it: the node may have restarted in
// between, and have given the lock back to its holder.
func TestNotificationIsConfirmedOrDropped(t *testing.T) {
	for _, c := range []struct {
		vote  quorum.Vote
		stale bool
		given int
	}{
		{quorum.Abstained, false, 1},
		{quorum.Failed, false, 1}, // the answer may be older than the notification
		{quorum.Abstained, true, 0},
		{quorum.Failed, true, 0},
		{quorum.Taken, true, 0},
		{quorum.Granted, true, 1},
	} {
		said := NewNotifications(3)
		said.Receive(2, quorum.Answer{Vote: quorum.Granted}, 1, HandedOver)
		if c.stale {
			said.Age()
		}
		p := poll(quorum.OneList(3))
		p.Cast(2, quorum.Answer{Vote: c.vote})
		// Neither a second count nor the next request, before its answer, brings back what was dropped.
		for _, p := range []*quorum.Poll{p, p, poll(quorum.OneList(3))} {
			if v := said.Weigh(p.SoFar(), 1, 1); v.Given.Size() != c.given {
				t.Errorf("%v, stale %v: got %b, want %d", c.vote, c.stale, v.Given, c.given)
			}
		}
	}
}

// A waiter that has votes asks again soon. Others ask the less, the more waiters are ahead and the later the answers
// come, but they look when the holder's keys expire, and before the nodes forget their queue.
func TestPauseLength(t *testing.T) {
	taken := func(ahead int, left ...time.Duration) Votes {
		p := poll(quorum.OneList(5))
		for i, remaining := range left {
			p.Cast(i, quorum.Answer{Vote: quorum.Taken, Ahead: ahead, Remaining: remaining})
		}
		said := NewNotifications(5)
		v := said.Weigh(p.SoFar(), 1, 1)
		v.ahead = ahead
		return v
	}
	some := Votes{Given: 1, ahead: 3}
	usual := Pause{backoff: 100 * ms, short: 2 * ms, longest: 15 * time.Second}
	brief := usual
	brief.backoff = ms
	for _, c := range []struct {
		what  string
		pause Pause
		took  time.Duration
		votes Votes
		want  time.Duration
	}{
		{"first in line", usual, ms, taken(0), 100 * ms},
		{"eight ahead", usual, ms, taken(8), 300 * ms},
		{"128 ahead", usual, ms, taken(128), 3300 * ms},
		{"a thousand ahead", usual, ms, taken(1000), 3300 * ms},
		{"slow answers", usual, time.Second, taken(0), 2 * time.Second},
		{"slow answers, 128 ahead", usual, time.Second, taken(128), 3300 * ms},
		{"very slow answers", usual, time.Minute, taken(0), 15 * time.Second},
		{"the holder's keys expire", usual, ms, taken(0, 30*ms, 10*ms, 20*ms), 31 * ms},
		{"the holder's keys expire, two ahead", usual, ms, taken(2, 30*ms, 10*ms, 20*ms), 35 * ms},
		{"the holder's keys expire, slow answers", usual, time.Second, taken(0, 30*ms, 10*ms, 20*ms), 31 * ms},
		{"few nodes know the holder", usual, ms, taken(0, 30*ms, 10*ms), 100 * ms},
		{"they expire later", usual, ms, taken(0, 30*ms, 200*ms, 200*ms), 100 * ms},
		{"some votes", usual, ms, some, 3 * ms},
		{"some votes, slow answers", usual, time.Second, some, 4 * ms},
		{"some votes, a short back-off", brief, ms, some, ms},
	} {
		cases.Equals(t, c.pause.Length(&c.votes, c.took), c.want, "%s", c.what)
	}
}

// A node that says of each owner that it is revoked makes no waiter ask without pause.
func TestGivingBackWhatIsRevokedIsCounted(t *testing.T) {
	var h History
	for i := range 4 {
		_, pauses := h.Decide(&Votes{Revoked: true}, Claimant{})
		cases.Equals(t, pauses, i >= 2, "pauses after giving votes back %d times", i+1)
	}
}

// What a majority rests on: the answers to the last request, these and what was handed over after it, or notifications
// from before it. Only votes that it rests on count for the token.
func TestBasis(t *testing.T) {
	const token = int64(100)
	for _, c := range []struct {
		nodes    string // g: granted; o: outbid; h: taken, and handed over after that; n: notified before the request
		basis    Basis
		accepted bool
	}{
		{"ggg", Answered, true},
		{"goo", Answered, false},
		{"goonn", Answered, false},
		{"ghh", HandedOver, true},
		{"ghn", HandedOver, true},
		{"ghonn", HandedOver, false},
		{"gnn", Notified, true},
		{"gonnn", Notified, true},
		{"oonnn", Notified, true},
		{"ooonn", Answered, false},
	} {
		said, p := NewNotifications(len(c.nodes)), poll(quorum.OneList(len(c.nodes)))
		for i, node := range c.nodes {
			if node == 'n' {
				said.Receive(i, quorum.Answer{Vote: quorum.Granted}, token, Notified)
			}
		}
		said.Age()
		for i, node := range c.nodes {
			switch node {
			case 'g':
				p.Cast(i, quorum.Answer{Vote: quorum.Granted})
			case 'o':
				p.Cast(i, quorum.Answer{Vote: quorum.Outbid, Token: token + 1})
			case 'h':
				p.Cast(i, quorum.Answer{Vote: quorum.Taken})
				said.Receive(i, quorum.Answer{Vote: quorum.Granted}, token, HandedOver)
			}
		}
		v := said.Weigh(p.SoFar(), token, token)
		if !v.Enough || v.Basis != c.basis || v.Accepted != c.accepted {
			t.Errorf("%s: enough %v, basis %d, accepted %v; want basis %d, accepted %v",
				c.nodes, v.Enough, v.Basis, v.Accepted, c.basis, c.accepted)
		}
	}
}
