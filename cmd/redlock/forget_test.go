//go:build unix

package main

import (
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestForget(t *testing.T) {
	c := redlocktest.New(t, 5)
	begin(t, c, "forget", "report").end(exitOK, "report: no run was known\n", "")
	for range 2 {
		begin(t, c, "once", "--max-runs=2", "report", "false").end(1, "", "")
	}
	if got := begin(t, c, "once", "--max-runs=2", "report", "true").code(); got != exitExhausted {
		t.Fatalf("got %d, want 80", got)
	}
	begin(t, c, "forget", "report").end(exitOK, "report: forgotten: 2 runs had begun; the last one failed\n", "")
	running := holding(t, c, "once", "report")
	begin(t, c, "forget", "report").end(exitTaken, "", "redlock: forget report: taken by ")
	running.stdin.Close()
	running.code() // 3
	begin(t, c, "once", "report", "true").end(exitOK, "", "")
	s := begin(t, c, "forget", "--json", "report")
	s.expect("{")
	s.expect(`  "name": "report",`)
	s.expect(`  "forgotten": {`)
	s.expect(`    "begun": 2,`)
	s.expect(`    "last": "done",`)
	s.code()
	begin(t, c, "once", "report", "echo", "again").end(exitOK, "again\n", "")
	begin(t, c, "forget", "report").end(exitOK, "report: forgotten: one run had begun; it succeeded\n", "")
}
