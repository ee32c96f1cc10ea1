// Command gate runs go test for make, and repeats failed tests that may have failed because of the machine.
//
//	go run ./internal/gate [-C dir] [-repeat regexp] [go test flags, each with its value behind =] packages
//
// Tests against real servers and the real clock may fail because a shared machine stood still. So a failed test whose
// name, as package.Test, matches -repeat is run once more by itself. If it passes then, the run goes on, and ends with
// a list of such tests, FLAKY, which the next change must make empty. Some failures are never repeated: safety
// violations (tests print these words, see fleet.Unsafe), data races, panics, time-outs of a whole package, and build
// failures.
//
// Not gotestsum: it repeats tests as well, but cannot be told which failures must not be repeated.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := flag.String("C", ".", "the module's directory")
	repeat := flag.String("repeat", "",
		"regular expression for package.Test: the tests that may be run a second time; none if empty")
	own, args := split(os.Args[1:])
	if err := flag.CommandLine.Parse(own); err != nil {
		os.Exit(2)
	}
	again, err := regexp.Compile(*repeat)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(2)
	}
	g := gate{run: command(ctx, *dir), out: os.Stdout, repeatable: again, noRepeats: *repeat == ""}
	ok := g.judge(args)
	if report := os.Getenv("GATE_REPORT"); report != "" && len(g.flaky) > 0 {
		if err := note(report, g.flaky); err != nil {
			fmt.Fprintln(os.Stderr, "gate:", err)
			ok = false
		}
	}
	if !ok {
		os.Exit(1)
	}
}

// split separates gate's own flags from those of go test and the packages.
func split(args []string) (own, rest []string) {
	for len(args) >= 2 && (args[0] == "-C" || args[0] == "-repeat") {
		own, args = append(own, args[:2]...), args[2:]
	}
	return own, args
}

// note appends the names to a file. The script that makes several runs prints it at its end.
func note(file string, names []string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, strings.Join(names, "\n")+"\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// command returns a gate's run: it runs go test in a directory, passes its events to read, and reports whether it
// passed.
func command(ctx context.Context, dir string) func(args []string, read func(io.Reader) error) (bool, error) {
	return func(args []string, read func(io.Reader) error) (bool, error) {
		args = append([]string{"test", "-json"}, args...)
		c := exec.CommandContext(ctx, cmp.Or(os.Getenv("GO"), "go"), args...) //nolint:gosec // make's own arguments
		c.Dir, c.Stderr = dir, os.Stderr
		out, err := c.StdoutPipe()
		if err != nil {
			return false, err
		}
		if err := c.Start(); err != nil {
			return false, err
		}
		failed := read(out)
		_, _ = io.Copy(io.Discard, out) // go test would not end while its output is not read
		if err := c.Wait(); err != nil && failed == nil {
			return false, nil // the events contain the failures
		}
		return failed == nil, failed
	}
}
