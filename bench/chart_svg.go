package main

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A sheet is an SVG picture: the texts and shapes that charts consist of, in colours that a style sheet within the
// picture knows in a light and a dark form, on no background.
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

// All charts are as wide as a page, so that 12 and more units are 12 and more pixels.
const sheetWidth = 760

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
	red
	ochre
	gray
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
	red:    {"red", "#cf222e", "#f85149"},
	ochre:  {"ochre", "#9a6700", "#b8860b"},
	gray:   {"gray", "#6e7781", "#8b949e"},
}

const (
	titleSize = 18.0
	textSize  = 13.0
	smallSize = 12.0
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
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" role="img" `+
		`width="%d" height="%s" viewBox="0 0 %[1]d %[2]s">`+"\n", sheetWidth, length(s.height))
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n%s", html.EscapeString(s.name), styleSheet)
	slices.Sort(s.hues)
	var dark strings.Builder
	for _, h := range s.hues {
		fmt.Fprintf(&b, ".%s{color:%s}\n", hues[h].name, hues[h].light)
		fmt.Fprintf(&dark, ".%s{color:%s}\n", hues[h].name, hues[h].dark)
	}
	fmt.Fprintf(&b, "@media (prefers-color-scheme:dark){\n%s}\n</style>\n%s</svg>\n", dark.String(), s.body.String())
	return []byte(b.String())
}

func (s *sheet) class(h hue, others string) string {
	if !slices.Contains(s.hues, h) {
		s.hues = append(s.hues, h)
	}
	return strings.TrimSpace(hues[h].name + " " + others)
}

// A look is how a text is set.
type look struct {
	class  string
	size   float64
	wider  float64 // than in the usual weight
	anchor string  // which part of it is at its place: start, middle, end
}

var (
	titled = look{"t", titleSize, 1.1, "start"}
	normal = look{"", textSize, 1, "start"}
	strong = look{"b", textSize, 1.1, "start"}
	small  = look{"s", smallSize, 1, "start"}
)

func (l look) at(anchor string) look {
	l.anchor = anchor
	return l
}

// A box is where a text is.
type box struct {
	text                     string
	left, top, right, bottom float64
}

// write puts a text on its base line.
func (s *sheet) write(x, y float64, h hue, l look, text string) {
	anchor := ""
	left, wide := x, l.width(text)
	switch l.anchor {
	case "middle":
		left -= wide / 2
	case "end":
		left -= wide
	}
	if l.anchor != "start" {
		anchor = fmt.Sprintf(` text-anchor="%s"`, l.anchor)
	}
	fmt.Fprintf(&s.body, `<text x="%s" y="%s" class="%s"%s>%s</text>`+"\n",
		length(x), length(y), s.class(h, l.class), anchor, html.EscapeString(text))
	s.texts = append(s.texts, box{text, left, y - .8*l.size, left + wide, y + .22*l.size})
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

// path draws a line through points: x, y, x, y and so on.
func (s *sheet) path(h hue, class string, at ...float64) {
	var d strings.Builder
	for i := 0; i < len(at); i += 2 {
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		d.WriteString(letter + length(at[i]) + " " + length(at[i+1]))
	}
	fmt.Fprintf(&s.body, `<path class="%s" d="%s"/>`+"\n", s.class(h, class), d.String())
}

// dashed draws a straight line that is not one of the grid's.
func (s *sheet) dashed(h hue, x1, y1, x2, y2 float64) {
	fmt.Fprintf(&s.body, `<path class="%s" stroke-dasharray="4 4" d="M%s %sL%s %s"/>`+"\n",
		s.class(h, "h"), length(x1), length(y1), length(x2), length(y2))
}

func (s *sheet) bar(h hue, x, y, width, height float64) {
	fmt.Fprintf(&s.body, `<rect class="%s" x="%s" y="%s" width="%s" height="%s" rx="2"/>`+"\n",
		s.class(h, "f"), length(x), length(y), length(width), length(height))
}

func (s *sheet) dot(h hue, x, y, radius float64) {
	fmt.Fprintf(&s.body, `<circle class="%s" cx="%s" cy="%s" r="%s"/>`+"\n",
		s.class(h, "f"), length(x), length(y), length(radius))
}

// length shows a tenth of a unit. What lies half-way goes up even where the last bits of a float are a machine's own:
// the same figures give the same file everywhere.
func length(v float64) string {
	return strconv.FormatFloat(math.Floor(v*10+.5+1e-6)/10, 'f', -1, 64)
}
