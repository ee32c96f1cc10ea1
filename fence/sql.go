package fence

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
)

// SQL is a database's dialect. Two tokens of one hold are equal, so a hold may have any number of transactions.
type SQL struct {
	table    string
	raise    string // the mark of a name in the table of fences
	greatest string // function
	numbered bool   // parameters are $1, $2, …
	lock     string // what makes a SELECT see what others have written since the transaction's first one
}

// The dialects. MySQL is also MariaDB's.
var (
	Postgres = SQL{
		table: "CREATE TABLE IF NOT EXISTS redlock_fences (name bytea PRIMARY KEY, token bigint NOT NULL)",
		raise: "INSERT INTO redlock_fences AS f (name, token) VALUES ($1, $2) " +
			"ON CONFLICT (name) DO UPDATE SET token = GREATEST(f.token, EXCLUDED.token)",
		greatest: "GREATEST",
		numbered: true,
	}
	MySQL = SQL{
		table: "CREATE TABLE IF NOT EXISTS redlock_fences " +
			"(name varbinary(512) PRIMARY KEY, token bigint NOT NULL) ENGINE=InnoDB",
		raise: "INSERT INTO redlock_fences (name, token) VALUES (?, ?) " +
			"ON DUPLICATE KEY UPDATE token = GREATEST(token, VALUES(token))",
		greatest: "GREATEST",
		lock:     " FOR UPDATE",
	}
	SQLite = SQL{
		table: "CREATE TABLE IF NOT EXISTS redlock_fences (name blob PRIMARY KEY, token integer NOT NULL) WITHOUT ROWID",
		raise: "INSERT INTO redlock_fences (name, token) VALUES (?, ?) " +
			"ON CONFLICT (name) DO UPDATE SET token = max(token, excluded.token)",
		greatest: "max",
	}
)

// Table returns the statement that makes the table of fences, if there is none yet: for your migrations. It has a row
// for each name that was ever locked by whoever writes. A row that is deleted lets the late in.
func (d SQL) Table() string { return d.table }

// Enter is the first call of a transaction that works under a lock. It raises the mark of the lock's name in the table
// of fences, and leaves that row locked until the transaction ends: so all that the transaction reads and writes is
// protected. If the holder is late, the error satisfies errors.Is for [ErrOvertaken]: roll back. Else commit, also if
// the transaction only reads: a rollback takes the mark back.
//
// A later holder's Enter waits for the end of a transaction that is under way, also of one whose process is paused:
// give the database a limit for that (idle_in_transaction_session_timeout; wait_timeout). SQLite waits if it is told to
// (busy_timeout). Where transactions are serializable or read a snapshot, Enter may fail as any write may, and the
// transaction is to be repeated.
func (d SQL) Enter(ctx context.Context, tx *sql.Tx, h Holder) error {
	if err := check(h); err != nil {
		return err
	}
	name := []byte(h.Name()) // bytes: no collation makes two names one
	if _, err := tx.ExecContext(ctx, d.raise, name, h.Token()); err != nil {
		if strings.Contains(err.Error(), "redlock_fences") {
			err = fmt.Errorf("%w (SQL.Table has the statement that makes the table)", err)
		}
		return failed(h, err)
	}
	return d.compare(ctx, tx, h, "SELECT token FROM redlock_fences WHERE name = "+d.parameter(1), name)
}

// EnterRow is Enter for a mark beside the data: in a column of the rows that a condition selects, which stay locked and
// are protected, and nothing else. The column is a bigint NOT NULL DEFAULT 0. The condition may have parameters, as
// "item = $1" or "item = ?"; table, column and condition are part of the statement, so they must not come from others.
// Insert the row first: if there is none, the error satisfies errors.Is for [sql.ErrNoRows].
func (d SQL) EnterRow(
	ctx context.Context, tx *sql.Tx, h Holder, table, column, condition string, args ...any,
) error {
	if err := check(h); err != nil {
		return err
	}
	all := append([]any{h.Token()}, args...)
	if d.numbered {
		all = append(slices.Clip(args), h.Token())
	}
	raise := fmt.Sprintf("UPDATE %s SET %s = %s(%[2]s, %[4]s) WHERE %s",
		table, column, d.greatest, d.parameter(len(all)), condition)
	if _, err := tx.ExecContext(ctx, raise, all...); err != nil {
		return failed(h, err)
	}
	return d.compare(ctx, tx, h, fmt.Sprintf("SELECT max(%s) FROM %s WHERE %s", column, table, condition), args...)
}

// parameter returns the place of the nth parameter.
func (d SQL) parameter(n int) string {
	if d.numbered {
		return fmt.Sprint("$", n)
	}
	return "?"
}

// compare compares the holder's token with the mark that a query selects.
func (d SQL) compare(ctx context.Context, tx *sql.Tx, h Holder, query string, args ...any) error {
	var mark sql.NullInt64
	err := tx.QueryRowContext(ctx, query+d.lock, args...).Scan(&mark)
	if err == nil && !mark.Valid {
		err = sql.ErrNoRows
	}
	if err != nil {
		return failed(h, err)
	}
	return pass(h, mark.Int64)
}
