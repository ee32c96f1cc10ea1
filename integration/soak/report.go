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
	*soaking
	took    time.Duration
	verdict tokens.Verdict
	left    int // keys that nobody uses, one TTL after the end
}

// report judges the histories, and looks for what was left behind.
func (s *soaking) report(histories [][]tokens.Hold, took time.Duration) (report, error) {
	r := report{soaking: s, took: took, verdict: tokens.Judge(slices.Concat(histories...))}
	time.Sleep(s.ttl) // what an unreachable master could not be told goes with its TTL
	for _, n := range s.fleet {
		s.note(n)
	}
	for deadline := time.Now().Add(5 * time.Second); ; time.Sleep(100 * time.Millisecond) { // a busy master may be late
		r.left = 0
		for _, n := range s.fleet {
			keys, err := redis.Strings(n.Do("KEYS", "name *"))
			if err != nil {
				return r, err
			}
			r.left += len(keys)
		}
		if r.left == 0 || time.Now().After(deadline) {
			return r, nil
		}
	}
}

func (r report) String() string {
	var b strings.Builder
	v, c := r.verdict, &r.counts
	fmt.Fprintf(&b, "\n%d acquisitions by %d clients × %d goroutines in %s: %.0f/s; TTL %s; %d hot and %d other names\n",
		v.Holds, r.lockers, r.workers, r.took.Round(time.Second), float64(v.Holds)/r.took.Seconds(), r.ttl, r.hot, r.warm)
	fmt.Fprintf(&b, "faults: %s\n", c.faults())
	fmt.Fprintf(&b, "a killed master was down for at least %s; restart guard %s: holds exclude each other: %t\n",
		r.down, r.guard, r.excludes())
	fmt.Fprintf(&b, "asked in vain: %d taken, %d no quorum; holds lost before their unlock: %d, "+
		"of these by a majority's word: %d; unlocks without a majority's word: %d; scripts sent again: %d\n",
		c.taken.Load(), c.noQuorum.Load(), c.lost.Load(), c.early.Load(), c.unconfirmed.Load(), c.evaluations.Load())
	fmt.Fprintf(&b, "lock keys left behind after one TTL: %d\n", r.left)
	fmt.Fprintf(&b, "judged: %s\n", v)
	fmt.Fprintf(&b, "VIOLATIONS: %d\n", r.violations())
	return b.String()
}

// violations counts what must not be.
func (r report) violations() int {
	n := r.verdict.Duplicates + r.verdict.Inversions + r.left
	if r.excludes() {
		n += r.verdict.Overlaps + r.verdict.LateGrants
	}
	return n
}

// err says what is wrong with what was found, or with the run: one in which too little happens proves nothing.
func (r report) err() error {
	var wrong []error
	if n := r.violations(); n > 0 {
		wrong = append(wrong, fmt.Errorf("SAFETY VIOLATION: %d", n))
	}
	wrong = append(wrong,
		wants("acquisitions", int64(r.verdict.Holds), int64(r.acquisitions)),
		wants("compared with an earlier hold", int64(r.verdict.Compared), int64(r.acquisitions)/2),
		wants("scripts sent again", r.counts.evaluations.Load(), int64(r.length/(10*time.Second))),
		r.lacks(),
	)
	return errors.Join(wrong...)
}

// lacks says of what there has been too little.
func (s *soaking) lacks() error {
	c, periods := &s.counts, int64(s.length/(10*time.Second))
	return errors.Join(
		wants("masters killed", c.kills.Load(), periods),
		wants("masters frozen", c.freezes.Load(), periods),
		wants("SCRIPT FLUSH", c.flushes.Load(), 3*periods),
		wants("networks delayed", c.delays.Load(), periods),
		wants("networks held", c.holds.Load(), periods),
		wants("networks reset", c.resets.Load(), periods),
		wants("holds outlived", c.lost.Load(), periods),
		wants("taken", c.taken.Load(), periods),
	)
}

func wants(what string, got, want int64) error {
	if got >= want {
		return nil
	}
	return fmt.Errorf("too little to prove anything: %d %s, want %d", got, what, want)
}
