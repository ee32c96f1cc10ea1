package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The measures of all charts.
const (
	margin    = 12.0
	rightEdge = sheetWidth - margin
	bodyTop   = 70.0 // beneath the question and what was measured
	rowPitch  = 46.0
	barWidth  = 22.0
	apart     = 12.0 // rows on fewer masters from those above
	plotHigh  = 300.0
)

// draw lays the chart out, with the figures of a report.
func (c *chart) draw(r *results) (*sheet, error) {
	all, rounds, err := c.figures(r)
	if err != nil {
		return nil, err
	}
	s := &sheet{name: c.question}
	s.write(margin, 27, ink, titled, c.question)
	about := c.about + " One run."
	if rounds > 1 {
		about = fmt.Sprintf("%s Median of %d rounds; thin line: least to most.", c.about, rounds)
	}
	s.write(margin, 49, soft, normal, about)
	if c.kind == lines {
		c.drawLines(s, all)
	} else {
		c.drawRows(s, all)
	}
	return s, nil
}

// A scale puts values between two places.
type scale struct {
	log       bool
	low, high float64
	from, to  float64
	marks     []float64
}

// scale has whole steps at both ends of a logarithmic axis. One that is linear begins at zero, since bars do, and ends
// with the largest value, to leave the bars their room.
func (a axis) scale(low, high, from, to float64) scale {
	s := scale{log: a.log, low: low, high: high, from: from, to: to}
	if !a.log {
		s.low = 0
		step := steps(high/5, high)[1]
		for v := 0.0; v <= high; v += step {
			s.marks = append(s.marks, v)
		}
		return s
	}
	around := steps(low, high)
	s.low, s.high = around[0], around[len(around)-1]
	for _, v := range around {
		// Each of 1, 2 and 5 where there is room for them, else the powers of ten.
		if s.high/s.low <= 200 || strings.HasPrefix(strconv.FormatFloat(v, 'e', 0, 64), "1e") {
			s.marks = append(s.marks, v)
		}
	}
	return s
}

// steps are the values of 1, 2 and 5 times powers of ten, from the last one up to low to the first one from high on.
func steps(low, high float64) (all []float64) {
	for power := int(math.Floor(math.Log10(low))); ; power++ {
		for _, digit := range []string{"1", "2", "5"} {
			v, _ := strconv.ParseFloat(digit+"e"+strconv.Itoa(power), 64) // the nearest there is, as a literal would be
			if v <= low {
				all = nil
			}
			if all = append(all, v); v >= high {
				return all
			}
		}
	}
}

func (s scale) at(v float64) float64 {
	share := (v - s.low) / (s.high - s.low)
	if s.log {
		share = math.Log(v/s.low) / math.Log(s.high/s.low)
	}
	return s.from + share*(s.to-s.from)
}

func (a axis) text() string {
	if a.log {
		return a.title + ", log scale"
	}
	return a.title
}

// bounds are the least and the most of all rounds.
func bounds(all []plotted) (low, high float64) {
	low = math.Inf(1)
	for _, p := range all {
		for _, at := range p.points {
			low, high = min(low, at.low), max(high, at.high)
		}
	}
	return low, high
}

// drawRows has a row for each series: its name at the left, then its bar with the figure at the end, or its dot with
// the figures in a column at the right.
func (c *chart) drawRows(s *sheet, all []plotted) {
	names, figures := 0.0, 0.0
	for _, p := range all {
		names = max(names, strong.width(p.label), small.width(p.note))
		figures = max(figures, strong.width(c.figure(p)))
	}
	from, to := margin+names+16, rightEdge-figures-14
	low, high := bounds(all)
	values := c.values.scale(low, high, from, to)
	top := bodyTop
	middles := make([]float64, len(all))
	bottom := top
	for i, p := range all {
		if i > 0 && p.nodes != all[i-1].nodes {
			bottom += apart
		}
		middles[i] = bottom + rowPitch/2
		bottom += rowPitch
	}
	for _, v := range values.marks {
		s.path(rule, "h", values.at(v), top, values.at(v), bottom)
		s.write(values.at(v), bottom+18, soft, small.at("middle"), c.values.unit.mark(v))
	}
	s.write(from, bottom+38, soft, small, c.values.text())
	s.height = bottom + 50
	for i, p := range all {
		middle, v := middles[i], p.points[0]
		if p.note == "" {
			s.write(margin, middle+4.5, ink, strong, p.label)
		} else {
			s.write(margin, middle-3, ink, strong, p.label)
			s.write(margin, middle+13, soft, small, p.note)
		}
		low, at, high := values.at(v.low), values.at(v.middle), values.at(v.high)
		if c.kind == bars {
			s.bar(p.color, from, middle-barWidth/2, at-from, barWidth)
			s.whisker(ink, low, high, middle)
			s.write(high+8, middle+4.5, ink, strong, c.figure(p))
			continue
		}
		s.path(rule, "h", from, middle, to, middle)
		if p.baseline {
			s.dashed(p.color, at, top, at, bottom)
		}
		s.whisker(p.color, low, high, middle)
		s.dot(p.color, at, middle, 6)
		s.write(rightEdge, middle+4.5, ink, strong.at("end"), c.figure(p))
	}
}

