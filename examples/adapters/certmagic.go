package adapters

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/quorumlock/redlock"
)

// CertMagic is your certmagic.Storage with other locks: certmagic.Config{Storage: &CertMagic{Storage: …, Locker: …}}.
//
// A lost lock does not stop the order of a certificate that is under way: certmagic has no way to. Before it tries
// again it renews the lease, and then CertMagic takes the lock anew; where another has it, the attempt is left out, and
// the next one finds the other's certificate. Unlock returns redlock.ErrLost, which certmagic logs. Each hold is
// renewed until then, so the TTL need not be as long as an order: the default, 10 s, is how long a crash stops others.
type CertMagic struct {
	certmagic.Storage

	Locker *redlock.Locker

	mu   sync.Mutex      // guards the field below
	held []*redlock.Lock // of one name, all but the last were lost, and their callers have yet to unlock
}

// Lock implements certmagic.Locker.
func (c *CertMagic) Lock(ctx context.Context, name string) error {
	return c.keep(c.Locker.Lock(ctx, "certmagic:"+name))
}

// TryLock implements certmagic.TryLocker.
func (c *CertMagic) TryLock(ctx context.Context, name string) (bool, error) {
	err := c.keep(c.Locker.TryLock(ctx, "certmagic:"+name))
	if errors.Is(err, redlock.ErrTaken) {
		return false, nil
	}
	return err == nil, err
}

func (c *CertMagic) keep(lock *redlock.Lock, err error) error {
	if err == nil {
		c.mu.Lock()
		c.held = append(c.held, lock)
		c.mu.Unlock()
	}
	return err
}

// RenewLockLease implements certmagic.LockLeaseRenewer. A hold renews itself; one that was lost is taken anew.
func (c *CertMagic) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	c.mu.Lock()
	lasts := slices.ContainsFunc(c.held, func(k *redlock.Lock) bool {
		return k.Name() == "certmagic:"+name && k.Err() == nil
	})
	c.mu.Unlock()
	if lasts {
		return nil
	}
	err := c.keep(c.Locker.TryLock(ctx, "certmagic:"+name))
	if err == nil {
		_ = c.Unlock(ctx, name) // the lost one
	}
	return err
}

// Unlock implements certmagic.Locker. It cannot see which caller it is of those that have lost the lock one after the
// other. So it begins with the oldest hold: the one that lasts is freed when the last of them has stopped.
func (c *CertMagic) Unlock(_ context.Context, name string) error {
	c.mu.Lock()
	i := slices.IndexFunc(c.held, func(k *redlock.Lock) bool { return k.Name() == "certmagic:"+name })
	if i < 0 {
		c.mu.Unlock()
		return nil
	}
	lock := c.held[i]
	c.held = slices.Delete(c.held, i, i+1)
	c.mu.Unlock()
	return lock.Unlock()
}
