package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// redsync: clean-up ran on the caller's dead ctx, and the keys stayed for the whole TTL.
func TestCancelledMidAcquireLeavesNoKeyOnAnyNode(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*faultproxy.Proxy){
		"answers are held":   func(p *faultproxy.Proxy) { p.Hold(faultproxy.Down) },
		"answers are slow":   func(p *faultproxy.Proxy) { p.Delay(faultproxy.Down, 80*time.Millisecond) },
		"requests are held":  func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up) },
		"requests are slow":  func(p *faultproxy.Proxy) { p.Delay(faultproxy.Up, 80*time.Millisecond) },
		"answers never come": func(p *faultproxy.Proxy) { p.Drop(faultproxy.Down) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.Start(t, 3)
			nw := f.Network(t)
			// Its end is the only thing that can make Lock return.
			l := nw.Locker(t, redlock.WithTTL(fleet.Long), redlock.WithNodeTimeout(30*time.Second))
			nw.Each(fault)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			before := time.Now()
			_, err := l.Lock(ctx, "n")
			if took := time.Since(before); took > 25*time.Second {
				t.Errorf("Lock returned %v after it began, as if its ctx had not been cancelled", took)
			}
			fleet.WantIs(t, err, context.Canceled)
			nw.Heal(t)
			// Nothing may be late: wait until the nodes hear from us again.
			_ = fleet.Lock(t, l, "m").Unlock() // WantClean is not taken in
			f.WantClean(t)
		})
	}
}

// redsync, fail-fast: a straggling SET landed after Unlock; 19 of 20 were orphaned. Also where the straggler's
// connection breaks in the middle of it: what it was told and did not answer must be undone, too.
func TestStragglersLeaveNoOrphans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		way    faultproxy.Direction
		by     time.Duration
		resets bool
	}{
		"late":   {faultproxy.Up, 15 * time.Millisecond, false},
		"broken": {faultproxy.Down, 5 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.Start(t, 5)
			nw := f.Network(t)
			l := nw.Locker(t, redlock.WithTTL(fleet.Long))
			nw.Proxies[4].Delay(c.way, c.by)
			for i := range 500 {
				k, err := l.TryLock(t.Context(), fmt.Sprintf("n%d", i))
				fleet.Must(t, err)
				fleet.Must(t, k.Unlock())
				if c.resets && i%25 == 12 {
					nw.Proxies[4].Reset()
				}
			}
			fleet.Must(t, l.Close()) // which forgets nothing that is to be undone
			f.WantClean(t)
		})
	}
}

// Requests that the network delivers long after their sender gave up are undone by the release that travels behind
// them, and disturb nobody in the meantime; also when the client has replaced its connection by then.
func TestLateRequestsAreUndoneAndDisturbNobody(t *testing.T) {
	t.Parallel()
	for name, silence := range map[string]time.Duration{
		"over the same connection":     0,
		"over an abandoned connection": 1500 * time.Millisecond, // longer than a node may be silent before it is replaced
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fleet.Start(t, 3)
			nw := f.Network(t)
			late := nw.Locker(t, redlock.WithTTL(fleet.Long), redlock.WithNodeTimeout(250*time.Millisecond))
			other := f.Locker(t, redlock.WithTTL(fleet.Long))
			nw.Each(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up) })
			for _, name := range []string{"n", "free"} { // the other one will have "n"
				_, err := late.TryLock(t.Context(), name)
				fleet.WantIs(t, err, redlock.ErrNoQuorum)
			}
			k := fleet.Lock(t, other, "n")
			time.Sleep(silence)
			nw.Heal(t)
			l := fleet.Lock(t, late, "m") // so the late requests have been carried out
			_ = l.Unlock()                // a busy machine is late; WantClean is not taken in
			fleet.Must(t, k.Extend(t.Context()))
			if got := f.Holders(t, "n", k.Owner()); got != 3 {
				t.Errorf("the other's hold is on %d nodes, want 3", got)
			}
			fleet.Must(t, k.Unlock())
			f.WantClean(t)
		})
	}
}