// figure is the text of a row's median.
func (c *chart) figure(p plotted) string {
	text := c.values.unit.figure(p.points[0].middle)
	if p.stuck {
		return "≥ " + text
	}
	return text
}

func (s *sheet) whisker(h hue, low, high, y float64) {
	const tip = 4
	s.path(h, "w", low, y-tip, low, y+tip)
	s.path(h, "w", low, y, high, y)
	s.path(h, "w", high, y-tip, high, y+tip)
}

// ahead is how far a line's end is from its name.
const ahead = 30.0

// drawLines has the names of the lines at their right ends.
func (c *chart) drawLines(s *sheet, all []plotted) {
	names := 0.0
	for _, p := range all {
		names = max(names, strong.width(p.label), small.width(p.note))
	}
	top := bodyTop + 22
	bottom := top + plotHigh
	low, high := bounds(all)
	values := c.values.scale(low, high, bottom, top)
	marks := 0.0
	for _, v := range values.marks {
		marks = max(marks, small.width(c.values.unit.mark(v)))
	}
	from, to := margin+marks+8, rightEdge-names-ahead
	s.write(margin, bodyTop+8, soft, small, c.values.text())
	for _, v := range values.marks {
		s.path(rule, "h", from, values.at(v), to, values.at(v))
		s.write(from-8, values.at(v)+4, soft, small.at("end"), c.values.unit.mark(v))
	}
	s.path(soft, "h", from, bottom, to, bottom)
	across := c.across(s, all, from, to, bottom)
	s.height = bottom + 52
	for _, p := range all {
		var through []float64
		for _, at := range p.points {
			x := across.at(float64(at.n))
			through = append(through, x, values.at(at.middle))
			s.path(p.color, "w", x, values.at(at.low), x, values.at(at.high))
		}
		s.path(p.color, "l", through...)
		for i := 0; i < len(through); i += 2 {
			s.dot(p.color, through[i], through[i+1], 3.5)
		}
	}
	s.names(all, across, values)
}

// across is the scale of what is counted, with a mark at each number for which something was measured.
func (c *chart) across(s *sheet, all []plotted, from, to, bottom float64) scale {
	var counts []int
	for _, p := range all {
		for _, at := range p.points {
			counts = append(counts, at.n)
		}
	}
	slices.Sort(counts)
	counts = slices.Compact(counts)
	across := scale{log: true, low: float64(counts[0]), high: float64(counts[len(counts)-1]), from: from + 16, to: to - 10}
	for _, n := range counts {
		x := across.at(float64(n))
		s.path(soft, "h", x, bottom, x, bottom+5)
		s.write(x, bottom+20, soft, small.at("middle"), unit(plain).mark(float64(n)))
	}
	s.write((from+to)/2, bottom+40, soft, small.at("middle"), c.counts+", log scale")
	return across
}

// names writes the names of lines beside their ends, in the lines' colours.
func (s *sheet) names(all []plotted, across, values scale) {
	last := func(p plotted) point { return p.points[len(p.points)-1] }
	slices.SortStableFunc(all, func(a, b plotted) int { return cmp.Compare(last(b).middle, last(a).middle) })
	ends, tall := make([]float64, len(all)), make([]float64, len(all))
	for i, p := range all {
		ends[i], tall[i] = values.at(last(p).middle), 20
		if p.note != "" {
			tall[i] = 35
		}
	}
	x := across.to + 10 + ahead
	for i, y := range beside(ends, tall, values.to-apart, values.from+apart) {
		p := all[i]
		s.path(p.color, "h", across.at(float64(last(p).n))+5, ends[i], x-6, y)
		if p.note == "" {
			s.write(x, y+4.5, p.color, strong, p.label)
		} else {
			s.write(x, y-3, p.color, strong, p.label)
			s.write(x, y+13, soft, small, p.note)
		}
	}
}

// beside moves labels that want to stand at the given heights, in order, apart from each other as little as it can.
func beside(wanted, tall []float64, top, bottom float64) []float64 {
	at := slices.Clone(wanted)
	for range 1000 {
		for i := range at {
			at[i] = min(max(at[i], top+tall[i]/2), bottom-tall[i]/2)
			if i == 0 {
				continue
			}
			if over := at[i-1] + tall[i-1]/2 + tall[i]/2 - at[i]; over > 0 {
				at[i-1] -= over / 2
				at[i] += over / 2
			}
		}
	}
	return at
}

// A unit puts a value into the words that suit its size.
type unit func(float64) (value float64, suffix string)

func plain(v float64) (float64, string)   { return v, "" }
func percent(v float64) (float64, string) { return v, " %" }

func milliseconds(ms float64) (float64, string) {
	if ms >= 1000 {
		return ms / 1000, " s"
	}
	return ms, " ms"
}

// mark is the text at a mark of an axis.
func (u unit) mark(v float64) string {
	v, suffix := u(v)
	if v >= 1000 {
		return thousands(v) + suffix
	}
	return strconv.FormatFloat(v, 'f', -1, 64) + suffix
}

// figure shows three digits: the rounds differ in the third.
func (u unit) figure(v float64) string {
	v, suffix := u(v)
	if v > 0 {
		last := math.Pow10(int(math.Floor(math.Log10(v))) - 2)
		v = math.Round(v/last) * last
	}
	if v >= 1000 {
		return thousands(v) + suffix
	}
	return number(v) + suffix
}
