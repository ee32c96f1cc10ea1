package adapters

import (
	"context"
	"errors"

	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/quorumlock/redlock"
)

// Tusd is the handler.Locker of tusd: composer.UseLocker(Tusd{locker}). One request at a time has an upload, and is
// asked to stop when another one wants it.
//
// A lost lock interrupts the request: the client asks for the offset, and goes on from there. What the request was just
// writing may still be written. A crash keeps an upload locked for the rest of the TTL: choose less
// than AcquireLockTimeout, 20 s, for which another request waits. The default, 10 s, is.
type Tusd struct{ Locker *redlock.Locker }

// NewLock implements handler.Locker.
func (t Tusd) NewLock(id string) (handler.Lock, error) { return &upload{Tusd: t, id: id}, nil }

type upload struct {
	Tusd

	id   string
	lock *redlock.Lock
}

func (u *upload) Lock(ctx context.Context, requestUnlock func()) (err error) {
	u.lock, err = u.Locker.Lock(ctx, "tusd:"+u.id)
	switch lock := u.lock; {
	case err == nil:
		go func() { // ends with the hold
			<-lock.Wanted() // or done
			if !errors.Is(lock.Err(), redlock.ErrUnlocked) {
				requestUnlock()
			}
		}()
	case ctx.Err() != nil:
		return handler.ErrLockTimeout
	}
	return err
}

func (u *upload) Unlock() error { return u.lock.Unlock() }
