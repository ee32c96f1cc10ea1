package redlock

import (
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// A hold may be confirmed while the last nodes answer its first request and say that it stands in their queues. The
// race detector watches.
func TestAHoldIsConfirmedWhileStragglersAnswer(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, i := range []int{3, 4} {
			fl.nodes[i].Do("SET", "job", "another", "PX", 10_000)
			fl.net.SetDelay(link0("a", i), sim.Down, sim.Delay{Min: 20 * ms, Max: 21 * ms})
		}
		p := plan{op: "lock", name: "job", key: "job", opts: l.opts, waits: true}
		got := l.attempt(t.Context(), p, queueUp)
		succeeds(t, got.err)
		for i := range l.nodes {
			l.listeners.tells(i, got.hold.owner)
		}
		time.Sleep(50 * ms)
		succeeds(t, l.denial(t.Context(), got.hold, &p))
		got.hold.discard()
		fl.nodes.do("DEL", "job")
		fl.clean()
	})
}

// The event of an attempt has the time that its last question took, where a value had to be confirmed.
func TestTheEventOfAnAttemptWithAValue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l, w := fl.witnessed("a")
		for i := range l.nodes {
			fl.net.SetDelay(link0("a", i), sim.Down, sim.Delay{Min: 20 * ms, Max: 20*ms + 1})
		}
		must(l.Lock(t.Context(), "job", WithValue("x")))(t)
		between(t, w.expect(t, EventAttempt, EventAcquire)[0].Duration, 20*ms, 25*ms, "the attempt's duration")
	})
}
