package main

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// said is the output of go test -json for one package with one test.
func said(output ...string) string {
	var b strings.Builder
	for _, o := range output {
		b.WriteString(o + "\n")
	}
	return b.String()
}

const (
	begins = `{"Action":"start","Package":"m/p"}` + "\n" + `{"Action":"run","Package":"m/p","Test":"TestA"}`
	fails  = failsA + "\n" + `{"Action":"output","Package":"m/p","Output":"FAIL\tm/p\t1s\n"}` + "\n" + failed
	passes = `{"Action":"pass","Package":"m/p","Test":"TestA"}` + "\n" +
		`{"Action":"output","Package":"m/p","Output":"PASS\n"}` + "\n" +
		`{"Action":"output","Package":"m/p","Output":"ok  \tm/p\t1s\n"}` + "\n" + passed
	complains = `{"Action":"output","Package":"m/p","Test":"TestA/sub","Output":"    a_test.go:7: too slow\n"}` + "\n" +
		`{"Action":"fail","Package":"m/p","Test":"TestA/sub"}`

	// Single lines of them.
	failsA  = `{"Action":"fail","Package":"m/p","Test":"TestA"}`
	beginsB = `{"Action":"run","Package":"m/p","Test":"TestB"}`
	failed  = `{"Action":"fail","Package":"m/p"}`
	passed  = `{"Action":"pass","Package":"m/p"}`
)

func prints(text string) string {
	return `{"Action":"output","Package":"m/p","Test":"TestA","Output":"` + text + `\n"}`
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		runs  []string // the outputs of go test, one for each run
		none  bool     // no test may be repeated
		ok    bool
		flaky bool
		print string
	}{
		"all well": {runs: []string{said(begins, passes)}, ok: true, print: "ok  \tm/p\t1s\n"},
		"passes the second time": {
			runs: []string{said(begins, complains, fails), said(begins, passes)},
			ok:   true, flaky: true, print: "FLAKY: m/p.TestA passed only the second time",
		},
		"fails twice": {
			runs:  []string{said(begins, complains, fails), said(begins, complains, fails)},
			print: "too slow",
		},
		"may not be repeated":          {runs: []string{said(begins, complains, fails)}, none: true, print: "too slow"},
		"is not there the second time": {runs: []string{said(begins, complains, fails), said(passed)}},
		"a violation of safety": {
			runs:  []string{said(begins, prints("    a_test.go:7: SAFETY VIOLATION: two holders"), fails)},
			print: "m/p: never run again: a_test.go:7: SAFETY VIOLATION",
		},
		"a data race": {
			runs:  []string{said(begins, prints("WARNING: DATA RACE"), fails)},
			print: "never run again",
		},
		"a panic, or a time-out": {
			runs:  []string{said(begins, prints("panic: test timed out after 10m0s"), fails)},
			print: "never run again: panic:",
		},
		"a panic behind a failure": {
			runs: []string{said(begins, complains, failsA, beginsB,
				`{"Action":"output","Package":"m/p","Test":"TestB","Output":"panic: test timed out after 10m0s\n"}`, failed)},
			print: "never run again: panic:",
		},
		"killed behind a failure": {
			runs: []string{said(begins, complains, failsA, beginsB,
				`{"Action":"output","Package":"m/p","Output":"signal: killed\n"}`, failed)},
			print: "m/p.TestB has not ended",
		},
		"does not build": {
			runs: []string{said(`{"ImportPath":"m/p","Action":"build-output","Output":"a.go:1:1: no\n"}`,
				`{"ImportPath":"m/p","Action":"build-fail"}`,
				`{"Action":"fail","Package":"m/p","FailedBuild":"m/p"}`)},
			print: "a.go:1:1: no",
		},
		"TestMain fails": {
			runs:  []string{said(`{"Action":"output","Package":"m/p","Output":"install redis-server\n"}`, failed)},
			print: "install redis-server",
		},
		"a race after the last test": {
			runs: []string{said(begins, passes,
				`{"Action":"output","Package":"m/q","Output":"WARNING: DATA RACE\n"}`,
				`{"Action":"fail","Package":"m/q"}`)},
			print: "m/q: never run again: WARNING: DATA RACE",
		},
		"what it says is no JSON at all": {runs: []string{"go: no modules\n"}, print: "go test -json"},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			var asked [][]string
			g := gate{out: &out, repeatable: regexp.MustCompile(`m/p\.TestA$`), noRepeats: c.none}
			g.run = func(args []string, read func(io.Reader) error) (bool, error) {
				text := c.runs[len(asked)]
				asked = append(asked, args)
				err := read(strings.NewReader(text))
				return err == nil && !strings.Contains(text, `"fail"`), err
			}
			if got := g.judge([]string{"-race", "-p=2", "./..."}); got != c.ok || (len(g.flaky) > 0) != c.flaky {
				t.Errorf("got %t with flaky %q, want %t; it printed:\n%s", got, g.flaky, c.ok, out.String())
			}
			if !strings.Contains(out.String(), c.print) {
				t.Errorf("want %q in:\n%s", c.print, out.String())
			}
			if len(asked) != len(c.runs) {
				t.Errorf("go test was run %d times, want %d", len(asked), len(c.runs))
			}
			if len(asked) > 1 && !slices.Equal(asked[1], []string{"-race", "-p=2", "-run=^TestA$", "-count=1", "m/p"}) {
				t.Errorf("the second time with %q", asked[1])
			}
		})
	}
}

// With a real go test, in a module of its own: a test that fails only the first time.
func TestARealRun(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module m\n\ngo 1.25\n",
		"a_test.go": `package m

import (
	"os"
	"testing"
)

func TestFirst(t *testing.T) {
	if os.Mkdir("been", 0o700) == nil {
		t.Error("for the first time")
	}
}

func TestOther(t *testing.T) {}
`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("GOFLAGS", "")
	var out strings.Builder
	g := gate{run: command(context.Background(), dir), out: &out, repeatable: regexp.MustCompile("First")}
	if !g.judge([]string{"-shuffle=on", "./..."}) || !slices.Equal(g.flaky, []string{"m.TestFirst"}) {
		t.Errorf("got flaky %q; it printed:\n%s", g.flaky, out.String())
	}
	for _, want := range []string{"a_test.go:10: for the first time", "FAIL\tm\t", "ok  \tm\t", "FLAKY: m.TestFirst"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, out.String())
		}
	}
	g.noRepeats, g.flaky = true, nil
	if err := os.Remove(filepath.Join(dir, "been")); err != nil {
		t.Fatal(err)
	}
	if g.judge([]string{"./..."}) || g.flaky != nil {
		t.Error("what may not be repeated was")
	}
}
