package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is a line of go test -json, see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// test is a top-level test, with the output of it and its subtests.
type test struct {
	pkg, name string
	output    []string
}

func (t *test) String() string { return t.pkg + "." + t.name }

// final matches output of failures that are never repeated.
var final = regexp.MustCompile(`SAFETY VIOLATION|DATA RACE|race detected during execution|^panic: |^fatal error: `)

// gate judges runs of go test.
type gate struct {
	run        func(args []string, read func(io.Reader) error) (ok bool, err error)
	out        io.Writer
	repeatable *regexp.Regexp // the tests that may be run a second time
	noRepeats  bool           // no test may

	flaky []string // the tests that failed, and passed the second time
}

// judge runs the tests, and once more those that failed and may be repeated. It reports whether all passed.
func (g *gate) judge(args []string) bool {
	flags := args[:slices.IndexFunc(append(args, "."), func(a string) bool { return !strings.HasPrefix(a, "-") })]
	first := g.watch(args)
	if first.ok {
		return true
	}
	if why := g.notRepeatable(first); why != "" {
		fmt.Fprintf(g.out, "FAIL: %s\n", why)
		return false
	}
	for _, t := range first.failed {
		fmt.Fprintf(g.out, "=== once more, by itself: %s\n", t)
		// The last -run and -count override earlier ones.
		second := g.watch(append(slices.Clone(flags), "-run=^"+regexp.QuoteMeta(t.name)+"$", "-count=1", t.pkg))
		if !second.ok || second.passed == 0 {
			fmt.Fprintf(g.out, "FAIL: %s failed twice\n", t)
			return false
		}
		g.flaky = append(g.flaky, t.String())
	}
	for _, name := range g.flaky {
		fmt.Fprintf(g.out, "FLAKY: %s passed only the second time\n", name)
	}
	return true
}

// notRepeatable returns why a failed run may not be repeated, or "".
func (g *gate) notRepeatable(r result) string {
	if r.broken != "" {
		return r.broken
	}
	for _, t := range r.failed {
		if g.noRepeats || !g.repeatable.MatchString(t.String()) {
			return t.String()
		}
	}
	if len(r.failed) == 0 {
		return "it failed, but no test did"
	}
	return ""
}

// result is the result of one run of go test.
type result struct {
	ok     bool
	passed int // top-level tests
	failed []*test
	broken string // a failure that is not a test's, or is never repeated; "": none
}

// watch runs go test, and prints what go test would print.
func (g *gate) watch(args []string) (r result) {
	tests := map[string]*test{}       // the running ones
	packages := map[string][]string{} // by package: its output outside tests
	fatal := map[string]string{}      // by package: its output that matches final
	ok, err := g.run(args, func(in io.Reader) error {
		for events := json.NewDecoder(in); ; {
			var e event
			if err := events.Decode(&e); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return fmt.Errorf("go test -json: %w", err)
			}
			top, _, _ := strings.Cut(e.Test, "/")
			key := e.Package + "." + top
			if final.MatchString(e.Output) {
				fatal[e.Package] = strings.TrimSpace(e.Output)
			}
			switch {
			case e.Action == "build-output":
				fmt.Fprint(g.out, e.Output)
			case e.Action == "build-fail":
				r.broken = e.ImportPath + " does not build"
			case e.Test == "":
				if e.Action == "fail" {
					g.unfinished(e.Package, tests, &r)
					if what := fatal[e.Package]; what != "" {
						r.broken = e.Package + ": never run again: " + what
					}
				}
				g.packageEvent(e, packages, &r)
			case tests[key] == nil:
				tests[key] = &test{pkg: e.Package, name: top}
				fallthrough
			default:
				t := tests[key]
				if e.Output != "" {
					t.output = append(t.output, e.Output)
				}
				if e.Test != top {
					continue
				}
				switch e.Action {
				case "fail":
					r.failed = append(r.failed, t)
					fmt.Fprint(g.out, strings.Join(t.output, ""))
					delete(tests, key)
				case "pass":
					r.passed++
					fallthrough
				case "skip":
					delete(tests, key)
				}
			}
		}
	})
	r.ok = ok && err == nil && len(r.failed) == 0 && r.broken == ""
	if err != nil {
		r.broken = err.Error()
	}
	return r
}

// unfinished marks the run as broken if tests of a package have not ended: a panic or a time-out ended the package.
func (g *gate) unfinished(pkg string, tests map[string]*test, r *result) {
	for key, t := range tests {
		if t.pkg == pkg {
			fmt.Fprint(g.out, strings.Join(t.output, ""))
			r.broken = t.String() + " has not ended"
			delete(tests, key)
		}
	}
}

// packageEvent prints a package's result, and all of its output outside tests if it failed.
func (g *gate) packageEvent(e event, packages map[string][]string, r *result) {
	switch e.Action {
	case "output":
		packages[e.Package] = append(packages[e.Package], e.Output)
	case "fail":
		text := strings.Join(packages[e.Package], "")
		fmt.Fprint(g.out, text)
		blamed := slices.ContainsFunc(r.failed, func(t *test) bool { return t.pkg == e.Package })
		if !blamed && r.broken == "" {
			r.broken = e.Package + " failed as a whole"
		}
	case "pass", "skip":
		if said := packages[e.Package]; len(said) > 0 {
			fmt.Fprint(g.out, said[len(said)-1])
		}
	}
}
