package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A sample is what one contestant, or a crowd in one of its parts, has shown in one round: figures by name.
type sample struct {
	who     string
	figures map[string]float64
	example error // one of the errors that there were
}

// A figure is a column of the tables and of the CSV files.
type figure struct {
	name   string
	rounds func([]float64) float64 // what stands for all rounds; nil: the median
	spread bool                    // the least and the most of the rounds are kept, too
}

const (
	rate      = "cycles/s" // of contended scenarios, acquisitions; of renewals, these
	p99       = "p99 µs"   // of lock and unlock; of contended scenarios, of the wait
	longest   = "max µs"
	clientCPU = "client CPU µs" // a cycle
	serverCPU = "server CPU µs" // a cycle, of all five
	orphans   = "orphans"
	failed    = "errors"
	hung      = "hung"

	rateToRedsync = "rate ÷ redsync+redigo"
	rateToQuorum  = "rate ÷ quickest redsync"
	rateToSingle  = "rate ÷ quickest on one master"
	rateToLimit   = "rate ÷ limit"
	rateToLock    = "rate ÷ redlock"
	rateToOne     = "rate ÷ one name"
	p99ToRedsync  = "p99 ÷ redsync+redigo"
	p99ToWell     = "p99 ÷ all masters well"
)

// figures are all of them, in the order of the columns. Crowds have those of the second part.
var figures = []figure{
	{name: rate, spread: true}, {name: "acquire p50 µs"}, {name: "p50 µs"}, {name: p99, spread: true}, {name: "p99.9 µs"},
	{name: longest, rounds: most},
	{name: "allocs"}, {name: "bytes"}, {name: clientCPU}, {name: serverCPU},
	{name: "p99 in turns"}, {name: "others p99"}, {name: "gap p50 µs"}, {name: "gap p99 µs"},
	{name: "fewest"}, {name: "most"}, {name: "Jain"}, {name: "requests/node"}, {name: "commands/node"},
	{name: "least validity ms", rounds: least}, {name: "lost", rounds: sum},
	{name: rateToRedsync, spread: true}, {name: rateToQuorum, spread: true}, {name: rateToSingle},
	{name: rateToLimit}, {name: rateToLock}, {name: rateToOne},
	{name: p99ToRedsync}, {name: p99ToWell, spread: true},

	{name: "served"}, {name: "took ms"}, {name: "failed", rounds: sum}, {name: "guarded"},
	{name: "made"},
	{name: "KiB"}, {name: "goroutines"},
	{name: "client %"}, {name: "master %"}, {name: "busiest %"}, {name: "events/s"}, {name: "commands/s"},
	{name: "in KiB/s"}, {name: "out KiB/s"}, {name: "memory KiB"}, {name: "connections"},
	{name: "calls", rounds: sum}, {name: "before ms", rounds: most}, {name: "worst ms", rounds: most},
	{name: "newcomers"}, {name: "starts", rounds: sum}, {name: "first ms"}, {name: "first worst ms", rounds: most},
	{name: "last ms"}, {name: "last worst ms", rounds: most},

	{name: "overlaps", rounds: sum}, {name: orphans, rounds: sum}, {name: failed, rounds: sum}, {name: hung, rounds: sum},
}

func least(v []float64) float64 { return slices.Min(v) }
func most(v []float64) float64  { return slices.Max(v) }

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
	scenario string
	n        int    // goroutines, contenders, holds or clients
	lock     string // the contestant; of a crowd, what it did
	masters  int
	figures  map[string]float64

	samples []sample // unless it was read from a file
}

func leastOf(name string) string { return name + " least" }
func mostOf(name string) string  { return name + " most" }

// condense makes a row's figures of its samples.
func (r *row) condense() {
	r.figures = map[string]float64{}
	for _, f := range figures {
		var values []float64
		for _, s := range r.samples {
			if v, ok := s.figures[f.name]; ok {
				values = append(values, v)
			}
		}
		r.set(f, values)
	}
}

func (r *row) set(f figure, values []float64) {
	if len(values) == 0 {
		return
	}
	rounds := f.rounds
	if rounds == nil {
		rounds = median
	}
	r.figures[f.name] = rounds(values)
	if f.spread {
		r.figures[leastOf(f.name)], r.figures[mostOf(f.name)] = least(values), most(values)
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
	{rateToLock, rate, "semaphore once rw", func(_, to *row) bool { return to.lock == redlockFenced5.name }},
	{rateToOne, rate, "lockall", func(r, to *row) bool { return to.lock+tenNames == r.lock }},
	{p99ToRedsync, p99, "contended", isRedsync},
	{p99ToWell, p99, "silent slow", func(r, to *row) bool {
		return r.lock == redlockFenced5.name && to.lock == healthy(redlockFenced5).name
	}},
}

func isRedsync(_, to *row) bool { return to.lock == redsyncRedigo5.name }
func hasTen(r *row) bool        { return strings.HasSuffix(r.lock, tenNames) }

// compare adds the ratios to the rows of a scenario. They are those within each round: both had the same weather.
func compare(rows []*row) {
	for _, r := range rows {
		for _, ref := range references {
			if ref.in != "" && !slices.Contains(strings.Fields(ref.in), r.scenario) {
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
			i := slices.IndexFunc(figures, func(f figure) bool { return f.name == ref.name })
			r.set(figures[i], ratios)
		}
	}
}

// table writes a table in Markdown. A column is of texts if it begins with one.
func table(head []string, rows [][]string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	for _, first := range rows[0] {
		if first != "" && strings.ContainsAny(first[:1], "abcdefghijklmnopqrstuvwxyz*`") {
			b.WriteString("|-")
		} else {
			b.WriteString("|-:")
		}
	}
	b.WriteString("|\n")
	for _, cells := range rows {
		line(cells)
	}
	return b.String()
}

// tables show rows with all their figures: those that begin with the same figure have a table together.
func tables(rows []*row) string {
	var b strings.Builder
	for len(rows) > 0 {
		kind := firstFigure(rows[0])
		var same, rest []*row
		for _, r := range rows {
			if firstFigure(r) == kind {
				same = append(same, r)
			} else {
				rest = append(rest, r)
			}
		}
		b.WriteString("\n" + tableOf(same))
		rows = rest
	}
	return b.String()
}

func firstFigure(r *row) string {
	i := slices.IndexFunc(figures, func(f figure) bool { _, ok := r.figures[f.name]; return ok })
	if i < 0 {
		return ""
	}
	return figures[i].name
}

func tableOf(rows []*row) string {
	head, cells := []string{"n", "lock", "masters"}, make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{strconv.Itoa(r.n), r.lock, strconv.Itoa(r.masters)}
	}
	for _, f := range figures {
		if !slices.ContainsFunc(rows, func(r *row) bool { _, ok := r.figures[f.name]; return ok }) {
			continue
		}
		head = append(head, f.name)
		for i, r := range rows {
			text := ""
			if v, ok := r.figures[f.name]; ok {
				text = number(v)
				if f.spread {
					text = fmt.Sprintf("%s (%s–%s)", text, number(r.figures[leastOf(f.name)]), number(r.figures[mostOf(f.name)]))
				}
			}
			cells[i] = append(cells[i], text)
		}
	}
	return table(head, cells)
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
