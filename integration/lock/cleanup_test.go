package lock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

func asQuorum(err error, q **redlock.QuorumError) bool { return errors.As(err, q) }

// redsync: clean-up ran on the caller's dead ctx, and the keys stayed for the whole TTL.
func TestCancelledMidAcquireLeavesNoKeyOnAnyNode(t *testing.T) {
	for name, fault := range map[string]func(*faultproxy.Proxy){
		"answers are held":   func(p *faultproxy.Proxy) { p.Hold(faultproxy.Down) },
		"answers are slow":   func(p *faultproxy.Proxy) { p.Delay(faultproxy.Down, 80*time.Millisecond) },
		"requests are held":  func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up) },
		"requests are slow":  func(p *faultproxy.Proxy) { p.Delay(faultproxy.Up, 80*time.Millisecond) },
		"answers never come": func(p *faultproxy.Proxy) { p.Drop(faultproxy.Down) },
	} {
		t.Run(name, func(t *testing.T) {
			f := fleet.Start(t, 3)
			nw := f.Network(t)
			// Its end is the only thing that can make Lock return.
			l := nw.Locker(t, redlock.WithTTL(long), redlock.WithNodeTimeout(30*time.Second))
			nw.Each(fault)
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			before := time.Now()
			_, err := l.Lock(ctx, "n")
			if took := time.Since(before); took > 25*time.Second {
				t.Errorf("Lock returned %v after it began, as if its ctx had not been cancelled", took)
			}
			wantIs(t, err, context.Canceled)
			nw.Heal(t)
			// Nothing may be late: wait until the nodes hear from us again.
			k := lock(t, l, "m")
			unlock(t, k)
			f.WantClean(t)
		})
	}
}

func TestContextAlreadyDoneAsksNobody(t *testing.T) {
	f := fleet.Start(t, 3)
	l := f.Locker(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for what, lock := range map[string]func() error{
		"Lock":    func() error { _, err := l.Lock(ctx, "n"); return err },
		"TryLock": func() error { _, err := l.TryLock(ctx, "n"); return err },
		"Do":      func() error { return l.Do(ctx, "n", func(context.Context) error { t.Error("called"); return nil }) },
	} {
		if err := lock(); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want %v", what, err, context.Canceled)
		}
	}
	f.WantClean(t)
}

// redsync, fail-fast: a straggling SET landed after Unlock; 19 of 20 were orphaned.
func TestDelayedStragglerLeavesNoOrphans(t *testing.T) {
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t, redlock.WithTTL(long))
	nw.Proxies[4].Delay(faultproxy.Up, 15*time.Millisecond)
	for i := range 1000 {
		k, err := l.TryLock(t.Context(), fmt.Sprintf("n%d", i))
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, k)
	}
	f.WantClean(t)
}

// The straggler is reset in the middle of it: what it was told and did not answer must be undone too.
func TestBrokenStragglerLeavesNoOrphans(t *testing.T) {
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l := nw.Locker(t, redlock.WithTTL(long))
	nw.Proxies[4].Delay(faultproxy.Down, 5*time.Millisecond)
	for i := range 1000 {
		k, err := l.TryLock(t.Context(), fmt.Sprintf("n%d", i))
		if err != nil {
			t.Fatal(err)
		}
		unlock(t, k)
		if i%50 == 25 {
			nw.Proxies[4].Reset()
		}
	}
	f.WantClean(t)
}

// A request that the network delivers long after its sender gave up is undone
// by the release that travels behind it, and disturbs nobody in the meantime.
func TestLateAcquireIsUndoneAndDisturbsNobody(t *testing.T) {
	f := fleet.Start(t, 3)
	nw := f.Network(t)
	late := nw.Locker(t, redlock.WithTTL(long), redlock.WithNodeTimeout(300*time.Millisecond))
	other := f.Locker(t, redlock.WithTTL(long))
	nw.Each(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up) })
	_, err := late.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrNoQuorum)

	k := lock(t, other, "n")
	nw.Heal(t)
	l := lock(t, late, "m") // so the late requests have been carried out
	// A busy machine is late; WantClean is not taken in.
	if err := l.Unlock(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) {
		fleet.Must(t, err)
	}
	fleet.Must(t, k.Extend(t.Context()))
	if got := f.Holders(t, "n", k.Owner()); got != 3 {
		t.Errorf("the other's hold is on %d nodes, want 3", got)
	}
	unlock(t, k)
	f.WantClean(t)
}

// As above, but nobody holds the name when the late acquire lands, and the
// client has replaced its connection by then.
func TestLateAcquireOverAnAbandonedConnectionIsUndone(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 3)
	nw := f.Network(t)
	l := nw.Locker(t, redlock.WithTTL(long), redlock.WithNodeTimeout(250*time.Millisecond))
	nw.Each(func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up) })
	_, err := l.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrNoQuorum)
	time.Sleep(1500 * time.Millisecond) // longer than a node may be silent before its connection is replaced
	nw.Heal(t)
	k := lock(t, l, "m")
	// A busy machine is late; WantClean is not taken in.
	if err := k.Unlock(t.Context()); !errors.Is(err, redlock.ErrNoQuorum) {
		fleet.Must(t, err)
	}
	f.WantClean(t)
}

// Closing does not forget what is to be undone.
func TestCloseLeavesNothingBehind(t *testing.T) {
	f := fleet.Start(t, 5)
	nw := f.Network(t)
	l, err := redlock.New(nw.URLs, redlock.WithTTL(long), redlock.WithNodeTimeout(5*time.Second),
		redlock.WithRestartGuard(0)) // masters that have just been started
	fleet.Must(t, err)
	nw.Proxies[4].Delay(faultproxy.Up, 50*time.Millisecond)
	k, err := l.TryLock(t.Context(), "n")
	fleet.Must(t, err)
	unlock(t, k)
	fleet.Must(t, l.Close())
	f.WantClean(t)
	_, err = l.TryLock(t.Context(), "n")
	wantIs(t, err, redlock.ErrClosed)
}
