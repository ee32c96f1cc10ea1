// No lock can stop a holder that was paused just before it writes. The database can: it keeps the largest token that it
// has seen, and takes nothing that comes with a smaller one.
package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"time"

	_ "modernc.org/sqlite" // a database in this process

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/fence"
	"github.com/quorumlock/redlock/redlocktest"
)

const schema = `
CREATE TABLE stock (item text PRIMARY KEY, units int NOT NULL, last_token bigint NOT NULL DEFAULT 0);
INSERT INTO stock (item, units) VALUES ('4711', 10);`

// Masters that share this process's processors with everything else may take their time.
var patient = redlock.WithNodeTimeout(5 * time.Second)

// under runs a transaction that nobody older than the lock's holder can disturb from now on.
func under(ctx context.Context, db *sql.DB, lock *redlock.Lock, do func(tx *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fence.SQLite.EnterRow(ctx, tx, lock, "stock", "last_token", "item = ?", "4711"); err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func read(ctx context.Context, db *sql.DB, lock *redlock.Lock) (units int, err error) {
	return units, under(ctx, db, lock, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT units FROM stock WHERE item = '4711'").Scan(&units)
	})
}

func write(ctx context.Context, db *sql.DB, lock *redlock.Lock, units int) error {
	return under(ctx, db, lock, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE stock SET units = ? WHERE item = '4711'", units)
		return err
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

func main() {
	masters := must(redlocktest.Start(5)) // stands in for your Redis masters
	defer masters.Close()
	db := must(sql.Open("sqlite", "file:shop?mode=memory&cache=shared"))
	defer db.Close()
	must(db.Exec(schema))
	ctx := context.Background()

	// The first till locks, reads, and falls asleep: a long garbage collection, a suspended machine. Nobody renews its
	// lock.
	first := must(redlock.New(masters.URLs(), patient))
	defer first.Close()
	sleepy := must(first.Lock(ctx, "stock:4711", redlock.WithTTL(time.Second), redlock.WithoutRenewal()))
	had := must(read(ctx, db, sleepy))

	// The second one waits until the lock has run out, and sells one.
	second := must(redlock.New(masters.URLs(), patient))
	defer second.Close()
	awake := must(second.Lock(ctx, "stock:4711"))
	if err := write(ctx, db, awake, must(read(ctx, db, awake))-1); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the second till sold one")

	// The first one wakes up between its check and its write, and goes on with what it had read.
	fmt.Println("the first till's token is smaller:", sleepy.Token() < awake.Token())
	err := write(ctx, db, sleepy, had-1)
	fmt.Println("the first till's write is refused:", errors.Is(err, fence.ErrOvertaken))
	fmt.Println("the second till unlocks:", awake.Unlock())
	fmt.Println("units left:", must(read(ctx, db, awake)))
}
