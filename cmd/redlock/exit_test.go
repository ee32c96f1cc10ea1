package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/demo"
	"github.com/quorumlock/redlock/internal/cases"
)

func TestCodeOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want exitCode
	}{
		{nil, 0},
		{usagef("x"), 64},
		{&failure{code: 7}, 7},
		{fmt.Errorf("y: %w", redlock.ErrInvalid), 64},
		{fmt.Errorf("y: %w", redlock.ErrNoQuorum), 69},
		{fmt.Errorf("y: %w", redlock.ErrTaken), 75},
		{fmt.Errorf("y: %w", redlock.ErrLost), 79},
		{fmt.Errorf("y: %w", redlock.ErrMaxHold), 79},
		{fmt.Errorf("y: %w", redlock.ErrRunsExhausted), 80},
		{demo.ErrNotHeld, 1},
		{redlock.ErrClosed, 70},
		{io.ErrUnexpectedEOF, 70},
		// When the wait ends, the reason of the last attempt decides.
		{errors.Join(redlock.ErrNoQuorum, context.DeadlineExceeded), 69},
		{errors.Join(redlock.ErrTaken, context.DeadlineExceeded), 75},
		{context.DeadlineExceeded, 75},
		{errors.Join(redlock.ErrNoQuorum, redlock.ErrLost), 69},
		{errors.Join(redlock.ErrLost, redlock.ErrNoQuorum), 69},
		{errors.Join(redlock.ErrLost, redlock.ErrTaken), 75},
		{notRunnable("x", exec.ErrNotFound), 127},
		{notRunnable("x", &fs.PathError{Op: "fork/exec", Path: "x", Err: fs.ErrNotExist}), 127},
		{notRunnable("x", &exec.Error{Name: "x", Err: fs.ErrPermission}), 126},
	} {
		cases.Equals(t, codeOf(c.err), c.want, "codeOf(%v)", c.err)
	}
}

func TestComplaintIsOneLine(t *testing.T) {
	err := errors.Join(errors.New("redlock: lock a 5 s: taken by b, 9.1 s left"), errors.New("two"))
	cases.Equals(t, complaint(err), "lock a 5 s: taken by b, 9.1s left; two", "complaint") // as in tables; the name stays
	if got := complaint(nil); got != "" {
		t.Errorf("no error: got %q, want nothing", got)
	}
}

// What the library says to people who write Go has words for those who have flags.
func TestRemediesAreInOurWords(t *testing.T) {
	text := cases.Must(os.ReadFile("../../internal/diagnosis/testdata/findings.txt"))(t)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "remedy ") || strings.HasPrefix(line, "finds ") {
			if said := inOurWords(line); regexp.MustCompile(`NodeConfig|With[A-Z]|\d m?s\b`).MatchString(said) {
				t.Errorf("%s: %s", line, said)
			}
		}
	}
}
