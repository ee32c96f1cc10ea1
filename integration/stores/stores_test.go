package stores

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/fence"
	"github.com/quorumlock/redlock/fence/fencetest"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

// dialect is a database with the fence's dialect for it.
type dialect struct {
	fence.SQL
	db        *sql.DB
	item      string // the condition
	isolation sql.IsolationLevel
}

// begin runs a transaction, again if it cannot be serialized.
func (d *dialect) begin(ctx context.Context, do func(tx *sql.Tx) error) error {
	for {
		tx, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: d.isolation})
		if err == nil {
			if err = do(tx); err == nil {
				err = tx.Commit()
			}
			_ = tx.Rollback()
		}
		if err == nil || !strings.Contains(err.Error(), "could not serialize access") {
			return err
		}
	}
}

func holder(token int64) fence.Holder {
	h, err := fence.Parse("stock:4711", strconv.FormatInt(token, 10))
	if err != nil {
		panic(err)
	}
	return h
}

// stock is a table with an item, and how a transaction enters.
type stock struct {
	*dialect
	enter func(ctx context.Context, tx *sql.Tx, h fence.Holder) error
}

func (s *stock) Read(ctx context.Context, h fence.Holder) (value string, err error) {
	return value, s.begin(ctx, func(tx *sql.Tx) error {
		if err := s.enter(ctx, tx, h); err != nil {
			return err
		}
		fencetest.Step(ctx)
		return tx.QueryRowContext(ctx, "SELECT units FROM stock WHERE "+s.item, "4711").Scan(&value)
	})
}

func (s *stock) Write(ctx context.Context, h fence.Holder, value string) error {
	return s.begin(ctx, func(tx *sql.Tx) error {
		if err := s.enter(ctx, tx, h); err != nil {
			return err
		}
		fencetest.Step(ctx)
		_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE stock SET units = '%s' WHERE %s", value, s.item), "4711")
		fencetest.Step(ctx)
		return err
	})
}

// setUp makes the tables.
func (d *dialect) setUp(t *testing.T) {
	t.Helper()
	for _, statement := range []string{
		"DROP TABLE IF EXISTS stock", "DROP TABLE IF EXISTS redlock_fences", d.Table(), d.Table(),
		"CREATE TABLE stock (item varchar(20) PRIMARY KEY, units varchar(99) NOT NULL, last_token bigint NOT NULL DEFAULT 0)",
		"INSERT INTO stock (item, units) VALUES ('4711', '')",
	} {
		if _, err := d.db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func (d *dialect) test(t *testing.T) {
	t.Helper()
	t.Run("table", func(t *testing.T) {
		d.setUp(t)
		fencetest.Run(t, &stock{d, d.Enter})
	})
	t.Run("column", func(t *testing.T) {
		d.setUp(t)
		fencetest.Run(t, &stock{d, func(ctx context.Context, tx *sql.Tx, h fence.Holder) error {
			return d.EnterRow(ctx, tx, h, "stock", "last_token", d.item, "4711")
		}})
	})
	t.Run("errors", d.testErrors)
}

func (d *dialect) testErrors(t *testing.T) {
	d.setUp(t)
	enter := func(ctx context.Context, h fence.Holder) error {
		return d.begin(ctx, func(tx *sql.Tx) error { return d.Enter(ctx, tx, h) })
	}
	ctx := t.Context()
	for _, token := range []int64{7, 7, 9} {
		if err := enter(ctx, holder(token)); err != nil {
			t.Errorf("%d: %v", token, err)
		}
	}
	err := enter(ctx, holder(8))
	if !errors.Is(err, fence.ErrOvertaken) || !errors.Is(err, redlock.ErrLost) ||
		!strings.Contains(err.Error(), "8 is overtaken by 9") {
		t.Errorf("overtaken: %v", err)
	}
	// No collation makes two names one.
	for _, name := range []string{"STOCK:4711", "stock:4711 ", "stöck:4711", "stock:4711\x00"} {
		h, _ := fence.Parse(name, "1")
		if err := enter(ctx, h); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	err = d.begin(ctx, func(tx *sql.Tx) error {
		return d.EnterRow(ctx, tx, holder(7), "stock", "last_token", d.item, "nothing")
	})
	if !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no such row: %v", err)
	}
	if _, err := d.db.Exec("DROP TABLE redlock_fences"); err != nil {
		t.Fatal(err)
	}
	if err := enter(ctx, holder(10)); err == nil || !strings.Contains(err.Error(), "SQL.Table has the statement") {
		t.Errorf("no table: %v", err)
	}
}

// A thousand interleavings of each take minutes: make verify.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("REDLOCK_LONG") == "" {
		flag.Set("test.short", "true")
	}
	m.Run()
}

// said is a test that fails.
type said struct {
	testing.TB
	text string
}

func (s *said) Errorf(format string, args ...any) { s.text = fmt.Sprintf(format, args...) }

// shows checks that a mistake is found. On a machine that is busy enough, each call that meets another may have come to
// its end before.
func (d *dialect) shows(t *testing.T, s fencetest.Store, wanted string) {
	t.Helper()
	for range 20 {
		d.setUp(t)
		result := &said{TB: t}
		fencetest.Run(result, s)
		if t.Log(result.text); strings.Contains(result.text, wanted) {
			return
		}
	}
	t.Errorf("want that it says %q", wanted)
}

// checkedFirst is a mistake: it compares in one transaction, and writes in another.
type checkedFirst struct{ *stock }

