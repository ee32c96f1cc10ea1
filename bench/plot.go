package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A sheet is an SVG picture, in colours that a style sheet within the picture knows in a light and a dark form, on no
// background.
//
// It is our own for the sake of that style sheet. gonum/plot, which drew these charts before, writes colour and font
// into a style attribute of every element, where no style sheet reaches them; it has no classes, and takes fonts from
// font files, not the reader's own. To draw twice, for <picture>, would double the files, and to rewrite its output
// would be a parser in place of this printer.
type sheet struct {
	height float64
	name   string // for those who do not see it
	body   strings.Builder
	texts  []box // where they are, roughly: the tests see whether any overlap
	hues   []hue // those in use
}

// A hue is a colour in two forms. The light one is for white, the dark one for #0d1117; either can be told from both,
// should a viewer not say which background it has.
type hue int

const (
	ink  hue = iota // texts
	soft            // texts beside the matter
	rule            // lines of the grid, which should hardly be seen
	blue
	teal
	orange
	pink
	purple
	green
)

var hues = [...]struct{ name, light, dark string }{
	ink:    {"ink", "#1f2328", "#e6edf3"},
	soft:   {"soft", "#59636e", "#9198a1"},
	rule:   {"rule", "#d8dee4", "#30363d"},
	blue:   {"blue", "#0969da", "#4493f8"},
	teal:   {"teal", "#0b7a80", "#2fa3a8"},
	orange: {"orange", "#bc4c00", "#db6d28"},
	pink:   {"pink", "#bf3989", "#db61a2"},
	purple: {"purple", "#8250df", "#a974f5"},
	green:  {"green", "#1a7f37", "#2ea043"},
}

// A look is how a text is set: its class, its size, and how much wider it is than in the usual weight.
type look struct {
	class       string
	size, wider float64
}

var (
	titled = look{"t", 18, 1.1}
	normal = look{"", 13, 1}
	strong = look{"b", 13, 1.1}
	small  = look{"s", 12, 1}
)

// The system's own fonts, so that a chart looks like the page around it.
const styleSheet = `text{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
text,.f{fill:currentColor}
.l{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round;stroke-linecap:round}
.h{fill:none;stroke:currentColor;stroke-width:1}
.w{fill:none;stroke:currentColor;stroke-width:1.5}
.t{font-size:18px;font-weight:600}
.b{font-weight:600}
.s{font-size:12px}
`

func (s *sheet) bytes() []byte {
	var b, dark strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" `+
		`width="%d" height="%s" viewBox="0 0 %[1]d %[2]s">`+"\n", sheetWidth, length(s.height))
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s", html.EscapeString(s.name), styleSheet)
	slices.Sort(s.hues)
	for _, h := range slices.Compact(s.hues) {
		fmt.Fprintf(&b, ".%s{color:%s}\n", hues[h].name, hues[h].light)
		fmt.Fprintf(&dark, ".%s{color:%s}\n", hues[h].name, hues[h].dark)
	}
	fmt.Fprintf(&b, "@media (prefers-color-scheme:dark){\n%s}\n</style>\n%s</svg>\n", dark.String(), s.body.String())
	return []byte(b.String())
}

// put writes an element. The first %s is its class; numbers among the others are lengths.
func (s *sheet) put(element string, h hue, class string, values ...any) {
	s.hues = append(s.hues, h)
	all := []any{strings.TrimSpace(hues[h].name + " " + class)}
	for _, v := range values {
		if x, ok := v.(float64); ok {
			v = length(x)
		}
		all = append(all, v)
	}
	fmt.Fprintf(&s.body, element+"\n", all...)
}

// length shows a tenth of a unit. What lies half-way goes up even where the last bits of a float are a machine's own:
// the same figures give the same file everywhere.
func length(v float64) string {
	return strconv.FormatFloat(math.Floor(v*10+.5+1e-6)/10, 'f', -1, 64)
}

func (s *sheet) path(h hue, class string, at ...float64) {
	var d strings.Builder
	for i := 0; i < len(at); i += 2 {
		d.WriteString("ML"[min(i, 1):min(i, 1)+1] + length(at[i]) + " " + length(at[i+1]))
	}
	s.put(`<path class="%s" d="%s"/>`, h, class, d.String())
}

func (s *sheet) dot(h hue, x, y, radius float64) {
	s.put(`<circle class="%s" cx="%s" cy="%s" r="%s"/>`, h, "f", x, y, radius)
}

// A box is where a text is.
type box struct {
	text                     string
	left, top, right, bottom float64
}

// The part of a text that is at its place.
type anchor string

const (
	atStart  anchor = ""
	atMiddle anchor = ` text-anchor="middle"`
	atEnd    anchor = ` text-anchor="end"`
)

// write puts a text on its base line.
func (s *sheet) write(x, y float64, h hue, l look, a anchor, text string) {
	s.put(`<text x="%[2]s" y="%[3]s" class="%[1]s"%[4]s>%[5]s</text>`, h, l.class,
		x, y, string(a), html.EscapeString(text))
	wide := l.width(text)
	left := x - map[anchor]float64{atMiddle: wide / 2, atEnd: wide}[a]
	s.texts = append(s.texts, box{text, left, y - .8*l.size, left + wide, y + .22*l.size})
}

// label writes a name, and a note beneath it, beside a height.
func (s *sheet) label(x, y float64, h hue, p plotted) {
	if p.note == "" {
		s.write(x, y+4.5, h, strong, atStart, p.label)
		return
	}
	s.write(x, y-3, h, strong, atStart, p.label)
	s.write(x, y+13, soft, small, atStart, p.note)
}

