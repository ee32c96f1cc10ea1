package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// What is wrong with a call is said in one line, which has no password in it.
func TestUsage(t *testing.T) {
	files := strings.NewReplacer(
		"{empty}", writeFile(t, "no certificate"), "{long}", strings.Repeat("a", 1025), "{control}", "\x01",
		"{lists}", writeFile(t, "REDLOCK_NODES=app:s3cret@h,g\nREDLOCK_TO=app:other-s3cret@h,f"),
	)
	for at, cells := range cases.Rows(t, "testdata/usage.txt", 2) {
		typed, want := files.Replace(cells[0]), "redlock: "+files.Replace(cells[1])+"\n"
		code, stdout, said := redlocks(t, strings.Fields(typed)...)
		if code != exitUsage || stdout != "" || said != want {
			t.Errorf("%s: got %d, %q, %q, want %q", at, code, stdout, said, want)
		}
	}
}
