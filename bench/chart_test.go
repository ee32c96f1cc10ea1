package main

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
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

// Each chart answers one question, shows the last runs, to the byte, and can be read.
func TestCharts(t *testing.T) {
	r := lastRuns(t)
	files := map[string]bool{}
	for _, c := range charts {
		t.Run(c.file, func(t *testing.T) {
			if strings.Index(c.question, "?") != len(c.question)-1 || files[c.file] {
				t.Errorf("want one question in a file of its own, got %q", c.question)
			}
			files[c.file] = true
			if len(c.series) == 0 || len(c.series) > 6 {
				t.Errorf("%d series, want six at most", len(c.series))
			}
			var used []hue
			for _, s := range c.series {
				if slices.Contains(used, s.color) || s.color <= rule {
					t.Errorf("%s: another series, or the text, is %s, too", s.contestant, hues[s.color].name)
				}
				used = append(used, s.color)
			}
			s := cases.Must(c.draw(r))(t)
			got, err := os.ReadFile(filepath.Join(chartDir, c.file))
			if err != nil || string(got) != string(s.bytes()) {
				t.Errorf("it is behind the CSV files or the code: go run -C bench . -scenario none -publish ../docs (%v)", err)
			}
			want := []string{}
			if c.at == 0 {
				want = append(want, c.values+logScale, c.counts+logScale)
			}
			checkTexts(t, s, want)
		})
	}
}

// checkTexts sees that none is clipped or overlaps another, and which say that an axis is logarithmic. The boxes are
// estimates for a wide font. They stand a little apart, and within the picture.
func checkTexts(t *testing.T, s *sheet, logarithmic []string) {
	t.Helper()
	if len(s.texts) < 10 {
		t.Errorf("only %d texts: this checks nothing", len(s.texts))
	}
	said := []string{}
	for i, a := range s.texts {
		if strings.HasSuffix(a.text, logScale) {
			said = append(said, a.text)
		}
		if a.left < margin/2 || a.top < 0 || a.right > sheetWidth-margin/2 || a.bottom > s.height {
			t.Errorf("%+v is not within %d × %v", a, sheetWidth, s.height)
		}
		for _, b := range s.texts[:i] {
			if a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom {
				t.Errorf("%q and %q overlap", a.text, b.text)
			}
		}
	}
	if !slices.Equal(said, logarithmic) {
		t.Errorf("log scale: got %q, want %q", said, logarithmic)
	}
}

// A chart that no page shows is deleted. That what pages show is there is a test of docs.
func TestEveryChartIsShown(t *testing.T) {
	var pages string
	for _, pattern := range []string{"../*.md", "../docs/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, file := range files {
			text := cases.Must(os.ReadFile(file))(t)
			pages += string(text)
		}
	}
	files, err := filepath.Glob(filepath.Join(chartDir, "*.svg"))
	if err != nil || len(files) != len(charts) {
		t.Errorf("got the charts %q, %v; want %d", files, err, len(charts))
	}
	for _, c := range charts {
		if !strings.Contains(pages, "benchmarks/"+c.file+")") {
			t.Errorf("%s: no page shows it", c.file)
		}
	}
}

func TestTextsAreLargeEnoughToRead(t *testing.T) {
	var got []float64
	for _, m := range regexp.MustCompile(`(\d+)px`).FindAllStringSubmatch(styleSheet, -1) {
		v, _ := strconv.ParseFloat(m[1], 64)
		got = append(got, v)
	}
	if want := []float64{normal.size, titled.size, small.size}; !slices.Equal(got, want) || slices.Min(got) < 12 {
		t.Errorf("sizes in the style sheet: got %v, want those that texts are measured with, %v, and 12 at least", got, want)
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
		scenario: "s", counts: "goroutines", masters: true, unit: milliseconds, of: p99, per: 1000,
		series: []series{{contestant: "a", note: "given"}},
	}
	draw := func(left, of float64) ([]plotted, error) {
		all, _, err := c.figures(&results{runs: []run{{"scenario": "s"}}, rows: []*row{
			{scenario: "s", lock: "a", masters: 5, n: 1, figures: map[string]float64{orphans: left, p99: 1138}},
			{scenario: "s", lock: "a", masters: 5, n: 16, figures: map[string]float64{p99: of}},
			{scenario: "s", lock: "a", masters: 5, n: 64, figures: map[string]float64{hung: 1}},
		}})
		return all, err
	}
	for left, want := range map[float64]string{0: "5 masters, given", 9: "5 masters, given, leaves keys behind"} {
		all, err := draw(left, 8489e3)
		if err != nil || len(all) != 1 || all[0].note != want || len(all[0].points) != 2 {
			t.Errorf("got %+v, %v; want two points, and the note %q", all, err, want)
			continue
		}
		for i, want := range []string{"1.14 ms", "8.49 s"} {
			cases.Equals(t, c.unit.figure(all[0].points[i].middle), want, "point %d", i)
		}
	}
	if _, err := draw(0, 0); err == nil || errors.Is(err, errNotMeasured) {
		t.Errorf("0 on a logarithmic axis: got %v, want an error", err)
	}
	c.at = 64
	if _, err := draw(0, 1); !errors.Is(err, errNotMeasured) {
		t.Errorf("hung: got %v, want %v", err, errNotMeasured)
	}
}

func TestScales(t *testing.T) {
	for _, of := range []struct {
		scale  scale
		unit   unit
		marks  string
		middle float64 // what is half-way
	}{
		{linear(84952, 100, 200), plain, "0 20,000 40,000 60,000 80,000", 42476},
		{
			logarithmic(2000, 120000, 100, 200), plain, "2,000 5,000 10,000 20,000 50,000 100,000 200,000", 20000,
		},
		{logarithmic(.4, 4000, 100, 200), milliseconds, "1 ms 10 ms 100 ms 1 s", math.Sqrt(.2 * 5000)},
		{logarithmic(.14, 3.5, 100, 200), percent, "0.1 % 0.2 % 0.5 % 1 % 2 % 5 %", math.Sqrt(.5)},
	} {
		var marks []string
		for _, v := range of.scale.marks {
			marks = append(marks, of.unit.mark(v))
		}
		if got := strings.Join(marks, " "); got != of.marks {
			t.Errorf("got marks %q, want %q", got, of.marks)
		}
		if got := of.scale.at(of.middle); math.Abs(got-150) > .01 {
			t.Errorf("%s: %v is at %v, want it half-way", of.marks, of.middle, got)
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
