package redlock

import (
	"context"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

var (
	firstSeed = flag.Uint64("first", 1, "the first seed of TestWalks")
	seeds     = flag.Uint64("seeds", sized(uint64(150), 20), "how many walks it takes")
)

// Whatever a client calls, with whatever options, and whatever breaks meanwhile: each call returns in time, and what it
// has left is gone when nobody has a hold any more.
func TestWalks(t *testing.T) {
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		bubble(t, 3+2*int(seed%2), func(t *testing.T, fl *fleet) {
			w := &walk{rand.New(rand.NewPCG(seed, 0)), t, fl, []*Locker{fl.locker("a"), fl.locker("b")}, sync.WaitGroup{}}
			for range 4 {
				w.step()
				w.others.Wait()
				fl.net.SetDelay(sim.Link{}, sim.Both, sim.LAN)
				time.Sleep(4 * time.Second) // shorter than any TTL
				left := slices.DeleteFunc(fl.leftovers(), func(s string) bool { return strings.HasSuffix(s, revokedName) })
				if len(left) > 0 || t.Failed() {
					t.Fatalf("seed %d: left %v", seed, left)
				}
			}
			for _, l := range w.lockers {
				w.takes(1, "Shutdown", func() { _ = l.Shutdown(t.Context()) })
			}
		})
	}
}

// walk is a client that makes one call after the other.
type walk struct {
	*rand.Rand
	t       *testing.T
	fl      *fleet
	lockers []*Locker
	others  sync.WaitGroup // what breaks, and is mended again
}

func (w *walk) up(d time.Duration) time.Duration { return time.Duration(w.Int64N(int64(d))) }
func (w *walk) locker() *Locker                  { return w.lockers[w.IntN(len(w.lockers))] }

// takes fails the test if a call takes longer than so many node timeouts.
func (w *walk) takes(timeouts int, what string, f func()) {
	w.t.Helper()
	within(w.t, time.Duration(timeouts)*w.lockers[0].opts.nodeTimeout+5*ms, what, f)
}

// ctx may end during the call.
func (w *walk) ctx() context.Context {
	if w.IntN(4) == 0 {
		return expiring(w.t, w.up(300*ms))
	}
	return w.t.Context()
}

func (w *walk) options() (opts []LockOption) {
	for _, o := range []LockOption{
		WithValue("v"), WithMaxHold(20*ms + w.up(300*ms)), WithTTL(8*time.Second + w.up(20*time.Second)),
		WithoutRenewal(), WithRenewWhile(func(context.Context) error { return nil }),
	} {
		if w.IntN(5) < 2 {
			opts = append(opts, o)
		}
	}
	return opts
}

// breaks breaks something in a moment, for a while.
func (w *walk) breaks() {
	some, dir := w.Perm(len(w.fl.nodes))[w.IntN(len(w.fl.nodes)):], []sim.Dir{sim.Up, sim.Down, sim.Both}[w.IntN(3)]
	what, least, lasts, other := w.IntN(5), w.up(90*ms), w.up(600*ms), w.locker()
	w.others.Add(1)
	time.AfterFunc(w.up(100*ms), func() {
		defer w.others.Done()
		if i, err := other.Inspect(context.Background(), "job"); what == 0 && err == nil && i.Owner != "" {
			_ = other.ForceUnlock(context.Background(), "job", i.Owner)
		}
		for _, i := range some {
			switch n, link := w.fl.nodes[i], (sim.Link{Node: w.fl.nodes[i].Addr()}); what {
			case 1:
				w.fl.net.SetDelay(link, dir, sim.Delay{Min: least, Max: least + 20*ms})
			case 2:
				w.fl.net.Reset(link) // what arrives late, after a Cut, may stay
			case 3:
				n.Pause()
				time.AfterFunc(lasts, n.Resume)
			case 4:
				w.fl.net.Hold(link, dir)
				time.AfterFunc(lasts, func() { w.fl.net.Release(link, dir) })
			}
		}
		time.Sleep(lasts)
	})
}

// step acquires, does something with the hold, and unlocks.
func (w *walk) step() {
	kinds, timeouts, opts := tries, 1, w.options()
	if w.IntN(2) == 0 {
		kinds, timeouts, opts = calls, 4, append(opts, WithMaxWait(w.up(time.Second)))
	}
	names := slices.Sorted(maps.Keys(kinds))
	name := names[w.IntN(len(names))]
	if name == "Acquire" {
		timeouts = max(timeouts, 3)
	}
	for range w.IntN(4) {
		w.breaks()
	}
	time.Sleep(w.up(100 * ms))
	var k *Lock
	w.takes(timeouts, name, func() { k, _ = kinds[name](w.ctx(), w.locker(), opts...) })
	for n := w.IntN(5); n > 0 && k != nil; n-- {
		switch w.IntN(6) {
		case 0:
			w.takes(1, "SetValue", func() { _ = k.SetValue(w.ctx(), "w") })
		case 1:
			w.takes(1, "Extend", func() { _ = k.Extend(w.ctx()) })
		case 2:
			k = w.handOver(k)
		case 3:
			w.breaks()
		default:
			time.Sleep(w.up(time.Second))
		}
	}
	if k != nil {
		w.takes(1, "Unlock", func() { _ = k.Unlock() })
	}
}

// handOver hands a hold with a token over, and returns the next one, or nil.
func (w *walk) handOver(k *Lock) (next *Lock) {
	if k.Token() == 0 {
		return k // what its holder sent would not be too late after the next one's end
	}
	w.others.Wait()
	time.Sleep(300 * ms) // nor would it be taken back
	w.breaks()
	var text string
	var err error
	if w.takes(1, "Ticket", func() { text, err = k.Ticket() }); err != nil {
		return k
	}
	for range 5 {
		w.takes(1, "Adopt", func() { next, err = w.locker().Adopt(w.ctx(), text, w.options()...) })
		if err == nil {
			return next
		}
		time.Sleep(time.Second)
	}
	time.Sleep(30 * time.Second) // nobody has it, and the nodes keep it
	return nil
}
