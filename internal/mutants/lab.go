package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// seedRange is what the simulation is run with.
type seedRange struct{ first, count int }

// verdict says what noticed a mutant, and how.
type verdict struct {
	by    string // "": nothing
	seeds int    // simulation: how many it took
	trace string
}

func (v verdict) String() string {
	switch {
	case v.by == "":
		return "SURVIVED"
	case v.seeds > 0:
		return fmt.Sprintf("caught by %s after %d seeds", v.by, v.seeds)
	default:
		return "caught by " + v.by
	}
}

// lab is where mutants are tried.
type lab struct{ root, dir string }

func newLab(ctx context.Context) (*lab, error) {
	mod, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOMOD: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(mod)))
	if _, err := os.Stat(filepath.Join(root, "internal", "lua", "acquire.lua")); err != nil {
		return nil, fmt.Errorf("run this in the library's source tree: %w", err)
	}
	dir, err := os.MkdirTemp("", "redlock-mutants")
	return &lab{root, dir}, err
}

func (l *lab) close() { _ = os.RemoveAll(l.dir) }

// try builds the tests with the mutant in place and runs them. Only one that builds and fails counts as caught.
func (l *lab) try(ctx context.Context, m mutant, seeds seedRange) (verdict, error) {
	dir, err := os.MkdirTemp(l.dir, "")
	if err != nil {
		return verdict{}, err
	}
	overlay, err := m.overlay(l.root, dir)
	if err != nil {
		return verdict{}, err
	}
	pkg := "./internal/sim/simtest"
	args := []string{
		"-test.run=^TestSimulation$", "-most=1", "-first=" + strconv.Itoa(seeds.first), "-seeds=" + strconv.Itoa(seeds.count),
	}
	if m.test != "" {
		dir, test := m.where()
		pkg = "./" + dir
		args = []string{"-test.run=^" + test + "$", "-test.timeout=2m"} // one that hangs has failed: they take seconds
	}
	binary := filepath.Join(dir, "tests")
	//nolint:gosec // our own arguments
	build := exec.CommandContext(ctx, "go", "test", "-overlay", overlay, "-c", "-o", binary, pkg)
	build.Dir = l.root
	build.Env = append(os.Environ(), "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return verdict{}, fmt.Errorf("it does not build: %w\n%s", err, out)
	}
	defer func() { _ = os.Remove(binary) }()
	out, failed, err := execute(ctx, filepath.Join(l.root, filepath.FromSlash(pkg)), binary, args)
	if err != nil || !failed {
		return verdict{}, err
	}
	if m.test != "" {
		return verdict{by: "`" + m.test + "`", trace: m.why}, nil
	}
	return judge(out, seeds)
}

// limit is how long one mutant may take; the slowest schedule takes a second.
const limit = 10 * time.Minute

// execute runs the tests on one processor, so that the seeds come one after the other.
func execute(ctx context.Context, dir, binary string, args []string) (out string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var b bytes.Buffer
	run := exec.CommandContext(ctx, binary, args...)
	run.Dir, run.Stdout, run.Stderr = dir, &b, &b
	run.Env = append(os.Environ(), "GOMAXPROCS=1")
	err = run.Run()
	switch {
	case ctx.Err() != nil:
		err = ctx.Err()
	case errors.As(err, new(*exec.ExitError)):
		return b.String(), true, nil
	}
	return b.String(), false, err
}

var (
	badSeed   = regexp.MustCompile(`seed (\d+): \d+ nodes`)
	violation = regexp.MustCompile(`(?m)^\s*([a-z][a-z ]{3,20}): (.*)$`)
)

// judge reads what the simulation printed: the seed and its first violation.
func judge(out string, seeds seedRange) (verdict, error) {
	seed := badSeed.FindStringSubmatchIndex(out)
	_, panicked, ended := strings.Cut("\n"+out, "\npanic: ")
	panicked, _, _ = strings.Cut(panicked, "\n")
	switch {
	case seed == nil && ended: // in a goroutine that no seed knows
		return verdict{by: "a panic", trace: panicked}, nil
	case seed == nil:
		return verdict{}, fmt.Errorf("the simulation failed without a seed:\n%s", out)
	}
	number, _ := strconv.Atoi(out[seed[2]:seed[3]])
	v := verdict{seeds: number - seeds.first + 1, trace: fmt.Sprintf("seed %d", number)}
	if ended {
		v.by, v.trace = "a run that does not end", v.trace+": "+panicked
		return v, nil
	}
	found := violation.FindStringSubmatch(out[seed[1]:])
	if found == nil {
		return verdict{}, fmt.Errorf("the simulation failed without a violation:\n%s", out)
	}
	text := found[2]
	if len(text) > 120 {
		text = text[:120] + "…"
	}
	v.by, v.trace = found[1], v.trace+": "+text
	return v, nil
}
