// Package spec checks the models of this folder with Spin. Each model's first lines say how it is run and what must
// come of it:
//
//	// run: NAME | OPTIONS OF SPIN | holds in STATES
//	// run: NAME | OPTIONS OF SPIN | breaks PROPERTY in STEPS
//
// A run that holds must have at least so many states, since a model that goes nowhere holds, too; one that breaks must
// break that property in a shortest trace of so many steps. A line with deep: in place of run: takes minutes, and is
// run if -deep is set.
package spec

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

var deep = flag.Bool("deep", false, "the wide spaces too: minutes, gigabytes")

var (
	runLine   = regexp.MustCompile(`(?m)^// (run|deep): (.+?) \| (.*?) ?\| (holds|breaks (\w+)) in ([\d,]+)$`)
	anyLine   = regexp.MustCompile(`(?m)^// (run|deep):`)
	pansSaid  = regexp.MustCompile(`depth reached (\d+), errors: (\d+)\s+(\d+) states, stored`)
	pansUsage = regexp.MustCompile(`([\d.]+)\s+total actual memory usage`)
)

func TestModels(t *testing.T) {
	models, err := filepath.Glob("*.pml")
	if err != nil || len(models) == 0 {
		t.Fatalf("no models: %v", err)
	}
	for _, model := range models {
		text := cases.Must(os.ReadFile(model))(t)
		runs := runLine.FindAllStringSubmatch(string(text), -1)
		if lines := anyLine.FindAllString(string(text), -1); len(lines) != len(runs) {
			t.Errorf("%s: %d lines say how to run it, %d of them can be read", model, len(lines), len(runs))
		}
		for _, run := range runs {
			t.Run(strings.TrimSuffix(model, ".pml")+"/"+run[2], func(t *testing.T) {
				if run[1] == "deep" && !*deep {
					t.Skip("takes minutes; ask for it with -deep")
				}
				t.Parallel()
				want := cases.Must(strconv.Atoi(strings.ReplaceAll(run[6], ",", "")))(t)
				compile := []string{"-O0"} // to optimize takes longer than it saves
				if run[1] == "deep" {
					compile = []string{"-O2"}
				}
				got := check(t, model, strings.Fields(run[3]), compile)
				t.Log(got)
				quoted(t, strings.TrimSuffix(model, ".pml"), run[2], got)
				switch {
				case run[5] != got.broken:
					t.Errorf("%q is broken, want %q", got.broken, run[5])
				case got.broken != "" && len(got.trace) != want:
					t.Errorf("broken in %d steps, want %d", len(got.trace), want)
				case got.broken == "" && got.states < want:
					t.Errorf("%d states, want at least %d", got.states, want)
				}
			})
		}
	}
}

// result is what Spin found. If broken is empty, no reachable state violates a property.
type result struct {
	states, depth int
	elapsed       time.Duration
	megabytes     string
	broken        string
	trace         []string // the steps of a shortest way to the violation, in the model's own words
	verdict       string   // its last line
}

func (r result) String() string {
	text := fmt.Sprintf("%d states, depth %d, %.2f s, %s MB", r.states, r.depth, r.elapsed.Seconds(), r.megabytes)
	for i, step := range r.trace {
		text += fmt.Sprintf("\n%2d. %s", i+1, step)
	}
	return strings.TrimSpace(text + "\n" + r.verdict)
}

// check lets Spin explore every reachable state of a model, breadth first, and stop at the first violation, to which
// its trace is therefore a shortest one.
func check(t *testing.T, model string, options, compile []string) (r result) {
	t.Helper()
	dir := t.TempDir()
	model = cases.Must(filepath.Abs(model))(t)
	command := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	command("spin", append(append([]string{"-a"}, options...), model)...)
	command("gcc", append(compile, "-w", "-DSAFETY", "-DBFS", "-DMEMLIM=12000", "-o", "pan", "pan.c")...)
	start := time.Now()
	out := command("./pan", "-E", "-m1000000", "-w22") // -E: a process that waits for ever is no fault
	r.elapsed = time.Since(start)
	said := pansSaid.FindStringSubmatch(out)
	if said == nil || strings.Contains(out, "Search not completed") != (said[2] != "0") {
		t.Fatalf("the search did not end:\n%s", out)
	}
	r.depth, _ = strconv.Atoi(said[1])
	r.states, _ = strconv.Atoi(said[3])
	if usage := pansUsage.FindStringSubmatch(out); usage != nil {
		r.megabytes = usage[1]
	}
	if said[2] == "0" {
		return r
	}
	trail := filepath.Base(model) + ".trail"
	replay := append([]string{"-T", "-k", trail, "-DREPLAY"}, options...)
	for line := range strings.Lines(command("spin", append(replay, model)...)) {
		if verdict, broken := strings.CutPrefix(strings.TrimSpace(line), "broken: "); broken {
			r.broken, _, _ = strings.Cut(verdict, ":")
			r.verdict = verdict
			return r
		}
		r.trace = append(r.trace, strings.TrimSpace(line))
	}
	t.Fatalf("the model does not say what is broken:\n%s", out)
	return r
}