// width is that of a text in the wider ones of the system fonts. No renderer is at hand to ask.
func (l look) width(text string) (w float64) {
	for _, c := range text {
		switch {
		case strings.ContainsRune("ijl.,:;'|!", c):
			w += .32
		case strings.ContainsRune("fIrt()[]-/ ", c):
			w += .4
		case strings.ContainsRune("mwMW%≥+", c):
			w += .9
		case c >= 'A' && c <= 'Z':
			w += .7
		case c >= '0' && c <= '9':
			w += .64
		default:
			w += .61
		}
	}
	return w * l.size * l.wider
}

// The measures of all charts. They are as wide as a page, so that 12 and more units are 12 and more pixels.
const (
	sheetWidth = 760
	margin     = 12.0
	rightEdge  = sheetWidth - margin
	bodyTop    = 70.0 // beneath the question and what was measured
	rowPitch   = 46.0
	barWidth   = 22.0
	apart      = 12.0 // rows on fewer masters from those above
	plotHigh   = 300.0
	ahead      = 30.0 // a line's end from its name
)

// draw lays the chart out, with the figures of results.
func (c *chart) draw(r *results) (*sheet, error) {
	all, rounds, err := c.figures(r)
	if err != nil {
		return nil, err
	}
	s := &sheet{name: c.question}
	s.write(margin, 27, ink, titled, atStart, c.question)
	about := c.about + " One run."
	if rounds != "1" {
		about = fmt.Sprintf("%s Median of %s rounds; thin line: least to most.", c.about, rounds)
	}
	s.write(margin, 49, soft, normal, atStart, about)
	names, low, high := 0.0, math.Inf(1), 0.0
	for _, p := range all {
		names = max(names, strong.width(p.label), small.width(p.note))
		for _, at := range p.points {
			low, high = min(low, at.low), max(high, at.high)
		}
	}
	if c.at > 0 {
		c.drawBars(s, all, names, high)
	} else {
		c.drawLines(s, all, names, low, high)
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

// linear begins at zero, since bars do, and ends with the largest value, to leave the bars their room.
func linear(high, from, to float64) scale {
	s := scale{high: high, from: from, to: to}
	step := steps(high/5, high)[1]
	for v := 0.0; v <= high; v += step {
		s.marks = append(s.marks, v)
	}
	return s
}

// logarithmic has whole steps at both ends.
func logarithmic(low, high, from, to float64) scale {
	around := steps(low, high)
	s := scale{log: true, low: around[0], high: around[len(around)-1], from: from, to: to}
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

// drawBars has a row for each series: its name at the left, then its bar with the figure at the end.
func (c *chart) drawBars(s *sheet, all []plotted, names, high float64) {
	figures := 0.0
	for _, p := range all {
		figures = max(figures, strong.width(c.unit.figure(p.points[0].middle)))
	}
	from := margin + names + 16
	values := linear(high, from, rightEdge-figures-14)
	middles, bottom := make([]float64, len(all)), bodyTop
	for i, p := range all {
		if i > 0 && p.nodes != all[i-1].nodes {
			bottom += apart
		}
		middles[i] = bottom + rowPitch/2
		bottom += rowPitch
	}
	for _, v := range values.marks {
		s.path(rule, "h", values.at(v), bodyTop, values.at(v), bottom)
		s.write(values.at(v), bottom+18, soft, small, atMiddle, c.unit.mark(v))
	}
	s.write(from, bottom+38, soft, small, atStart, c.values)
	s.height = bottom + 50
	for i, p := range all {
		y, v := middles[i], p.points[0]
		s.label(margin, y, ink, p)
		s.put(`<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="2"/>`, p.color, "f",
			from, y-barWidth/2, values.at(v.middle)-from, barWidth)
		low, high := values.at(v.low), values.at(v.high)
		s.path(ink, "w", low, y-4, low, y+4)
		s.path(ink, "w", low, y, high, y)
		s.path(ink, "w", high, y-4, high, y+4)
		s.write(high+8, y+4.5, ink, strong, atStart, c.unit.figure(v.middle))
	}
}

// drawLines has the names of the lines at their right ends.
func (c *chart) drawLines(s *sheet, all []plotted, names, low, high float64) {
	top := bodyTop + 22
	bottom := top + plotHigh
	values := logarithmic(low, high, bottom, top)
	marks := 0.0
	for _, v := range values.marks {
		marks = max(marks, small.width(c.unit.mark(v)))
	}
	from, to := margin+marks+8, rightEdge-names-ahead
	s.write(margin, bodyTop+8, soft, small, atStart, c.values+logScale)
	for _, v := range values.marks {
		s.path(rule, "h", from, values.at(v), to, values.at(v))
		s.write(from-8, values.at(v)+4, soft, small, atEnd, c.unit.mark(v))
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

const logScale = ", log scale"

// across is the scale of what is counted, with a mark at each number for which something was measured.
func (c *chart) across(s *sheet, all []plotted, from, to, bottom float64) scale {
	var counts []int
	for _, p := range all {
		for _, at := range p.points {
			counts = append(counts, at.n)
		}
	}
	slices.Sort(counts)
	across := scale{
		log: true, low: float64(counts[0]), high: float64(counts[len(counts)-1]), from: from + 16, to: to - 10,
	}
	for _, n := range slices.Compact(counts) {
		x := across.at(float64(n))
		s.path(soft, "h", x, bottom, x, bottom+5)
		s.write(x, bottom+20, soft, small, atMiddle, unit(plain).mark(float64(n)))
	}
	s.write((from+to)/2, bottom+40, soft, small, atMiddle, c.counts+logScale)
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
		s.path(all[i].color, "h", across.at(float64(last(all[i]).n))+5, ends[i], x-6, y)
		s.label(x, y, all[i].color, all[i])
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
