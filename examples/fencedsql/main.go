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
	"github.com/quorumlock/redlock/redlocktest"
)

const schema = `
CREATE TABLE stock (item text PRIMARY KEY, units int NOT NULL, last_token bigint NOT NULL DEFAULT 0);
INSERT INTO stock (item, units) VALUES ('4711', 10);`

var errStale = errors.New("refused: somebody with a larger token was here")

// Masters that share this process's processors with everything else may take their time.
var patient = redlock.WithNodeTimeout(5 * time.Second)

// read returns the units, and lets nobody older in from now on.
func read(ctx context.Context, db *sql.DB, token int64) (units int, err error) {
	err = db.QueryRowContext(ctx,
		`UPDATE stock SET last_token = $1 WHERE item = '4711' AND last_token <= $1 RETURNING units`, token).Scan(&units)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errStale
	}
	return units, err
}

// write sets the units, unless somebody younger was here.
func write(ctx context.Context, db *sql.DB, token int64, units int) error {
	result, err := db.ExecContext(ctx,
		`UPDATE stock SET units = $1, last_token = $2 WHERE item = '4711' AND last_token <= $2`, units, token)
	if err != nil {
		return err
	}
	if rows, err := result.RowsAffected(); err != nil || rows == 0 {
		return errors.Join(err, errStale)
	}
	return nil
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
	had := must(read(ctx, db, sleepy.Token()))

	// The second one waits until the lock has run out, and sells one.
	second := must(redlock.New(masters.URLs(), patient))
	defer second.Close()
	awake := must(second.Lock(ctx, "stock:4711"))
	if err := write(ctx, db, awake.Token(), must(read(ctx, db, awake.Token()))-1); err != nil {
		log.Fatal(err)
	}
	fmt.Println("the second till sold one")

	// The first one wakes up between its check and its write, and goes on with what it had read.
	fmt.Println("the first till's token is smaller:", sleepy.Token() < awake.Token())
	fmt.Println("the first till's write:", write(ctx, db, sleepy.Token(), had-1))
	fmt.Println("the second till unlocks:", awake.Unlock())
	fmt.Println("units left:", must(read(ctx, db, awake.Token())))
}
