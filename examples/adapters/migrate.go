package adapters

import (
	"context"
	"errors"
	"time"

	"github.com/golang-migrate/migrate/v4/database"

	"github.com/quorumlock/redlock"
)

// Migrate is a database.Driver of golang-migrate with another lock: migrate.NewWithDatabaseInstance(source, "…",
// &Migrate{Driver: …, Locker: locker, Name: "shop"}).
//
// After the loss of the lock no migration begins: Up returns redlock.ErrLost. The one that is under way ends; until
// then the version is dirty, at which whoever has the lock by now stops, too. Then make a new migrate.Migrate: after an
// Unlock that failed, it does not lock again.
//
// Lock waits for 12 s, less than migrate.DefaultLockTimeout, 15 s: golang-migrate never unlocks what comes later. A
// TTL shorter than both, such as the default, 10 s, lets a deployment succeed after a crash.
type Migrate struct {
	database.Driver

	Locker  *redlock.Locker
	Name    string
	Options []redlock.LockOption

	lock *redlock.Lock
}

// Lock returns database.ErrLocked where another migrates.
func (m *Migrate) Lock() error {
	opts := append([]redlock.LockOption{redlock.WithMaxWait(12 * time.Second)}, m.Options...)
	lock, err := m.Locker.Lock(context.Background(), "migrate:"+m.Name, opts...)
	if errors.Is(err, redlock.ErrTaken) {
		return errors.Join(database.ErrLocked, err)
	}
	m.lock = lock
	return err
}

// Unlock returns redlock.ErrLost if the lock was lost.
func (m *Migrate) Unlock() error { return m.lock.Unlock() }

// SetVersion begins a migration, if dirty, and ends it otherwise.
func (m *Migrate) SetVersion(version int, dirty bool) error {
	if err := m.lock.Err(); dirty && err != nil {
		return err
	}
	return m.Driver.SetVersion(version, dirty)
}
