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

// event is a line of go test -json: see go doc test2json.
type event struct {
	Action, Package, ImportPath, Test, Output string
}

// test is one top-level test, with what it and its subtests have printed.
type test struct {
	pkg, name string
	output    []string
}

func (t *test) String() string { return t.pkg + "." + t.name }

// final is what no package that prints it is run again for.
var final = regexp.MustCompile(`SAFETY VIOLATION|DATA RACE|race detected during execution|^panic: |^fatal error: `)

// gate judges runs of go test.
type gate struct {
	run   func(args []string, read func(io.Reader) error) (ok bool, err error)
	out   io.Writer
	again *regexp.Regexp // which tests may be run a second time
	none  bool           // none may

	flaky []string // those that failed, and passed the second time
}

// judge runs the tests, and those that failed and may be once more. It reports whether all is well.
func (g *gate) judge(args []string) bool {
	flags := args[:slices.IndexFunc(append(args, "."), func(a string) bool { return !strings.HasPrefix(a, "-") })]
	first := g.watch(args)
	if first.ok {
		return true
	}
	if why := g.unfit(first); why != "" {
		fmt.Fprintf(g.out, "FAIL: %s\n", why)
		return false
	}
	for _, t := range first.failed {
		fmt.Fprintf(g.out, "=== once more, by itself: %s\n", t)
		// The last -run and -count count.
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

// unfit says why what has failed may not be run again, or nothing.
func (g *gate) unfit(r result) string {
	if r.broken != "" {
		return r.broken
	}
	for _, t := range r.failed {
		if g.none || !g.again.MatchString(t.String()) {
			return t.String()
		}
	}
	if len(r.failed) == 0 {
		return "no test says what has failed"
	}
	return ""
}

// result is what one run of go test came to.
type result struct {
	ok     bool
	passed int // top-level tests
	failed []*test
	broken string // what has failed and is no test, or no test that may be run again
}

// watch runs go test, and prints what go test would.
func (g *gate) watch(args []string) (r result) {
	tests := map[string]*test{}       // that run
	packages := map[string][]string{} // what they print beside their tests
	fatal := map[string]string{}      // by package: what it printed that is final
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
				g.aboutPackage(e, packages, &r)
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

// unfinished blames the package for tests that had no end: a panic or a time-out ended them all, and those that were to
// follow.
func (g *gate) unfinished(pkg string, tests map[string]*test, r *result) {
	for key, t := range tests {
		if t.pkg == pkg {
			fmt.Fprint(g.out, strings.Join(t.output, ""))
			r.broken = t.String() + " has no end"
			delete(tests, key)
		}
	}
}

// aboutPackage prints the line that says how a package did, and for one that failed all that it printed beside its
// tests.
func (g *gate) aboutPackage(e event, packages map[string][]string, r *result) {
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
