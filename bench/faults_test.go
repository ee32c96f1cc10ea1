package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
)

func TestEveryFaultIsComplete(t *testing.T) {
	tests := testNames(t)
	seen := map[string]bool{}
	for _, f := range faults {
		if seen[f.name] || !regexp.MustCompile(`^[a-z]+(-[a-z]+)+$`).MatchString(f.name) {
			t.Errorf("%q: want a name of its own, in lower case", f.name)
		}
		seen[f.name] = true
		if !strings.HasSuffix(f.about, ".") && !strings.HasSuffix(f.about, ".)") || !strings.HasSuffix(f.want, ".") {
			t.Errorf("%s: want sentences, got %q and %q", f.name, f.about, f.want)
		}
		if f.meet == nil || len(f.peers) == 0 || f.ours.module != ourModule {
			t.Errorf("%s: want peers and redlock, got %d peers and %q", f.name, len(f.peers), f.ours.module)
		}
		setups := map[string]bool{}
		for _, s := range f.subjects() {
			if s.name == "" || s.module == "" || s.config == "" || s.nodes < 1 || s.open == nil {
				t.Errorf("%s: something is missing: %+v", f.name, s)
			}
			if s.client != "" && clientNames[s.client] == "" {
				t.Errorf("%s: the client %s has no name", f.name, s.client)
			}
			if one := s.String(); setups[one] {
				t.Errorf("%s: two subjects are %q", f.name, one)
			} else {
				setups[one] = true
			}
		}
		if len(f.tests) == 0 {
			t.Errorf("%s: which tests rule it out?", f.name)
		}
		for _, name := range f.tests {
			if !tests[name] {
				t.Errorf("%s: there is no test %s", f.name, name)
			}
		}
	}
}

// testNames are the names of all tests in the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err := filepath.WalkDir("..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range function.FindAllSubmatch(text, -1) {
			names[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A test's own build information has no dependencies, so both are seen from outside.
func TestTheProgramTellsVersionsAndRunsAFault(t *testing.T) {
	program := filepath.Join(t.TempDir(), "peers")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	list := cases.Must(exec.Command(program, "-list").Output())(t)
	for _, f := range faults {
		for _, s := range f.subjects() {
			want := s.name + " of this checkout"
			if s.module != ourModule {
				want = s.name + " " + required(t, s.module)
			}
			if s.client != "" {
				want += " with " + clientNames[s.client] + " " + required(t, s.client)
			}
			if !strings.Contains(string(list), want) {
				t.Errorf("-list: want %q in it, got:\n%s", want, list)
			}
		}
	}

	// It has no time in it that could be too short.
	out, err := exec.Command(program, "-faults", "^bsm-owner-prefix$").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = "worker-1's attempt: ErrTaken; worker-12's extension: no error"
	if !strings.Contains(string(out), "\n       "+want+"\n") {
		t.Errorf("got:\n%s\nwant %q in it", out, want)
	}
}

// required is a module's version in go.mod.
func required(t *testing.T, module string) string {
	t.Helper()
	text := cases.Must(os.ReadFile("go.mod"))(t)
	m := regexp.MustCompile(`\s` + regexp.QuoteMeta(module) + ` v(\S+)`).FindSubmatch(text)
	if m == nil {
		t.Fatalf("go.mod does not require %s", module)
	}
	return string(m[1])
}

func TestUnknownFault(t *testing.T) {
	if _, err := chooseFaults("^nothing$"); err == nil {
		t.Error("got no error")
	}
	if got, err := chooseFaults("^bsm-"); err != nil || len(got) != 2 {
		t.Errorf("got %d faults, %v; want 2", len(got), err)
	}
}

func TestFigure(t *testing.T) {
	for d, want := range map[time.Duration]string{
		210 * time.Microsecond:   "0.2 ms",
		9940 * time.Microsecond:  "9.9 ms",
		9960 * time.Microsecond:  "10 ms",
		949 * time.Millisecond:   "949 ms",
		951 * time.Millisecond:   "1.0 s",
		15020 * time.Millisecond: "15.0 s",
	} {
		cases.Equals(t, figure(d), want, "%v", d)
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
