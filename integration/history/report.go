package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/integration/tokens"
)

type report struct {
	*running
	verdict tokens.Verdict
	linear  linear
	took    time.Duration
	left    []string // keys that nobody uses, one TTL and 35 s after the end
	wrong   []string // what was taken away and went on, and jobs that were done twice
	calmly  float64  // holds in one back-off, before the faults
	back    time.Duration
	files   []string
}

// backoff is the longest pause between two attempts, by default.
const backoff = 250 * time.Millisecond

// report judges the history, and looks for what was left behind.
func (r *running) report(began, first, last time.Time) (report, error) {
	found := report{running: r, took: last.Sub(first)}
	found.calmly = float64(len(within(r.history, began, first))) * float64(backoff) / float64(first.Sub(began))
	found.back = found.recovery(last)
	if err := found.judge(); err != nil {
		return found, err
	}
	time.Sleep(ttl) // what an unreachable master could not be told goes with its TTL

	for deadline := time.Now().Add(35 * time.Second); ; time.Sleep(100 * time.Millisecond) { // places live for 30 s
		var err error
		if found.left, err = masters.Leftovers(r.fleet); err != nil {
			return found, err
		}
		found.left = slices.DeleteFunc(found.left, r.goesByItself)
		if len(found.left) == 0 || time.Now().After(deadline) {
			return found, nil
		}
	}
}

// goesByItself reports whether a key stays for its time and no longer: what is known of a job and, where the run is too
// short to wait for it, the queue in which a client was killed.
func (r *running) goesByItself(left string) bool {
	addr, key, _ := strings.Cut(left, " ")
	if !strings.HasPrefix(key, "redlock:once:job ") && (r.full || !strings.HasPrefix(key, "redlock:wait:")) {
		return false
	}
	at := slices.IndexFunc(r.fleet, func(n *masters.Node) bool { return n.Addr() == addr })
	ms, err := redis.Int(r.fleet[at].Do("PTTL", key))
	const noTTL = -1
	return err == nil && ms != noTTL
}

// judge asks both judges, and leaves a history that is wrong in files.
func (f *report) judge() (err error) {
	f.wrong = slices.Concat(cut(f.history, f.forced), twice(f.done, f.forgot), beyond(f.history))
	var holds []tokens.Hold
	for _, h := range f.history {
		holds = append(holds, h.hold())
	}
	f.verdict = tokens.Judge(holds, f.guard > 0)
	if f.guard > 0 {
		if f.linear, err = linearize(f.history, f.out, 5*time.Minute); err != nil {
			return err
		}
	}
	if f.violations() == 0 {
		return nil
	}
	file, err := save(f.out, f.history)
	f.files = append(f.files, file)
	if f.linear.view != "" {
		f.files = append(f.files, f.linear.view)
	}
	return err
}

// within returns when holds were granted, in a span of time, in order.
func within(history []record, from, to time.Time) []time.Duration {
	var at []time.Duration
	for _, h := range history {
		if d := time.Duration(h.Granted - from.UnixNano()); d >= 0 && d < to.Sub(from) {
			at = append(at, d)
		}
	}
	slices.Sort(at)
	return at
}

// recovery returns how long after the last fault the first back-off begins in which as many locks were
// acquired as before the faults, but for a fifth: that much it always goes up and down.
func (f *report) recovery(last time.Time) time.Duration {
	at := within(f.history, last, last.Add(f.calm))
	for start := time.Duration(0); start+backoff <= f.calm; start += 10 * time.Millisecond {
		from, _ := slices.BinarySearch(at, start)
		to, _ := slices.BinarySearch(at, start+backoff)
		if float64(to-from) >= 0.8*f.calmly {
			return start
		}
	}
	return f.calm
}

// violations counts what must not be.
func (f *report) violations() int {
	if f.guard == 0 { // holds may overlap
		return len(f.verdict.Broken)
	}
	return len(f.verdict.Broken) + f.linear.illegal + len(f.wrong)
}

func (f report) String() string {
	var b strings.Builder
	total := 0
	for _, n := range f.faults {
		total += n
	}
	fmt.Fprintf(&b, "\n%d clients × %d goroutines, TTL %s, restart guard %s; %d faults in %s\n",
		f.clients, f.workers, ttl, f.guard, total, f.took.Round(time.Second))
	fmt.Fprintf(&b, "faults: %s\n", inWords(f.faults))
	fmt.Fprintf(&b, "holds: %s; %d beyond a TTL\n", inWords(f.kinds), f.renewed)
	fmt.Fprintf(&b, "asked in vain: %s\n", inWords(f.failed))
	fmt.Fprintf(&b, "judged: %s\n", f.verdict)
	fmt.Fprintf(&b, "porcupine: %d parts of up to %d holds: %d not linearizable, %d undecided\n",
		f.linear.parts, part, f.linear.illegal, f.linear.unknown)
	fmt.Fprintf(&b, "taken away: %d locks; forgotten: %d jobs of %d done; lists changed: %d\n",
		succeeded(f.forced), succeeded(f.forgot), len(f.done), f.moved)
	for _, what := range f.wrong {
		fmt.Fprintln(&b, "WRONG:", what)
	}
	fmt.Fprintf(&b, "keys left behind after one TTL and 35 s: %d %s\n", len(f.left), strings.Join(f.left, ", "))
	fmt.Fprintf(&b, "throughput: %.0f/s before the faults, back %s after the last one\n",
		f.calmly/backoff.Seconds(), f.back)
	fmt.Fprintf(&b, "VIOLATIONS: %d\n", f.violations()+len(f.left))
	return b.String()
}

// inWords lists counts.
func inWords(counts map[string]int) string {
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", what, counts[what]))
	}
	return strings.Join(parts, ", ")
}

// succeeded counts the calls that returned nil.
func succeeded(acts []act) (n int) {
	for _, a := range acts {
		if a.OK {
			n++
		}
	}
	return n
}

// err says what is wrong with what was found, or with the run: one in which too little happens proves nothing.
func (f report) err() error {
	var wrong []error
	if n := f.violations(); n > 0 {
		wrong = append(wrong, fmt.Errorf("SAFETY VIOLATION: %d; see %s", n, strings.Join(f.files, " and ")))
	}
	if len(f.left) > 0 {
		wrong = append(wrong, fmt.Errorf("SAFETY VIOLATION: %d keys left behind", len(f.left)))
	}
	wrong = append(wrong, f.lacks())
	if f.linear.unknown > 0 {
		wrong = append(wrong, fmt.Errorf("%d parts of the history could not be judged in time", f.linear.unknown))
	}
	if f.back > f.patience {
		wrong = append(wrong, fmt.Errorf("the throughput was back %s after the last fault, want %s", f.back, f.patience))
	}
	return errors.Join(wrong...)
}
