package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// A sample is what one contestant, or a crowd in one of its parts, has shown in one round: figures by name.
type sample struct {
	who     string
	nodes   int // 0: those of the contestant whose turn it was
	figures map[string]float64
	example error // one of the errors that there were
}

const (
	rate      = "cycles/s" // of contended scenarios, acquisitions; of renewals, these
	p99       = "p99 µs"   // of lock and unlock; of contended scenarios, of the wait
	longest   = "max µs"
	clientCPU = "client CPU µs" // a cycle
	serverCPU = "server CPU µs" // a cycle, of all five
	allCPU    = "CPU µs"        // a cycle
	orphans   = "orphans"
	failed    = "errors"
	hung      = "hung"
	without   = "without ms" // the longest time in which nobody acquired a lock

	rateToRedsync = "rate ÷ redsync+redigo"
	rateToQuorum  = "rate ÷ quickest redsync"
	rateToSingle  = "rate ÷ quickest on one master"
	rateToLimit   = "rate ÷ limit"
	rateToLock    = "rate ÷ redlock"
	rateToOne     = "rate ÷ one name"
	cpuToLock     = "CPU ÷ redlock"
)

// Of these the least and the most of the rounds are kept, too.
var spreads = []string{rate, p99, rateToRedsync, rateToQuorum, rateToLock}

// What stands for all rounds, where it is not the median.
var rounds = map[string]func([]float64) float64{
	longest: slices.Max[[]float64], without: slices.Max[[]float64], "worst ms": slices.Max[[]float64],
	"least validity ms": slices.Min[[]float64],
	lost:                sum, updates: sum, pauses: sum, rejected: sum, overwrote: sum,
	failures: sum, "calls": sum, "overlaps": sum, orphans: sum, failed: sum, hung: sum,
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// A row is what all rounds of a contestant with one number of goroutines came to. Where a figure has a spread, its
// least and its most have names of their own.
type row struct {
	n       int    // goroutines, contenders, holds or clients
	lock    string // the contestant; of a crowd, what it did
	masters int
	figures map[string]float64

	samples []sample // unless it was read from a file
}

// condense makes a row's figures of its samples.
func (r *row) condense() {
	r.figures = map[string]float64{}
	values := map[string][]float64{}
	for _, s := range r.samples {
		for name, v := range s.figures {
			values[name] = append(values[name], v)
		}
	}
	for name, all := range values {
		r.set(name, all)
	}
}

func (r *row) set(name string, values []float64) {
	of := rounds[name]
	if of == nil {
		of = median
	}
	r.figures[name] = of(values)
	if slices.Contains(spreads, name) {
		r.figures[name+" least"], r.figures[name+" most"] = slices.Min(values), slices.Max(values)
	}
}

// hung says whether a round has not come to an end.
func (r *row) hung() bool {
	return slices.ContainsFunc(r.samples, func(s sample) bool { return s.figures[hung] > 0 })
}

// references are what a row's figures are divided by: those of the quickest contestant that fits, at the same number of
// goroutines.
var references = []struct {
	name, of string
	in       string // the scenarios where anybody asks; empty: all
	fits     func(r, to *row) bool
}{
	{rateToRedsync, rate, "", isRedsync},
	{rateToQuorum, rate, "uncontended", func(_, to *row) bool { return strings.HasPrefix(to.lock, "redsync") }},
	{rateToSingle, rate, "uncontended", func(_, to *row) bool {
		return to.masters == 1 && !strings.HasPrefix(to.lock, "redlock")
	}},
	{rateToLimit, rate, "uncontended lockall", func(r, to *row) bool {
		return strings.HasPrefix(to.lock, "limit") && hasTen(r) == hasTen(to)
	}},
	{rateToLock, rate, "semaphore once rw consensus consensus-contended", isRedlock},
	{cpuToLock, allCPU, "migration", isRedlock},
	{rateToOne, rate, "lockall", func(r, to *row) bool { return to.lock+tenNames == r.lock }},
}

func isRedsync(_, to *row) bool { return to.lock == redsyncRedigo5.name }
func isRedlock(_, to *row) bool { return to.lock == redlockFenced5.name }
func hasTen(r *row) bool        { return strings.HasSuffix(r.lock, tenNames) }

// compare adds the ratios to the rows of a scenario. They are those within each round: both had the same weather.
func compare(scenario string, rows []*row) {
	for _, r := range rows {
		for _, ref := range references {
			if ref.in != "" && !slices.Contains(strings.Fields(ref.in), scenario) {
				continue
			}
			var to *row
			for _, other := range rows {
				if other.n == r.n && other.figures[hung] == 0 && ref.fits(r, other) &&
					(to == nil || other.figures[rate] > to.figures[rate]) {
					to = other
				}
			}
			if to == nil || to == r {
				continue
			}
			var ratios []float64
			for i := range min(len(r.samples), len(to.samples)) {
				if v, base := r.samples[i].figures[ref.of], to.samples[i].figures[ref.of]; base > 0 {
					ratios = append(ratios, v/base)
				}
			}
			if len(ratios) > 0 {
				r.set(ref.name, ratios)
			}
		}
	}
}

// number shows three digits that matter, and from ten thousand on all, with the thousands apart.
func number(v float64) string {
	switch {
	case v >= 10_000:
		return thousands(math.Trunc(v))
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

func thousands(v float64) string {
	text := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
