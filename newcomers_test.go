package redlock

import (
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// One node's answers are late, and a newcomer has got two votes of five before those nodes heard of one that
// waits already. If it kept them until its turn, the other's turn would be as late as that node.
func TestANewcomersVotesGoToWhoIsNext(t *testing.T) {
	for range 10 { // of three, one was late
		bubble(t, 5, func(t *testing.T, fl *fleet) {
			const late = 50 * ms
			fl.net.SetDelay(link0("", 4), sim.Down, sim.Delay{Min: late, Max: late + ms})
			for _, far := range []int{2, 3} {
				fl.net.Refuse(link0("holder", far))
				fl.net.SetDelay(link0("next", far), sim.Up, sim.Delay{Min: 60 * ms, Max: 61 * ms})
			}
			k := must(fl.locker("holder").Lock(t.Context(), "job"))(t)
			next, newcomer := fl.locker("next"), fl.locker("newcomer")
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

func TestWhoStrays(t *testing.T) {
	for _, c := range []struct {
		shared bool
		given  int
		place  int
		others map[string]int
		want   bool
	}{
		{false, 2, 1, map[string]int{"a": 3}, true},
		{false, 2, 1, map[string]int{marker: 3}, true},
		{false, 2, 0, map[string]int{"a": 3}, false}, // the next turn is ours
		{false, 2, 1, map[string]int{"a": 2, "b": 1}, false},
		{false, 0, 1, map[string]int{"a": 3}, false},
		{false, 3, 1, map[string]int{"a": 3}, false}, // we have won, and it is late to say that it has lost
		{true, 2, 1, map[string]int{"a": 3}, false},
	} {
		v := &view{given: c.given, fresh: c.given, place: c.place, others: c.others}
		if got := v.strays(c.shared, 3); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}
