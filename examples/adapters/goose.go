package adapters

import (
	"context"
	"database/sql"

	"github.com/quorumlock/redlock"
)

// Goose is a lock.Locker of goose, for databases whose own locks it does not know: give it to goose.WithLocker.
//
// Goose has no way to tell its migrations of a lost lock: Up goes on, beside another process perhaps, and returns
// redlock.ErrLost in the end. Where that does harm, call EndWith in Lock: then the process ends with the hold, and the
// database rolls its transaction back. A TTL as long as redlock.WithMaxTTL, 30 s, makes a loss rare; the next
// deployment waits for it after a crash.
type Goose struct {
	locker *redlock.Locker
	name   string
	opts   []redlock.LockOption
	held   chan *redlock.Lock // one: a caller that has lost the lock unlocks before the next of this process begins
}

// NewGoose returns a lock.Locker. The name is the database's.
func NewGoose(l *redlock.Locker, name string, opts ...redlock.LockOption) *Goose {
	return &Goose{locker: l, name: "goose:" + name, opts: opts, held: make(chan *redlock.Lock, 1)}
}

// Lock waits for the lock until ctx is done.
func (g *Goose) Lock(ctx context.Context, _ *sql.DB) error {
	lock, err := g.locker.Lock(ctx, g.name, g.opts...)
	if err == nil {
		g.held <- lock
	}
	return err
}

// Unlock returns redlock.ErrLost if the migrations may have run unprotected.
func (g *Goose) Unlock(context.Context, *sql.DB) error { return (<-g.held).Unlock() }
