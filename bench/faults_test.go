package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
)

// A test's own build information has no dependencies, so versions are seen from outside.
func TestTheProgramTellsVersionsAndRunsAFault(t *testing.T) {
	program := filepath.Join(t.TempDir(), "bench")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list := string(cases.Must(exec.Command(program, "-list").Output())(t))
	ours, theirs := "redlock of this checkout;", regexp.MustCompile(`redsync \d\S+ with redigo \d\S+;`)
	if !strings.Contains(list, ours) || !theirs.MatchString(list) || strings.Contains(list, "unknown") {
		t.Errorf("-list: want versions in it, got:\n%s", list)
	}

	// It has no time in it that could be too short.
	out := cases.Must(exec.Command(program, "-faults", "^bsm-owner-prefix$").CombinedOutput())(t)
	if attempt(func() { chooseFaults("^nothing$") }) == nil {
		t.Error("an unknown fault: got no error")
	}
	const want = "worker-1's attempt: ErrTaken; worker-12's extension: no error"
	if !strings.Contains(string(out), "\n       "+want+"\n") {
		t.Errorf("got:\n%s\nwant %q in it", out, want)
	}
}

func TestBrief(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "no error"},
		{errors.Join(errors.New("a: read tcp 127.0.0.1:1->127.0.0.1:2: i/o timeout"), errors.New("b")), "a: i/o timeout; b"},
		{redis.Error("ERR invalid expire time script: 80a1, on @user_script:2."), "ERR invalid expire time"},
		{fmt.Errorf("redlock: lock n: %w", redlock.ErrTaken), "ErrTaken"},
		{
			fmt.Errorf("redlock: lock n: %w, %w", redlock.ErrNoQuorum, context.DeadlineExceeded),
			"ErrNoQuorum and context.DeadlineExceeded",
		},
	} {
		cases.Equals(t, brief(c.err), c.want, "%v", c.err)
	}
}
