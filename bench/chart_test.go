package main

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const chartDir = "../docs/benchmarks"

func lastRuns(t *testing.T) *results {
	t.Helper()
	r, err := load(chartDir)
	if err != nil || len(r.runs) == 0 {
		t.Fatalf("%d runs, %v", len(r.runs), err)
	}
	return r
}

func TestAChartAnswersOneQuestion(t *testing.T) {
	r := lastRuns(t)
	files := map[string]bool{}
	for _, c := range charts {
		if !strings.HasSuffix(c.question, "?") || strings.Count(c.question, "?") != 1 {
			t.Errorf("%s: %q is no question", c.file, c.question)
		}
		if files[c.file] {
			t.Errorf("%s: two charts", c.file)
		}
		files[c.file] = true
		if len(c.series) == 0 || len(c.series) > 6 {
			t.Errorf("%s: %d series, want six at most", c.file, len(c.series))
		}
		var used []hue
		for _, s := range c.series {
			if slices.Contains(used, s.color) || s.color <= rule {
				t.Errorf("%s: %s: another series, or the text, is %s, too", c.file, s.contestant, hues[s.color].name)
			}
			used = append(used, s.color)
		}
		all, _, err := c.figures(r)
		if err != nil || len(all) != len(c.series) {
			t.Errorf("%s: %d of %d series have figures: %v", c.file, len(all), len(c.series), err)
		}
	}
}

// The charts show the last run: the same figures give the same bytes.
func TestTheChartsShowTheLastRuns(t *testing.T) {
	r := lastRuns(t)
	for _, c := range charts {
		s, err := c.draw(r)
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
			continue
		}
		got, err := os.ReadFile(filepath.Join(chartDir, c.file))
		if err != nil {
			t.Error(err)
		} else if string(got) != string(s.bytes()) {
			t.Errorf("%s is behind the CSV files or the code: go run -C bench . -scenario none -publish ../docs", c.file)
		}
	}
}

// A chart that no page shows is deleted, and a page shows none that nobody draws.
func TestEveryChartIsShown(t *testing.T) {
	drawn := map[string]bool{}
	for _, c := range charts {
		drawn[filepath.Join(chartDir, c.file)] = true
	}
	image := regexp.MustCompile(`!\[[^\]]+\]\(([^()\s]+\.svg)\)|<img [^>]*src="([^"]+\.svg)"`)
	shown := map[string]bool{}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		for _, m := range image.FindAllStringSubmatch(string(text), -1) {
			to := filepath.Join(filepath.Dir(name), m[1]+m[2])
			shown[to] = true
			if filepath.Dir(to) == filepath.Clean(chartDir) && !drawn[to] {
				t.Errorf("%s shows %s, which nobody draws", name, to)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(chartDir, "*.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !drawn[file] {
			t.Errorf("%s: nobody draws it", file)
		}
	}
	for file := range drawn {
		if !slices.Contains(files, file) {
			t.Errorf("%s has not been drawn", file)
		}
		if !shown[file] {
			t.Errorf("%s: no page shows it", file)
		}
	}
}

func TestALogarithmicAxisSaysSo(t *testing.T) {
	r := lastRuns(t)
	for _, c := range charts {
		s, err := c.draw(r)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, b := range s.texts {
			if title, ok := strings.CutSuffix(b.text, ", log scale"); ok {
				got = append(got, title)
			}
		}
		var want []string
		if c.values.log {
			want = append(want, c.values.title)
		}
		if c.kind == lines {
			want = append(want, c.counts)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: log scale at %q, want %q", c.file, got, want)
		}
	}
}

// The boxes are estimates for a wide font. They stand a little apart, and within the picture.
func TestNoTextIsClippedOrOverlapsAnother(t *testing.T) {
	r := lastRuns(t)
	for _, c := range charts {
		s, err := c.draw(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.texts) < 2+2*len(c.series) {
			t.Errorf("%s: only %d texts: this checks nothing", c.file, len(s.texts))
		}
		for i, a := range s.texts {
			if a.left < margin/2 || a.top < 0 || a.right > sheetWidth-margin/2 || a.bottom > s.height {
				t.Errorf("%s: %+v is not within %d × %v", c.file, a, sheetWidth, s.height)
			}
			for _, b := range s.texts[:i] {
				if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
					t.Errorf("%s: %q and %q overlap", c.file, a.text, b.text)
				}
			}
		}
	}
}

func TestTextsAreLargeEnoughToRead(t *testing.T) {
	sizes := regexp.MustCompile(`(\d+)px`).FindAllStringSubmatch(styleSheet, -1)
	var got []float64
	for _, m := range sizes {
		v, _ := strconv.ParseFloat(m[1], 64)
		got = append(got, v)
	}
	if want := []float64{textSize, titleSize, smallSize}; !slices.Equal(got, want) {
		t.Errorf("sizes in the style sheet: got %v, want those that texts are measured with, %v", got, want)
	}
	if slices.Min(got) < 12 {
		t.Errorf("got %v px, want 12 at least", slices.Min(got))
	}
}

const (
	white      = "#ffffff"
	darkGround = "#0d1117" // GitHub's
)

