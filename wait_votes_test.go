package redlock

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/sim"
)

// One node's answers are late, and a newcomer has got two votes of five before those nodes learnt of an older waiter.
// If the newcomer kept them, the older waiter would have to wait for the late node. The test runs without tokens: if
// nodes have accepted the newcomer's token, the older waiter needs a second round, which has to wait for that node
// anyway.
func TestNewcomerGivesItsVotesToTheOlderWaiter(t *testing.T) {
	for range 10 { // about one run in three showed the delay
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			const late = 50 * ms
			fl.net.SetDelay(link0("", 4), sim.Down, sim.Delay{Min: late, Max: late + ms})
			for _, far := range []int{2, 3} {
				fl.net.Refuse(link0("holder", far))
				fl.net.SetDelay(link0("next", far), sim.Up, sim.Delay{Min: 60 * ms, Max: 61 * ms})
			}
			k := must(fl.locker("holder", WithoutFencing()).Lock(t.Context(), "job"))(t)
			next, newcomer := fl.locker("next", WithoutFencing()), fl.locker("newcomer", WithoutFencing())
			locked := make(chan *Lock, 2)
			for _, l := range []*Locker{next, newcomer} {
				go func() { locked <- must(l.Lock(t.Context(), "job"))(t) }()
				time.Sleep(late + 10*ms)
			}
			time.Sleep(300 * ms)
			for _, want := range []*Locker{next, newcomer} {
				succeeds(t, k.Unlock(t.Context()))
				within(t, late/2, "the hand-over", func() { k = <-locked })
				equals(t, k.hold.locker, want, "the newcomer got the lock first")
			}
			succeeds(t, k.Unlock(t.Context()))
			fl.clean()
		})
	}
}

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

// Whatever a node answers, a waiter's pause is neither negative nor endless.
func TestNoAnswerMakesAHotLoop(t *testing.T) {
	for _, place := range []int64{0, 1, 1_000, 1 << 20, 1 << 40, 1<<63 - 1, -1, -1 << 62, -1 << 63} {
		for _, left := range []int64{1, 5_000, 1 << 40, 9223372036854, 9223372036855, 18446744073710, 1<<63 - 1, -1 << 63} {
			a := readAcquire([]any{int64(0), []byte("o"), left, nil, place})
			r := newRounds(oneList(3)).Get().(*round)
			var votes tally
			for i := range r.answers {
				r.answers[i] = a
				votes += oneList(3).ballot(i, voteTaken)
			}
			said := newNotifications(3)
			v := said.count(votes, r.answers, 1, 1)
			o := &options{ttl: 10 * time.Second, backoff: Jitter(10*ms, 250*ms)}
			for attempts := 1; attempts < 20; attempts++ {
				p := newPause(o, attempts, 0)
				if d := p.length(&v, oneList(3)); d < min(p.backoff, 2*ms) || d > 15*time.Second {
					t.Fatalf("place %d, %d ms left: a pause of %s", place, left, d)
				}
			}
		}
	}
}

// A waiter that gives its votes back goes on under another owner, whose time is another one, too: that no two owners of
// a wait are the same is then certain and not only likely. An undo that arrives late releases by the owner.
func TestOwnersOfOneWaitDiffer(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithOwnerLabel(""))
		for i, n := range fl.nodes[:4] { // votes that are split between two who are older, and never come back
			n.Do("SET", "job", new(label).owner(int64(1+i/2)).String(), "PX", 3_600_000)
		}
		go func() { _, _ = l.Lock(t.Context(), "job") }()
		times := make(map[string]uuid.UUID) // by the first 60 bits
		for range 60_000 {
			time.Sleep(ms)
			l.listeners.mu.Lock()
			for owner := range l.listeners.of {
				if before, known := times[owner.String()[:18]]; known && before != owner {
					t.Errorf("%s and %s have the same time", before, owner)
				}
				times[owner.String()[:18]] = owner
			}
			l.listeners.mu.Unlock()
		}
		if len(times) < 5 {
			t.Errorf("%d owners: this proves nothing", len(times))
		}
	})
}

