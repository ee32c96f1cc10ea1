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
		v := &view{others: map[string]int{}, place: must(strconv.Atoi(strings.TrimSpace(parts[2])))(t)}
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
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		w := l.newWaiter(wanted{op: "lock", name: "job", key: "job"}, l.opts, 0)
		defer w.giveUp()
		c := l.askFor(enqueue, w.hold)
		defer func() { c.holders.Store(1); c.Done() }() // it was put to nobody
		granted := func(when string, want int) {
			t.Helper()
			if v := w.count(c); v.given != 2 || v.granted != want {
				t.Errorf("%s: given %d, granted %d, want 2 and %d", when, v.given, v.granted, want)
			}
		}
		w.tell(0, answer{vote: voteGranted})
		w.tell(1, answer{vote: voteGranted})
		granted("handed over", 2)
		w.hold.token++
		granted("after a raise that nobody answered", 0)
		w.accepted[1] = w.hold.token
		granted("after a raise that one accepted", 1)
		w.tell(0, answer{vote: voteOutbid, token: w.hold.token})
		granted("a node knows the number from somebody else", 1)
		w.tell(1, answer{vote: voteOutbid, token: w.hold.token})
		granted("a node knows the number from us", 1)
		w.tell(1, answer{vote: voteOutbid, token: w.hold.token + 1})
		granted("a node knows a larger one by now", 0)
	})
}

// What a node told before it was asked is worth nothing once it has been asked and has not confirmed it: it may have
// restarted in between, and have given the lock back to its holder.
func TestWhatWasToldIsConfirmedOrForgotten(t *testing.T) {
	for _, c := range []struct {
		vote  vote
		old   bool
		given int
	}{
		{voteAbstained, false, 1},
		{voteFailed, false, 1}, // the answer may be older than what was told
		{voteAbstained, true, 0},
		{voteFailed, true, 0},
		{voteTaken, true, 0},
		{voteGranted, true, 1},
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			w := l.newWaiter(wanted{op: "lock", name: "job", key: "job"}, l.opts, 0)
			defer w.giveUp()
			w.tell(2, answer{vote: voteGranted})
			w.told[2].old = c.old
			asked := &round{answers: make([]answer, 3)}
			asked.answers[2].vote = c.vote
			asked.votes.Store(uint64(ballot(2, c.vote)))
			for range 2 { // it stays forgotten
				if v := w.count(asked); v.given != c.given {
					t.Errorf("%v, old %v: got %d votes, want %d", c.vote, c.old, v.given, c.given)
				}
			}
		})
	}
}
