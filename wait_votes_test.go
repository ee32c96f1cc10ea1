package redlock

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// One node's answers are late, and a newcomer has got two votes of five before those nodes heard of one that
// waits already. If it kept them until its turn, the other's turn would be as late as that node. Without tokens: where
// nodes have accepted the newcomer's, the other's needs a second round, which is as late as that node in any case.
func TestANewcomersVotesGoToWhoIsNext(t *testing.T) {
	for range 10 { // of three, one was late
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
				if err := k.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				within(t, late/2, "the hand-over", func() { k = <-locked })
				if k.hold.locker != want {
					t.Error("the newcomer is first")
				}
			}
			must(0, k.Unlock(t.Context()))(t)
			settleNetwork()
			if left := fl.leftovers(); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestWhatAWaiterDecides(t *testing.T) {
	const before, us, after = "0190", "0191", "0192"
	for at, line := range scenarios(t, "testdata/waiter.txt") {
		parts := strings.Split(line, "|")
		if len(parts) != 4 {
			t.Fatalf("%s: cannot be read: %s", at, line)
		}
		shared := strings.TrimSpace(parts[0]) == "reader"
		v := &waiterVotes{others: map[string]int{}, place: must(strconv.Atoi(strings.TrimSpace(parts[2])))(t)}
		for node := range strings.FieldsSeq(parts[1]) {
			switch node {
			case "ours":
				v.given++
				v.fresh++
			case "told":
				v.given++
			case "old":
				v.others[before]++
			case "young":
				v.others[after]++
			case "reads":
				v.others[marker]++
			case "other":
				v.others[""]++
			case "-":
			default:
				t.Fatalf("%s: what is %s?", at, node)
			}
		}
		var seen patience
		questions := 0
		for want := range strings.FieldsSeq(parts[3]) {
			want, times, repeated := strings.Cut(want, "*")
			n := 1
			if repeated {
				n = must(strconv.Atoi(times))(t)
			}
			for range n {
				questions++
				seen.asked(v)
				got := [...]string{keepVotes: "keep", giveBack: "give", beginAnew: "anew"}[seen.decide(v, shared, us, 3)]
				if got != want {
					t.Errorf("%s: %s: question %d: got %s, want %s", at, line, questions, got, want)
				}
			}
		}
	}
}

// A grant is a vote for one token: after a raise it is none for the new one.
func TestAGrantCountsForItsTokenAlone(t *testing.T) {
	const first = int64(100)
	token, said := first, newNotifications(3)
	granted := func(when string, want int) {
		t.Helper()
		if v := said.count(0, make([]answer, 3), first, token); v.given != 2 || v.granted != want {
			t.Errorf("%s: given %d, granted %d, want 2 and %d", when, v.given, v.granted, want)
		}
	}
	said.receive(0, answer{vote: voteGranted}, first)
	said.receive(1, answer{vote: voteGranted}, first)
	granted("handed over", 2)
	token++
	granted("after a raise that nobody answered", 0)
	said.accept(1, token)
	granted("after a raise that one accepted", 1)
	said.receive(0, answer{vote: voteOutbid, token: token}, first)
	granted("a node knows the number from somebody else", 1)
	said.receive(1, answer{vote: voteOutbid, token: token}, first)
	granted("a node knows the number from us", 1)
	said.receive(1, answer{vote: voteOutbid, token: token + 1}, first)
	granted("a node knows a larger one by now", 0)
}

// What a node said unasked is worth nothing once it has been asked and has not confirmed it: it may have restarted in
// between, and have given the lock back to its holder.
func TestANotificationIsConfirmedOrForgotten(t *testing.T) {
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
		said.receive(2, answer{vote: voteGranted}, 1)
		if c.stale {
			said.age()
		}
		answers := make([]answer, 3)
		answers[2].vote = c.vote
		for range 2 { // it stays forgotten
			if v := said.count(ballot(2, c.vote), answers, 1, 1); v.given != c.given {
				t.Errorf("%v, stale %v: got %d votes, want %d", c.vote, c.stale, v.given, c.given)
			}
		}
	}
}
