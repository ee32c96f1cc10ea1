// Command gate runs go test for make, and repeats failed tests that may have failed because of the machine.
//
//	go run ./internal/gate [-repeat regexp] -- [go test flags, each with its value behind =] packages
//
// Tests against real servers and the real clock may fail because a shared machine stood still. So a failed test whose
// name, as package.Test, matches -repeat is run once more by itself. If it passes then, the run goes on, and ends with
// a list of such tests, FLAKY, which the next change must make empty. Some failures are never repeated: safety
// violations (tests print these words, see fleet.Unsafe), data races, panics, and whatever ends a package before all
// of its tests have run.
//
// Not gotestsum: it repeats by package, not by test, knows nothing of safety violations, and passes where a package's
// process was killed or its TestMain failed, though the tests behind have never run.
package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"strings"
)

func main() {
	repeat := flag.String("repeat", "^$", "regular expression for package.Test: the tests that may be run a second time")
	flag.Parse()
	again, err := regexp.Compile(*repeat)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	flaky, err := judge(flag.Args(), again, func(args []string) (string, error) { return goTest(ctx, args) })
	for _, t := range flaky {
		fmt.Printf("FLAKY: %s passed only the second time\n", t)
	}
	if err == nil && len(flaky) > 0 {
		err = note(os.Getenv("GATE_REPORT"), flaky)
	}
	if err != nil {
		fmt.Println("FAIL:", err)
		os.Exit(1)
	}
}

// goTest runs go test, and returns what it has printed.
func goTest(ctx context.Context, args []string) (string, error) {
	var said bytes.Buffer
	args = append([]string{"test"}, args...)
	c := exec.CommandContext(ctx, cmp.Or(os.Getenv("GO"), "go"), args...) //nolint:gosec // make's own arguments
	c.Stdout, c.Stderr = io.MultiWriter(os.Stdout, &said), os.Stderr
	err := c.Run()
	return said.String(), err
}

// note appends the tests to a file, if any. The script that makes several runs prints it at its end.
func note(file string, tests []test) error {
	if file == "" {
		return nil
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	for _, t := range tests {
		if _, err := fmt.Fprintln(f, t); err != nil {
			return err
		}
	}
	return nil
}

type test struct{ pkg, name string }

func (t test) String() string { return t.pkg + "." + t.name }

// judge has run run the tests, and once more those that failed and may be repeated. It returns those that passed the
// second time, and an error unless all have passed.
func judge(args []string, repeatable *regexp.Regexp, run func(args []string) (string, error)) (flaky []test, _ error) {
	said, err := run(args)
	if err == nil {
		return nil, nil
	}
	failed, err := failures(said)
	if err != nil {
		return nil, err
	}
	for _, t := range failed {
		if !repeatable.MatchString(t.String()) {
			return nil, fmt.Errorf("%s may not be repeated", t)
		}
	}
	var flags []string
	for i := 0; i < len(args) && strings.HasPrefix(args[i], "-"); i++ {
		if !strings.HasPrefix(args[i], "-coverprofile=") { // the profile of all tests stays
			flags = append(flags, args[i])
		}
	}
	for _, t := range failed {
		fmt.Printf("=== once more, by itself: %s\n", t)
		// The last -run and -count override earlier ones. One that is skipped now has not passed.
		said, err := run(slices.Concat(flags, []string{"-run=^" + t.name + "$", "-count=1", "-v", t.pkg}))
		if err != nil || !strings.Contains(said, "--- PASS: "+t.name+" (") {
			return flaky, fmt.Errorf("%s failed twice", t)
		}
		flaky = append(flaky, t)
	}
	return flaky, nil
}

var (
	// failedTest matches a top-level test's end; the names of others have a slash.
	failedTest = regexp.MustCompile(`--- FAIL: ([^/\s]+) \(`)

	// final matches output of failures that are never repeated.
	final = regexp.MustCompile(
		`SAFETY VIOLATION|DATA RACE|race detected during execution|^panic: |^fatal error: |^signal: |^exit status `)
)

// failures returns the tests that failed in a run of go test which has printed that, or why none may be repeated.
func failures(said string) (failed []test, _ error) {
	var names []string // in the package whose output this is
	ended := false     // all tests of it
	for line := range strings.Lines(said) {
		line = strings.TrimRight(line, "\r\n")
		if final.MatchString(line) {
			return nil, fmt.Errorf("never run again: %s", strings.TrimSpace(line))
		}
		if m := failedTest.FindStringSubmatch(line); m != nil {
			names = append(names, m[1])
		}
		if line == "FAIL" {
			ended = true
		}
		result, isResult := strings.CutPrefix(line, "FAIL\t")
		if !isResult {
			continue
		}
		pkg, _, _ := strings.Cut(result, "\t")
		pkg, _, _ = strings.Cut(pkg, " ") // … [build failed]
		if len(names) == 0 || !ended {
			return nil, fmt.Errorf("%s failed as a whole", pkg)
		}
		for _, name := range names {
			failed = append(failed, test{pkg, name})
		}
		names, ended = nil, false
	}
	if len(failed) == 0 {
		return nil, errors.New("no test failed, but go test did")
	}
	return failed, nil
}