// WCAG 2.2: 4.5 for text, 3 for shapes. Names of lines are in the lines' colours, so these are text, too.
func TestColoursCanBeToldFromTheBackground(t *testing.T) {
	seen := map[string]string{}
	for h, c := range hues {
		for _, v := range []string{c.light, c.dark} {
			if seen[v] != "" {
				t.Errorf("%s and %s are both %s", seen[v], c.name, v)
			}
			seen[v] = c.name
		}
		if hue(h) == rule {
			continue // figures and marks say what its lines say
		}
		if light, dark := contrast(t, c.light, white), contrast(t, c.dark, darkGround); light < 4.5 || dark < 4.5 {
			t.Errorf("%s: contrasts of %.2f on white and %.2f on dark, want 4.5 at least", c.name, light, dark)
		}
		if hue(h) < blue {
			continue
		}
		if light, dark := contrast(t, c.light, darkGround), contrast(t, c.dark, white); light < 3 || dark < 3 {
			t.Errorf("%s: contrasts of %.2f and %.2f on the other background, want 3 at least", c.name, light, dark)
		}
	}
	if got := contrast(t, "#000000", white); math.Abs(got-21) > .01 {
		t.Errorf("black on white: %.2f, want 21", got)
	}
}

func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + .05) / (min(x, y) + .05)
}

// luminance is the relative one of WCAG 2.2.
func luminance(t *testing.T, color string) (sum float64) {
	t.Helper()
	v, err := strconv.ParseUint(strings.TrimPrefix(color, "#"), 16, 32)
	if err != nil || len(color) != 7 {
		t.Fatalf("%q is no colour", color)
	}
	for i, share := range []float64{.0722, .7152, .2126} {
		part := float64(v>>(8*i)&255) / 255
		if part <= .04045 {
			part /= 12.92
		} else {
			part = math.Pow((part+.055)/1.055, 2.4)
		}
		sum += share * part
	}
	return sum
}

// What speaks against a contestant stands beside it, and what has not been measured is not drawn.
func TestNotesComeFromTheFigures(t *testing.T) {
	c := chart{
		scenario: "s", kind: dots, at: 16, masters: true, values: axis{log: true, unit: milliseconds}, of: p99, per: 1000,
		series: []series{{contestant: "a", note: "given"}},
	}
	draw := func(figures map[string]float64) (plotted, error) {
		all, _, err := c.figures(&results{runs: []run{{scenario: "s"}}, rows: []*row{
			{scenario: "s", lock: "a", masters: 5, n: 1, figures: map[string]float64{orphans: 9}},
			{scenario: "s", lock: "a", masters: 5, n: 16, figures: figures},
		}})
		if err != nil {
			return plotted{}, err
		}
		return all[0], nil
	}
	type figures = map[string]float64
	for _, of := range []struct {
		figures      figures
		note, figure string
	}{
		{figures{mostOf(rate): 1, p99: 1138, longest: 9000}, "5 masters, given", "1.14 ms"},
		{figures{mostOf(rate): 1, p99: 1138, longest: 9e6}, "5 masters, given, longest cycle 9.00 s", "1.14 ms"},
		{figures{mostOf(rate): 1, p99: 1138, orphans: 1}, "5 masters, given, leaves keys behind", "1.14 ms"},
		{figures{p99: 8489e3, longest: 8500e3}, "5 masters, given, no cycle ended", "≥ 8.49 s"},
	} {
		p, err := draw(of.figures)
		if err != nil || p.note != of.note || c.figure(p) != of.figure {
			t.Errorf("got %q, %q, %v; want %q, %q", p.note, c.figure(p), err, of.note, of.figure)
		}
	}
	if _, err := draw(figures{hung: 1}); !errors.Is(err, errNotMeasured) {
		t.Errorf("hung: got %v, want %v", err, errNotMeasured)
	}
	if _, err := draw(figures{}); err == nil {
		t.Error("0 on a logarithmic axis: want an error")
	}
}

func TestScales(t *testing.T) {
	for _, of := range []struct {
		axis      axis
		low, high float64
		marks     string
		middle    float64 // what is half-way
	}{
		{axis{unit: plain}, 5, 84952, "0 20,000 40,000 60,000 80,000", 42476},
		{axis{log: true, unit: plain}, 2000, 120000, "2,000 5,000 10,000 20,000 50,000 100,000 200,000", 20000},
		{axis{log: true, unit: milliseconds}, .4, 4000, "1 ms 10 ms 100 ms 1 s", math.Sqrt(.2 * 5000)},
		{axis{log: true, unit: percent}, .14, 3.5, "0.1 % 0.2 % 0.5 % 1 % 2 % 5 %", math.Sqrt(.5)},
	} {
		s := of.axis.scale(of.low, of.high, 100, 200)
		var marks []string
		for _, v := range s.marks {
			marks = append(marks, of.axis.unit.mark(v))
		}
		if got := strings.Join(marks, " "); got != of.marks {
			t.Errorf("%v to %v: got marks %q, want %q", of.low, of.high, got, of.marks)
		}
		if got := s.at(of.middle); math.Abs(got-150) > .01 {
			t.Errorf("%v to %v: %v is at %v, want it half-way", of.low, of.high, of.middle, got)
		}
	}
}

func TestNamesOfLinesMoveApart(t *testing.T) {
	tall := []float64{20, 20, 20}
	for _, of := range []struct{ wanted, want []float64 }{
		{[]float64{20, 50, 80}, []float64{20, 50, 80}},
		{[]float64{50, 50, 90}, []float64{40, 60, 90}},
		{[]float64{0, 0, 0}, []float64{10, 30, 50}},
		{[]float64{100, 100, 100}, []float64{50, 70, 90}},
	} {
		got := beside(of.wanted, tall, 0, 100)
		for i := range got {
			if math.Abs(got[i]-of.want[i]) > .1 {
				t.Errorf("%v: got %v, want %v", of.wanted, got, of.want)
				break
			}
		}
	}
}
