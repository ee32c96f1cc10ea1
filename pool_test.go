package redlock

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// In redsync, RedLock.net and rueidis, one sick node blocked every call for seconds.
func TestASickNodeDelaysNoCall(t *testing.T) {
	sick := map[string]func(fl *fleet){
		"paused":     func(fl *fleet) { fl.nodes[1].Pause() },
		"black hole": func(fl *fleet) { fl.net.Drop(link0("a", 1), sim.Both) },
		"answers lost": func(fl *fleet) {
			fl.net.Hold(link0("a", 1), sim.Down)
		},
		"refused": func(fl *fleet) { fl.nodes[1].Crash(false) },
		"slow": func(fl *fleet) {
			fl.net.SetDelay(link0("a", 1), sim.Both, sim.Delay{Min: time.Second, Max: 2 * time.Second})
		},
		"errors": func(fl *fleet) { fl.nodes[1].Fail("*", "OOM command not allowed when used memory > 'maxmemory'.", -1) },
	}
	for name, make := range sick {
		subtest(t, name, 5, func(t *testing.T, fl *fleet) {
			l := fl.locker("a")
			make(fl)
			for i := range sized(200, 60) {
				within(t, 20*ms, "a cycle", func() {
					k := must(l.Lock(t.Context(), fmt.Sprint("job", i)))(t)
					succeeds(t, k.Extend(t.Context()))
					succeeds(t, k.Unlock())
				})
			}
			fl.net.Calm()
			fl.nodes[1].Recover()
			fl.nodes[1].Resume()
		})
	}
}

func TestEveryCallReturnsWithinTheNodeTimeout(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithNodeTimeout(100*ms))
		k := must(l.Lock(t.Context(), "held"))(t)
		fl.nodes.pause()
		// The first request to a silent node waits for the node timeout; later ones fail at once.
		for _, limit := range []time.Duration{100 * ms, 0} {
			within(t, limit, "TryLock", func() { fails(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum, "TryLock") })
			within(t, limit, "Extend", func() { fails(t, k.Extend(t.Context()), ErrNoQuorum, "Extend") })
		}
		within(t, 0, "Unlock", func() { fails(t, k.Unlock(), ErrNoQuorum, "Unlock") })
		// The nodes execute the undos as soon as they resume.
		fl.nodes.resume()
		settleNetwork()
		equals(t, fl.holding("held")+fl.holding("job"), 0, "left on nodes")
		succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
	})
}

// A second round, for a larger token, has what is left of the first round's node timeout.
func TestTwoRoundsTakeOneNodeTimeout(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithNodeTimeout(100*ms))
		ahead := l.tokens.time(l.opts.clock.now()) + (500 * ms).Microseconds()
		for i, n := range fl.nodes {
			n.Do("ZADD", "redlock:tokens", strconv.FormatInt(ahead, 10), "job")
			fl.net.SetDelay(link0("a", i), sim.Down, sim.Delay{Min: 80 * ms, Max: 80 * ms})
		}
		within(t, 100*ms, "TryLock", func() {
			failsAlone(t, errOf(l.TryLock(t.Context(), "job")), ErrNoQuorum, context.DeadlineExceeded)
		})
		fl.settles("job", 0)
		time.Sleep(200 * ms)
		within(t, 81*ms, "TryLock that knows the token", func() { must(l.TryLock(t.Context(), "job"))(t) })
	})
}

func TestReleasesReachANodeThatWasAway(t *testing.T) {
	away := map[string][2]func(fl *fleet){
		"cut": {
			func(fl *fleet) { fl.cut("a", 0) },
			func(fl *fleet) { fl.mend("a", 0) },
		},
		"reset": {
			func(fl *fleet) { fl.net.Refuse(link0("a", 0)); fl.net.Reset(link0("a", 0)) },
			func(fl *fleet) { fl.mend("a", 0) },
		},
		"crashed, with its data": {
			func(fl *fleet) { fl.nodes[0].Crash(true) },
			func(fl *fleet) { fl.nodes[0].Restart() },
		},
		"crashed, and known to be": {
			func(fl *fleet) { fl.nodes[0].Crash(true); settleNetwork() },
			func(fl *fleet) { fl.nodes[0].Restart() },
		},
		"black hole": {
			func(fl *fleet) { fl.net.Drop(link0("a", 0), sim.Both) },
			func(fl *fleet) { fl.net.Heal(link0("a", 0), sim.Both) },
		},
	}
	for name, f := range away {
		subtest(t, name, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a", WithTTL(20*time.Second))
			k := must(l.Lock(t.Context(), "job"))(t)
			settleNetwork()
			f[0](fl)
			succeeds(t, k.Unlock())
			time.Sleep(300 * ms)
			equals[any](t, fl.nodes[0].Do("EXISTS", "job"), int64(1), "the node was not away: this proves nothing")
			f[1](fl)
			time.Sleep(5 * time.Second)
			equals[any](t, fl.nodes[0].Do("EXISTS", "job"), int64(0), "the key is left")
		})
	}
}
