package redlock

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestWaiterDecisions(t *testing.T) {
	const before, us, after = "0190", "0191", "0192"
	for at, line := range scenarios(t, "testdata/waiter.txt") {
		parts := strings.Split(line, "|")
		if len(parts) != 4 {
			t.Fatalf("%s: bad line: %s", at, line)
		}
		shared := strings.TrimSpace(parts[0]) == "reader"
		v := &waiterVotes{others: map[string]nodeSet{}, ahead: must(strconv.Atoi(strings.TrimSpace(parts[2])))(t)}
		for i, node := range strings.Fields(parts[1]) {
			switch node {
			case "ours":
				v.given, v.fresh = v.given.with(i), v.fresh.with(i)
			case "wanted":
				v.given, v.fresh, v.wanted = v.given.with(i), v.fresh.with(i), true
			case "notif":
				v.given = v.given.with(i)
			case "old":
				v.others[before] = v.others[before].with(i)
			case "young":
				v.others[after] = v.others[after].with(i)
			case "reads":
				v.others[marker] = v.others[marker].with(i)
			case "other":
				v.others[""] = v.others[""].with(i)
			case "revoked":
				v.revoked = true
			case "-":
			default:
				t.Fatalf("%s: unknown vote %s", at, node)
			}
		}
		var seen patience
		requests := 0
		for want := range strings.FieldsSeq(parts[3]) {
			want, times, repeated := strings.Cut(want, "*")
			n := 1
			if repeated {
				n = must(strconv.Atoi(times))(t)
			}
			for range n {
				requests++
				seen.record(v)
				got := [...]string{keepVotes: "keep", giveBack: "give", requeue: "requeue"}[seen.decide(v, shared, us, oneList(5))]
				equals(t, got, want, "%s: %s: request %d", at, line, requests)
			}
		}
	}
}

// With two lists, a waiter can have a majority of one of them. To the others, which may have the other list alone, it
// then seems to hold the lock, so none of them gives way to it: it must, to an older one, even to a reader.
func TestAMajorityOfOneListGivesWayToAnOlderWaiter(t *testing.T) {
	for _, wanted := range []bool{true, false} {
		v := &waiterVotes{given: 0b0101, fresh: 0b0101, wanted: wanted, others: map[string]nodeSet{marker: 0b1000}, ahead: 1}
		want := keepVotes
		if wanted {
			want = giveBack
		}
		var seen patience
		seen.record(v)
		equals(t, seen.decide(v, false, "0191", newElectorate(0b0111, 0b1011)), want, "wanted %v", wanted)
	}
}

// A grant counts for one token: after a raise it does not count for the new token.
func TestGrantCountsForOneTokenOnly(t *testing.T) {
	const first = int64(100)
	token, said := first, newNotifications(3)
	granted := func(when string, want int) {
		t.Helper()
		if v := said.count(0, make([]answer, 3), first, token); v.given.size() != 2 || v.granted.size() != want {
			t.Errorf("%s: given %b, granted %b, want 2 and %d", when, v.given, v.granted, want)
		}
	}
	said.receive(0, answer{vote: voteGranted}, first, true)
	said.receive(1, answer{vote: voteGranted}, first, true)
	granted("handed over", 2)
	token++
	granted("after a raise that no node answered", 0)
	said.accept(1, token)
	granted("after a raise that one node accepted", 1)
	said.receive(0, answer{vote: voteOutbid, token: token}, first, true)
	granted("a node knows an equal token from another client", 1)
	said.receive(1, answer{vote: voteOutbid, token: token}, first, true)
	granted("a node knows the token from this waiter", 1)
	said.receive(1, answer{vote: voteOutbid, token: token + 1}, first, true)
	granted("a node knows a larger token by now", 0)
}

// A notification no longer counts once a later request to the node has not confirmed it: the node may have restarted in
// between, and have given the lock back to its holder.
func TestNotificationIsConfirmedOrDropped(t *testing.T) {
	for _, c := range []struct {
		vote  vote
		stale bool
		given int
	}{
		{voteAbstained, false, 1},
		{voteFailed, false, 1}, // the answer may be older than the notification
		{voteAbstained, true, 0},
		{voteFailed, true, 0},
		{voteTaken, true, 0},
		{voteGranted, true, 1},
	} {
		said := newNotifications(3)
		said.receive(2, answer{vote: voteGranted}, 1, true)
		if c.stale {
			said.age()
		}
		answers := make([]answer, 3)
		answers[2].vote = c.vote
		for range 2 { // the second count must not bring it back
			if v := said.count(oneList(3).ballot(2, c.vote), answers, 1, 1); v.given.size() != c.given {
				t.Errorf("%v, stale %v: got %b, want %d", c.vote, c.stale, v.given, c.given)
			}
		}
	}
}

// A waiter that has votes asks again soon. Others ask the less, the more waiters are ahead and the later the answers
// come, but they look when the holder's keys expire, and before the nodes forget their queue.
func TestPauseLength(t *testing.T) {
	taken := func(ahead int, left ...time.Duration) waiterVotes { return waiterVotes{ahead: ahead, remaining: left} }
	some := waiterVotes{given: 1, ahead: 3}
	usual := pause{backoff: 100 * ms, short: 2 * ms, took: ms, place: 128, longest: 15 * time.Second}
	with := func(change func(*pause)) pause {
		p := usual
		change(&p)
		return p
	}
	slow := with(func(p *pause) { p.took = time.Second })
	for _, c := range []struct {
		what  string
		pause pause
		votes waiterVotes
		want  time.Duration
	}{
		{"first in line", usual, taken(0), 100 * ms},
		{"eight ahead", usual, taken(8), 300 * ms},
		{"128 ahead", usual, taken(128), 3300 * ms},
		{"a thousand ahead", usual, taken(1000), 3300 * ms},
		{"few attempts: the place does not count", with(func(p *pause) { p.place = 0 }), taken(8), 100 * ms},
		{"slow answers", slow, taken(0), 2 * time.Second},
		{"slow answers, 128 ahead", slow, taken(128), 3300 * ms},
		{"very slow answers", with(func(p *pause) { p.took = time.Minute }), taken(0), 15 * time.Second},
		{"the holder's keys expire", usual, taken(0, 30*ms, 10*ms, 20*ms), 31 * ms},
		{"the holder's keys expire, two ahead", usual, taken(2, 30*ms, 10*ms, 20*ms), 35 * ms},
		{"the holder's keys expire, slow answers", slow, taken(0, 30*ms, 10*ms, 20*ms), 31 * ms},
		{"few nodes know the holder", usual, taken(0, 30*ms, 10*ms), 100 * ms},
		{"they expire later", usual, taken(0, 30*ms, 200*ms, 200*ms), 100 * ms},
		{"some votes", usual, some, 3 * ms},
		{"some votes, slow answers", slow, some, 4 * ms},
		{"some votes, a short back-off", with(func(p *pause) { p.backoff = ms }), some, ms},
		{"the last request", noPause, taken(8, ms, ms, ms), 0},
	} {
		equals(t, c.pause.length(&c.votes, oneList(5)), c.want, "%s", c.what)
	}
}

// A node that says of each owner that it is revoked makes no waiter ask without pause.
func TestGivingBackWhatIsRevokedIsCounted(t *testing.T) {
	var p patience
	if p.decide(&waiterVotes{revoked: true}, false, "", oneList(3)); p.gaveBack != 1 {
		t.Errorf("gave back %d times, want 1", p.gaveBack)
	}
}
