package fencetest_test

import (
	"context"
	"database/sql"
	"testing"

	"github.com/quorumlock/redlock/fence"
	"github.com/quorumlock/redlock/fence/fencetest"
)

// stock is a table with one item.
type stock struct{ db *sql.DB }

// under runs a transaction under a lock.
func (s stock) under(ctx context.Context, h fence.Holder, do func(tx *sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fence.SQLite.Enter(ctx, tx, h); err != nil {
		return err
	}
	fencetest.Step(ctx)
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func (s stock) Read(ctx context.Context, h fence.Holder) (units string, err error) {
	return units, s.under(ctx, h, func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT units FROM stock WHERE item = 4711").Scan(&units)
	})
}

func (s stock) Write(ctx context.Context, h fence.Holder, units string) error {
	return s.under(ctx, h, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE stock SET units = ? WHERE item = 4711", units)
		return err
	})
}

// A store in SQL. In the program, the holder is a *redlock.Lock.
func ExampleRun() {
	test := func(t *testing.T, db *sql.DB) { // with the row, and the table of fences
		fencetest.Run(t, stock{db})
	}
	_ = test
}
