package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The charts of the pages. Each answers the one question that its title asks, and is a row of the table below; its
// figures are the medians of results. Bars begin at zero; lines are on logarithmic axes. How both look is in plot.go.
type chart struct {
	file     string
	question string
	about    string // what was measured, beneath the question
	scenario string
	at       int    // bars, with so many goroutines; 0: lines, against the number of what follows
	counts   string // what goes from left to right
	masters  bool   // the labels say how many masters each uses
	values   string // what their axis says
	unit     unit
	of       string  // the figure, if the series has none of its own
	per      float64 // what a unit of the axis is in those of the figure; 0: the same
	series   []series
}

// A series is a bar or a line.
type series struct {
	contestant string
	label      string // "": the contestant's name
	note       string // beneath the label
	color      hue    // a contestant has the same one in all charts
	of         string // "": the chart's figure
}

var charts = []chart{
	{
		file:     "uncontended.svg",
		question: "How fast is an uncontended lock?",
		about:    "Each of 64 goroutines locks and unlocks names of its own.",
		scenario: "uncontended", at: 64, masters: true,
		values: "cycles of lock + unlock per second", unit: plain, of: rate,
		series: uncontended,
	},
	{
		file:     "goroutines.svg",
		question: "How does the rate grow with goroutines?",
		about:    "Each goroutine locks and unlocks names of its own.",
		scenario: "uncontended", counts: "goroutines", masters: true,
		values: "cycles of lock + unlock per second", unit: plain, of: rate,
		series: uncontended,
	},
	{
		file:     "contended.svg",
		question: "How long does the unluckiest in a hundred wait for one name?",
		about:    "Each has a client of its own and holds the lock for 1 ms.",
		scenario: "contended", counts: "contenders", masters: true,
		values: "p99 of the wait", unit: milliseconds, of: p99, per: 1000,
		series: []series{
			{contestant: "redlock", color: blue},
			{contestant: "redsync+redigo", color: orange},
			{contestant: "rueidislock", color: purple},
			{contestant: "bsm/redislock", color: green},
		},
	},
	{
		file:     "crowd-rest.svg",
		question: "How much CPU do clients at rest take?",
		about:    "They lock nothing, and ask each of five masters every 5 to 15 s how it is.",
		scenario: "crowd", counts: "clients",
		values: "% of one core", unit: percent,
		series: []series{
			{contestant: atRest, label: "all clients together", color: blue, of: clientShare},
			{contestant: atRest, label: "the busiest master", color: orange, of: busiestShare},
		},
	},
	{
		file:     "crowd-times.svg",
		question: "How long does the unluckiest client wait in a crowd?",
		about:    "TTL 10 s; clients and masters share the machine.",
		scenario: "crowd", counts: "clients",
		values: "the longest wait of any client", unit: milliseconds,
		series: []series{
			{
				contestant: allOpen, label: "all open at one moment", note: "until each has had its first lock",
				color: blue, of: took,
			},
			{
				contestant: oneName, label: "all want one name", note: "until each has had it",
				color: pink, of: took,
			},
			{
				contestant: masterReturns, label: "a master dies and returns",
				note: "one more client's worst cycle", color: orange, of: "worst ms",
			},
		},
	},
}

// On five masters, then on one: a weaker promise, with which users compare.
var uncontended = []series{
	{contestant: "redlock plain", note: "no tokens", color: teal},
	{contestant: "redlock", label: "redlock (fenced)", color: blue},
	{contestant: "redsync+rueidis fail-fast", color: pink},
	{contestant: "redsync+redigo", color: orange},
	{contestant: "rueidislock", color: purple},
	{contestant: "bsm/redislock", color: green},
}

// plotted is a series with its figures.
type plotted struct {
	series
	nodes  int
	points []point // of lines, by their number; of bars, one
}

type point struct {
	n                 int // goroutines, contenders or clients
	low, middle, high float64
}

var errNotMeasured = errors.New("not measured")

// figures finds what the chart shows, and of how many rounds it is the median.
func (c *chart) figures(r *results) (all []plotted, rounds string, err error) {
	one := r.of(c.scenario)
	if one == nil {
		return nil, "", fmt.Errorf("scenario %s: %w", c.scenario, errNotMeasured)
	}
	for _, s := range c.series {
		var rows []*row
		for _, r := range r.rows {
			if r.scenario == c.scenario && r.lock == s.contestant && (c.at == 0 || r.n == c.at) && r.figures[hung] == 0 {
				rows = append(rows, r)
			}
		}
		if len(rows) == 0 || c.at == 0 && len(rows) == 1 {
			return nil, "", fmt.Errorf("scenario %s: %s: %w", c.scenario, s.contestant, errNotMeasured)
		}
		p, err := c.plot(s, rows)
		if err != nil {
			return nil, "", fmt.Errorf("scenario %s: %s: %w", c.scenario, s.contestant, err)
		}
		all = append(all, p)
	}
	return all, one["rounds"], nil
}

func (c *chart) plot(s series, rows []*row) (plotted, error) {
	p := plotted{series: s, nodes: rows[0].masters}
	p.label = cmp.Or(s.label, s.contestant)
	name, per := cmp.Or(s.of, c.of), cmp.Or(c.per, 1)
	for _, r := range rows {
		middle := r.figures[name] / per
		at := point{r.n, middle, middle, middle}
		if low, ok := r.figures[leastOf(name)]; ok {
			at.low, at.high = low/per, r.figures[mostOf(name)]/per
		}
		p.points = append(p.points, at)
	}
	slices.SortFunc(p.points, func(a, b point) int { return a.n - b.n })
	if c.at == 0 && slices.ContainsFunc(p.points, func(p point) bool { return p.low <= 0 }) {
		return p, errors.New("a logarithmic axis has no place for nothing")
	}
	p.note = strings.Join(c.notes(&p, rows), ", ")
	return p, nil
}

// notes are the definition's, and what the figures themselves say against a contestant.
func (c *chart) notes(p *plotted, rows []*row) (notes []string) {
	switch {
	case c.masters && p.nodes == 1:
		notes = append(notes, "1 master")
	case c.masters:
		notes = append(notes, fmt.Sprintf("%d masters", p.nodes))
	}
	if p.note != "" {
		notes = append(notes, p.note)
	}
	if slices.ContainsFunc(rows, func(r *row) bool { return r.figures[orphans] > 0 }) {
		notes = append(notes, "leaves keys behind")
	}
	return notes
}

// draw writes each chart that there are figures for into a directory.
func (r *results) draw(dir string) error {
	for _, c := range charts {
		s, err := c.draw(r)
		if errors.Is(err, errNotMeasured) { // -contestant or -goroutines left it out, or it hung
			fmt.Fprintf(os.Stderr, "bench: no %s: %v\n", c.file, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", c.file, err)
		}
		if err := os.WriteFile(filepath.Join(dir, c.file), s.bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
