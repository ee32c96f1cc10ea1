// Command gate runs go test for make, and decides what a failure means.
//
//	go run ./internal/gate [-C dir] [-repeat regexp] [go test flags, each with its value behind =] packages
//
// Tests against real servers and the real clock may fail because a machine that others use, too, stood still. A test
// whose name matches -repeat, as package.Test, and that has failed is therefore run once more by itself. If it passes
// then, the run goes on and ends with a list of such tests, FLAKY, which the next change is to make empty. Never
// repeated are violations of safety – tests say these words, see fleet.Unsafe –, data races, panics, time-outs of the
// whole package, and what does not build.
//
// gotestsum repeats tests as well, but has no way to tell which must not be.
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
		"regular expression for package.Test: which may be run a second time; none if empty")
	own, args := split(os.Args[1:])
	if err := flag.CommandLine.Parse(own); err != nil {
		os.Exit(2)
	}
	again, err := regexp.Compile(*repeat)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
		os.Exit(2)
	}
	g := gate{run: command(ctx, *dir), out: os.Stdout, again: again, none: *repeat == ""}
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

// split separates our own flags from those of go test and the packages.
func split(args []string) (own, rest []string) {
	for len(args) >= 2 && (args[0] == "-C" || args[0] == "-repeat") {
		own, args = append(own, args[:2]...), args[2:]
	}
	return own, args
}

// note appends the names to a file, for whoever prints the end of several runs.
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

// command returns what runs go test in a directory and gives its events to read. It reports whether that went well.
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
		_, _ = io.Copy(io.Discard, out) // else it would not end
		if err := c.Wait(); err != nil && failed == nil {
			return false, nil // the events say what has failed
		}
		return failed == nil, failed
	}
}
