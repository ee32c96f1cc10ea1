package holding_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// Every way in which a hold can end, and what its owner is told by each of the
// ways to ask.
func TestEveryEndHasItsErrors(t *testing.T) {
	t.Parallel()
	const name = "n"
	type world struct {
		f  fleet.Fleet
		nw fleet.Network
		l  *redlock.Locker
		k  *redlock.Lock
	}
	const short, renewed = time.Second, 3 * time.Second
	steal := func(t *testing.T, w world, nodes int) {
		fleet.Eventually(t, "all nodes have granted",
			func() bool { return w.f.Holders(t, name, w.k.Owner()) == len(w.f.Nodes) })
		fleet.Put(t, name, "thief", fleet.Long, w.f.Nodes[:nodes]...)
	}
	lost := []error{redlock.ErrLost}
	for _, c := range []struct {
		end  string
		ttl  time.Duration
		opts []redlock.LockOption
		do   func(*testing.T, world)
		// What the ways to ask say. nil: no error.
		err, unlock, extend []error
		not                 []error // what none of them may be
	}{
		{
			end: "unlocked", ttl: renewed,
			do:  func(t *testing.T, w world) { fleet.Must(t, w.k.Unlock()) },
			err: []error{redlock.ErrUnlocked}, extend: []error{redlock.ErrUnlocked}, not: lost,
		}, {
			end: "not renewed", ttl: short, opts: []redlock.LockOption{redlock.WithoutRenewal()},
			do:  func(*testing.T, world) {},
			err: lost, unlock: lost, extend: lost, not: []error{redlock.ErrUnlocked, redlock.ErrMaxHold},
		}, {
			end: "cut off from all nodes", ttl: renewed,
			do: func(_ *testing.T, w world) {
				w.nw.Each(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up); p.Hold(faultproxy.Down) })
			},
			err: lost, unlock: lost, extend: lost,
		}, {
			end: "refused by all nodes", ttl: renewed,
			do:  func(_ *testing.T, w world) { w.nw.Each((*faultproxy.Proxy).Refuse) },
			err: lost, unlock: lost, extend: lost,
		}, {
			end: "stolen on a majority", ttl: renewed,
			do:  func(t *testing.T, w world) { steal(t, w, 3) },
			err: lost, unlock: lost, extend: lost, not: []error{redlock.ErrNoQuorum},
		}, {
			end: "a majority frozen", ttl: renewed,
			do: func(t *testing.T, w world) {
				for _, n := range w.f.Nodes[:3] {
					fleet.Must(t, n.Pause())
					t.Cleanup(func() { fleet.Must(t, n.Resume()) })
				}
			},
			err: lost, unlock: lost, extend: lost,
		}, {
			end: "the limit of WithMaxHold", ttl: renewed,
			opts: []redlock.LockOption{redlock.WithMaxHold(1500 * time.Millisecond)}, do: func(*testing.T, world) {},
			err: []error{redlock.ErrMaxHold}, unlock: []error{redlock.ErrMaxHold, redlock.ErrLost},
			extend: []error{redlock.ErrMaxHold, redlock.ErrLost}, not: []error{redlock.ErrUnlocked},
		}, {
			end: "the Locker closed", ttl: renewed,
			do:  func(t *testing.T, w world) { fleet.Must(t, w.l.Close()) },
			err: []error{redlock.ErrClosed}, unlock: []error{redlock.ErrClosed, redlock.ErrLost},
			extend: []error{redlock.ErrClosed, redlock.ErrLost}, not: []error{redlock.ErrUnlocked},
		}, {
			end: "handed over", ttl: renewed,
			do: func(t *testing.T, w world) {
				if _, err := w.k.Ticket(); err != nil {
					t.Error(err)
				}
			},
			err: []error{redlock.ErrUnlocked}, extend: []error{redlock.ErrUnlocked}, not: []error{redlock.ErrLost},
		},
	} {
		t.Run(c.end, func(t *testing.T) {
			t.Parallel()
			f := fleet.StartSpec(t, 5, masters.Spec{})
			nw := f.Network(t)
			l := nw.Locker(t, redlock.WithTTL(c.ttl), redlock.WithNodeTimeout(time.Second))
			w := world{f, nw, l, fleet.Lock(t, l, name, c.opts...)}
			ctx, cancel := w.k.Context(t.Context())
			defer cancel()
			fleet.Must(t, w.k.Err())
			fleet.Must(t, ctx.Err())
			c.do(t, w)
			select {
			case <-w.k.Done():
			case <-time.After(time.Minute):
				t.Fatal("the hold does not end")
			}
			wantIs(t, "Context.Err", ctx.Err(), context.Canceled)
			said := map[string]error{
				"Err": w.k.Err(), "Context's cause": context.Cause(ctx),
				"Extend": w.k.Extend(t.Context()), "Unlock": w.k.Unlock(),
			}
			if c.end == "the Locker closed" || said["Unlock"] != nil {
				wantIs(t, "Unlock again", w.k.Unlock(), said["Unlock"])
			}
			for what, wants := range map[string][]error{
				"Err": c.err, "Context's cause": c.err, "Extend": c.extend, "Unlock": c.unlock,
			} {
				if len(wants) == 0 && said[what] != nil {
					t.Errorf("%s: got %v, want none", what, said[what])
				}
				for _, want := range wants {
					wantIs(t, what, said[what], want)
				}
				for _, not := range append(c.not, context.DeadlineExceeded) {
					if errors.Is(said[what], not) {
						t.Errorf("%s: %v is %v too", what, said[what], not)
					}
				}
			}
			late, cancel := w.k.Context(t.Context())
			defer cancel()
			wantIs(t, "a context made after the end", late.Err(), context.Canceled)
		})
	}

	t.Run("the caller's context ends, the hold does not", func(t *testing.T) {
		t.Parallel()
		f := fleet.StartSpec(t, 3, masters.Spec{})
		k := fleet.Lock(t, f.Locker(t), name)
		why := errors.New("enough")
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, done := k.Context(parent)
		defer done()
		cancel(why)
		<-ctx.Done()
		wantIs(t, "cause", context.Cause(ctx), why)
		wantIs(t, "Err", k.Err(), nil)
		wantIs(t, "Unlock", k.Unlock(), nil)
	})
}
