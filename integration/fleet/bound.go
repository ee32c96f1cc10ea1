package fleet

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"
)

// A bound is a promise about the real clock: within so many milliseconds, so many times as fast. A machine that is busy
// breaks it for no fault of the library, so a bound is always measured and printed, and judged by make bounds alone.

// Judging says whether bounds are judged: make bounds sets it.
var Judging = os.Getenv("REDLOCK_BOUNDS") != ""

// OnlyBounds skips a test that has nothing but bounds where they are not judged.
func OnlyBounds(t *testing.T) {
	t.Helper()
	if !Judging && !*long {
		t.Skip("it only measures how long things take: make bounds does that")
	}
}

// ParallelUnlessJudged runs a test that has bounds beside others, unless it is to be judged.
func ParallelUnlessJudged(t *testing.T) {
	t.Helper()
	if !Judging {
		t.Parallel()
	}
}

var long = flag.Bool("long", os.Getenv("REDLOCK_LONG") != "", "run at full size: minutes instead of seconds")

// Sized returns the size of a measurement: short, or full with -long.
func Sized[T any](short, full T) T {
	if *long {
		return full
	}
	return short
}

const (
	// unquiet is by how much a timer of this process is late at most on a machine that has nothing else to do.
	unquiet = 5 * time.Millisecond
	// repeating is for how long what was measured on a busy machine is measured again.
	repeating = 3 * time.Minute
)

// Measurement is one try to keep to some bounds.
type Measurement struct {
	*testing.T
	missed []string
}

// Measure runs measure, which does something and says what bounds it kept to. What it finds wrong otherwise it tells
// the test, as ever. Where bounds are judged and some were missed, it is run again, as long as this process was not let
// run meanwhile: a machine that suspends the client for a quarter of a second makes every node late.
func Measure(t *testing.T, measure func(m *Measurement)) {
	t.Helper()
	begun := time.Now()
	for try := 1; ; try++ {
		m := &Measurement{T: t}
		stop := pulse()
		measure(m)
		late := stop()
		if len(m.missed) == 0 || t.Failed() {
			return
		}
		for _, what := range m.missed {
			t.Logf("bound missed in measurement %d, in which this process was not let run for %v: %s",
				try, late.Round(time.Microsecond), what)
		}
		switch {
		case !Judging:
			t.Log("not judged here: make bounds does that")
			return
		case late < unquiet || time.Since(begun) > repeating:
			t.Error("bounds were missed")
			return
		}
	}
}

// Bound says that something about time should hold, and prints what it was.
func (m *Measurement) Bound(holds bool, format string, args ...any) {
	m.Helper()
	text := fmt.Sprintf(format, args...)
	if !holds {
		m.missed = append(m.missed, text)
		return
	}
	m.Log("bound kept: " + text)
}

// pulse notes by how much a timer is late at most until it is stopped.
func pulse() (stop func() time.Duration) {
	done, worst := make(chan struct{}), make(chan time.Duration)
	go func() { // until stop
		const beat = time.Millisecond
		var most time.Duration
		for last := time.Now(); ; last = time.Now() {
			select {
			case <-time.After(beat):
				most = max(most, time.Since(last)-beat)
			case <-done:
				worst <- most
				return
			}
		}
	}()
	return func() time.Duration { close(done); return <-worst }
}