func (s checkedFirst) Write(ctx context.Context, h fence.Holder, value string) error {
	err := s.begin(ctx, func(tx *sql.Tx) error { return s.enter(ctx, tx, h) })
	fencetest.Step(ctx)
	if err == nil {
		_, err = s.db.ExecContext(ctx, fmt.Sprintf("UPDATE stock SET units = '%s' WHERE %s", value, s.item), "4711")
	}
	return err
}

// rowsChanged is a mistake: it takes a row that has the value already for one that refuses it.
type rowsChanged struct{ *stock }

func (s rowsChanged) Write(ctx context.Context, h fence.Holder, value string) error {
	r, err := s.db.ExecContext(ctx, "UPDATE stock SET units = ?, last_token = ? WHERE item = ? AND last_token <= ?",
		value, h.Token(), "4711", h.Token())
	if err != nil {
		return err
	}
	if n, err := r.RowsAffected(); n == 0 {
		return cmp.Or(err, fence.ErrOvertaken)
	}
	return nil
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	(&dialect{fence.SQLite, SQLite(t), "item = ?", 0}).test(t)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	db := Postgres(t)
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable} {
		t.Run(level.String(), func(t *testing.T) { (&dialect{fence.Postgres, db, "item = $1", level}).test(t) })
	}
	t.Run("mistake", func(t *testing.T) {
		d := &dialect{fence.Postgres, db, "item = $1", sql.LevelReadCommitted}
		d.shows(t, checkedFirst{&stock{d, d.Enter}}, "LOST")
	})
}

func TestMariaDB(t *testing.T) {
	t.Parallel()
	db := MariaDB(t)
	for _, level := range []sql.IsolationLevel{sql.LevelReadCommitted, sql.LevelRepeatableRead} {
		t.Run(level.String(), func(t *testing.T) { (&dialect{fence.MySQL, db, "item = ?", level}).test(t) })
	}
	t.Run("mistake", func(t *testing.T) {
		d := &dialect{fence.MySQL, db, "item = ?", sql.LevelReadCommitted}
		d.shows(t, rowsChanged{&stock{d, func(ctx context.Context, tx *sql.Tx, h fence.Holder) error {
			return d.EnterRow(ctx, tx, h, "stock", "last_token", d.item, "4711")
		}}}, "the holder of the lock was refused")
	})
}

// shelf is a key of a Redis.
type shelf struct{ pool *redis.Pool }

func (s shelf) Read(ctx context.Context, h fence.Holder) (string, error) {
	return fence.RedisGet(ctx, s.pool, h, "stock")
}

func (s shelf) Write(ctx context.Context, h fence.Holder, value string) error {
	return fence.RedisSet(ctx, s.pool, h, "stock", value)
}

func TestRedis(t *testing.T) {
	t.Parallel()
	p, err := masters.Choose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes := masters.Start(t, p, 1, masters.Spec{})
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return redis.DialURLContext(ctx, masters.URLs(nodes)[0])
	}}
	defer pool.Close()
	fencetest.Run(t, shelf{pool})
	ctx := t.Context()
	const most = 1<<53 - 1
	sum, err := redis.Int(fence.RedisDo(ctx, pool, holder(most), "return #KEYS * 10 + #ARGV", []string{"a", "b"}, 1, 2, 3))
	if err != nil || sum != 23 {
		t.Errorf("a script finds its own keys and arguments: %d, %v", sum, err)
	}
	_, err = fence.RedisDo(ctx, pool, holder(most-1), "return 1", nil)
	if !errors.Is(err, fence.ErrOvertaken) || !strings.Contains(err.Error(), fmt.Sprint("overtaken by ", most)) {
		t.Errorf("overtaken: %v", err)
	}
	_, err = fence.RedisDo(ctx, pool, holder(most), "return 1 +", nil)
	if err == nil || errors.Is(err, fence.ErrOvertaken) {
		t.Errorf("a script that is none: %v", err)
	}
}

// What docs/fencing.md says of psql: a command that redlock run has started writes, unless it is late.
func TestTheRecipeForAShell(t *testing.T) {
	t.Parallel()
	db, at := PostgresAt(t)
	d := &dialect{fence.Postgres, db, "item = $1", sql.LevelDefault}
	d.setUp(t)
	if _, err := db.Exec("UPDATE stock SET units = 10"); err != nil {
		t.Fatal(err)
	}
	page := cases.Must(os.ReadFile("../../docs/fencing.md"))(t)
	_, script, _ := strings.Cut(string(page), "```sql\nBEGIN;")
	script, _, found := strings.Cut("BEGIN;"+script, "```")
	if !found {
		t.Fatal("docs/fencing.md has no such script")
	}
	for _, of := range []struct {
		token string
		code  int
	}{{"7", 0}, {"9", 0}, {"8", 3}} {
		psql := exec.Command("psql", "-X", "-q", "-h", at, "-U", "redlock", "-d", "postgres",
			"-v", "ON_ERROR_STOP=1", "-v", "token="+of.token, "-f", "-")
		psql.Stdin = strings.NewReader(script)
		out, _ := psql.CombinedOutput() // the code says it
		if got := psql.ProcessState.ExitCode(); got != of.code {
			t.Errorf("token %s: psql ends with %d, want %d: %s", of.token, got, of.code, out)
		}
	}
	var units string
	if err := db.QueryRow("SELECT units FROM stock").Scan(&units); err != nil || units != "8" {
		t.Errorf("got %q, %v, want 8 units", units, err)
	}
}