// Clients wait for the lock without reaching enough nodes: of one list, or of one of two. They would get votes, since
// they have waited longest, but must not keep them from clients that can use them: these reach more nodes, or need
// fewer. They ask no more, and get the lock when they reach the nodes.
func TestWaitersThatCannotWinBlockNobody(t *testing.T) {
	lock, read, permit := calls["Lock"], calls["RLock"], calls["Acquire"]
	three := change{old: []int{0, 1, 2}}
	for what, c := range map[string]struct {
		change
		dead, cut []int // for everybody, for the waiter
		waits     call
		others    call
	}{
		"one list":         {three, []int{2}, []int{1}, lock, lock},
		"readers":          {three, []int{2}, []int{1}, read, lock},
		"permits":          {three, []int{2}, []int{1}, permit, permit},
		"new masters dead": {changes[1], []int{3, 4, 5}, nil, lock, lock},
		"new masters cut":  {changes[1], nil, []int{3, 4, 5}, lock, lock},
		"some cut":         {change{"", []int{0, 1, 2}, []int{2, 3, 4}}, nil, []int{3, 4}, lock, lock},
	} {
		subtest(t, what, c.size(), func(t *testing.T, fl *fleet) {
			kind := "old"
			if c.new != nil {
				kind = "both"
			}
			for _, i := range c.dead {
				fl.nodes[i].Crash(true)
			}
			fl.cut("cut off", c.cut...)
			const waiters = 20
			other := c.locker(fl, "old", "other")
			ctx := expiring(t, time.Minute)
			waited := make(chan error, waiters)
			for range waiters {
				waiter := c.locker(fl, kind, "cut off")
				go func() {
					k, err := c.waits(ctx, waiter)
					if err == nil {
						err = k.Unlock(ctx)
					}
					waited <- err
				}()
			}
			time.Sleep(time.Second)
			asked := fl.nodes[0].Calls("evalsha")
			time.Sleep(10 * time.Second)
			if asked = fl.nodes[0].Calls("evalsha") - asked; asked > 6*waiters { // these trim, and register
				t.Errorf("they asked a node %d times in 10 s", asked)
			}
			for range 100 {
				begun := time.Now()
				k := must(c.others(ctx, other))(t)
				if took := time.Since(begun); took > 20*ms {
					t.Errorf("waited for %v", took)
				}
				time.Sleep(10 * ms)
				succeeds(t, k.Unlock(ctx))
			}
			for _, i := range c.dead {
				fl.nodes[i].Restart()
			}
			fl.mend("cut off", c.cut...)
			for range waiters {
				succeeds(t, <-waited, "they reach all nodes again")
			}
		})
	}
}

// A wait that only its attempts limit ends in an outage, too.
func TestAttemptsAreLimitedInAnOutage(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes[:2].crash(true)
		for what, lock := range some("Lock", "Acquire", "RLock", "LockAll") {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			if _, err := lock(ctx, l, WithMaxAttempts(5)); !errors.Is(err, ErrNoQuorum) || ctx.Err() != nil {
				t.Errorf("%s: got %v, want ErrNoQuorum after five attempts", what, err)
			}
			cancel()
		}
	})
}

// Most nodes fail at once, and the vote of another comes a little later: that is no reason to keep it for the back-off.
func TestAVoteAfterAFailureShortensThePause(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		fl.nodes[2].Crash(true)
		fl.cut("cut off", 1)
		fl.net.SetDelay(link0("cut off", 0), sim.Down, sim.Delay{Min: 10 * ms, Max: 11 * ms})
		waiter := fl.locker("cut off", WithBackoff(func(int) time.Duration { return 200 * ms }))
		other := fl.locker("other")
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, _ = waiter.Lock(ctx, "job") }()
		for range 20 {
			time.Sleep(130 * ms)
			within(t, 60*ms, "the lock", func() { succeeds(t, must(other.Lock(ctx, "job"))(t).Unlock(ctx)) })
		}
		cancel()
		settleNetwork()
	})
}

// A node that says of each owner that it is revoked makes no waiter ask without pause.
func TestGivingBackWhatIsRevokedIsCounted(t *testing.T) {
	var p patience
	if p.decide(&waiterVotes{revoked: true}, false, "", oneList(3)); p.gaveBack != 1 {
		t.Errorf("gave back %d times, want 1", p.gaveBack)
	}
}
