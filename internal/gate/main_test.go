package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestFailures(t *testing.T) {
	const (
		failsA = "--- FAIL: TestA (0.00s)\n    a_test.go:16: too slow\n"
		dies   = "FAIL\tm/p\t0.013s\n"
		ends   = "FAIL\n" + dies
	)
	for name, c := range map[string]struct{ said, want string }{
		"a test": {failsA + ends, "m/p.TestA"},
		"a subtest": {
			"--- FAIL: TestA (0.01s)\n    --- FAIL: TestA/b (0.01s)\n        a_test.go:1: c\n" + ends,
			"m/p.TestA",
		},
		"a test behind an output": {
			"some text--- FAIL: ExampleA (0.00s)\ngot:\ntrue\nwant:\nfalse\n" + ends,
			"m/p.ExampleA",
		},
		"tests of two packages": {
			"ok  \tm/n\t0.1s\n" + failsA + "--- FAIL: TestB (0.00s)\n" + ends + failsA + "FAIL\nFAIL\tm/q\t0.1s\nFAIL\n",
			"m/p.TestA m/p.TestB m/q.TestA",
		},
		"a violation of safety": {
			"--- FAIL: TestA (0.00s)\n    a_test.go:7: SAFETY VIOLATION: two holders\n" + ends,
			"never run again: a_test.go:7: SAFETY VIOLATION: two holders",
		},
		"a data race": {
			"==================\nWARNING: DATA RACE\nRead\n" + failsA + ends,
			"never run again: WARNING: DATA RACE",
		},
		"a panic":                  {failsA + "panic: oops\n\ngoroutine 5:\n" + dies, "never run again: panic: oops"},
		"a time-out":               {failsA + "panic: test timed out\n" + dies, "never run again: panic: test timed out"},
		"a fatal error":            {failsA + "fatal error: deadlock\n" + dies, "never run again: fatal error: deadlock"},
		"a process that is killed": {failsA + "signal: killed\n" + dies, "never run again: signal: killed"},
		"a process that gives up":  {failsA + dies, "m/p failed as a whole"},
		"TestMain":                 {"install redis-server\n" + dies, "m/p failed as a whole"},
		"a build beside a test":    {failsA + ends + "FAIL\tm/q [build failed]\nFAIL\n", "m/q failed as a whole"},
		"a pattern of no package":  {"FAIL\t./q [setup failed]\n", "./q failed as a whole"},
		"go test itself":           {"", "no test failed, but go test did"},
	} {
		t.Run(name, func(t *testing.T) {
			failed, err := failures(c.said)
			var got []string
			for _, f := range failed {
				got = append(got, f.String())
			}
			if err != nil {
				got = append(got, err.Error())
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// With a real go test, in a module of its own. Some of what a package does wrong it does only the first time.
func TestJudge(t *testing.T) {
	const flaky = `func TestFlaky(t *testing.T) {
	if been() {
		t.Error("for the first time")
	}
}
`
	for name, c := range map[string]struct{ source, want string }{
		"passes the second time": {flaky + `func Example() {
	fmt.Println(been())
	// Output: false
}`, "[m.TestFlaky m.Example]"},
		"fails twice":         {`func TestFlaky(t *testing.T) { t.Error() }`, "m.TestFlaky failed twice"},
		"may not be repeated": {flaky + `func TestOther(t *testing.T) { t.Error() }`, "m.TestOther may not be repeated"},
		"is skipped at last": {`func TestFlaky(t *testing.T) {
	if !been() {
		t.Skip()
	}
	t.Error()
}`, "m.TestFlaky failed twice"},
		"killed behind a test": {flaky + `func TestKill(*testing.T) {
	p, _ := os.FindProcess(os.Getpid())
	p.Kill()
	select {}
}`, "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, "go.mod"), "module m\n\ngo 1.25\n")
			write(t, filepath.Join(dir, "m_test.go"), `package m

import (
	"fmt"
	"os"
	"testing"
)

var n int

func been() bool { n++; return os.Mkdir(fmt.Sprint("been", n), 0o700) == nil }

`+c.source+"\n")
			got, err := judge([]string{"-C=" + dir, "."}, regexp.MustCompile(`^m\.(TestFlaky|Example)$`),
				func(args []string) (string, error) { return goTest(t.Context(), args) })
			if err == nil && fmt.Sprint(got) != c.want || err != nil && !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("got %v, %v, want %s", got, err, c.want)
			}
		})
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	cases.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}
