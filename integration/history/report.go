package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/integration/tokens"
)

// report is what a run has found.
type report struct {
	*running
	faults  *breaking
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
func (r *running) report(b *breaking, began, first, last time.Time) (report, error) {
	found := report{running: r, faults: b, took: last.Sub(first)}
	found.calmly = float64(len(within(r.history, began, first))) * float64(backoff) / float64(first.Sub(began))
	found.back = found.recovery(last)
	if err := found.judge(); err != nil {
		return found, err
	}
	time.Sleep(ttl) // what an unreachable master could not be told goes with its TTL

	for deadline := time.Now().Add(35 * time.Second); ; time.Sleep(100 * time.Millisecond) { // places live for 30 s
		found.left = nil
		for _, n := range r.fleet {
			keys, err := redis.Strings(n.Do("KEYS", "*"))
			if err != nil {
				return found, err
			}
			found.left = append(found.left, slices.DeleteFunc(keys, func(k string) bool {
				return k == "redlock:tokens" || k == "redlock:node" || k == "redlock:floor" || k == "redlock:settings" ||
					k == "redlock:lists" || strings.HasPrefix(k, "redlock:clients:") ||
					strings.HasPrefix(k, "redlock:label:") || k == "redlock:revoked"
			})...)
		}
		if len(found.left) == 0 || time.Now().After(deadline) {
			return found, nil
		}
	}
}

// judge asks both judges, and leaves a history that is wrong in files.
func (f *report) judge() (err error) {
	f.wrong = append(cut(f.history, f.forced), twice(f.done, f.forgot)...)
	var holds []tokens.Hold
	for _, h := range f.history {
		holds = append(holds, h.hold())
	}
	f.verdict = tokens.Judge(holds)
	if f.linear, err = linearize(f.history, f.out, 5*time.Minute); err != nil {
		return err
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
	v := f.verdict
	return v.Duplicates + v.Inversions + v.LateGrants + v.Overlaps + f.linear.illegal + len(f.wrong)
}

func (f report) String() string {
	var b strings.Builder
	total := 0
	for _, n := range f.faults.counts {
		total += n
	}
	fmt.Fprintf(&b, "\n%d clients × %d goroutines, %d names, TTL %s, restart guard %s; %d faults in %s\n",
		f.clients, workers, names, ttl, guard, total, f.took.Round(time.Second))
	fmt.Fprintf(&b, "faults: %s\n", f.faults)
	fmt.Fprintf(&b, "asked in vain: %d taken, %d no quorum\n", f.failed["taken"], f.failed["no quorum"])
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
	wants := func(what string, got, want int) {
		if got < want {
			wrong = append(wrong, fmt.Errorf("too little to prove anything: %d %s, want %d", got, what, want))
		}
	}
	seconds, total := int(f.length/time.Second), 0
	for _, kind := range menu {
		total += f.faults.counts[kind.name]
		wants(kind.name, f.faults.counts[kind.name], seconds/60)
	}
	wants(flushed, f.faults.counts[flushed], seconds/60)
	if f.full {
		wants("locks taken away", succeeded(f.forced), seconds/30)
		wants("jobs forgotten", succeeded(f.forgot), seconds/30)
		wants("jobs done", len(f.done), seconds/2)
		wants("changes of a list", f.moved, 2*f.clients)
	}
	wants("faults", total, 9*int(f.length/f.every)/10)
	wants("holds", f.verdict.Holds, f.traffic())
	wants("holds compared with an earlier one", f.verdict.Compared, 10*seconds)
	if f.linear.unknown > 0 {
		wrong = append(wrong, fmt.Errorf("%d parts of the history could not be judged in time", f.linear.unknown))
	}
	if f.back > f.patience {
		wrong = append(wrong, fmt.Errorf("the throughput was back %s after the last fault, want %s", f.back, f.patience))
	}
	return errors.Join(wrong...)
}
