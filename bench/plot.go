package main

import (
	"image/color"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// plot draws, for each scenario with more than one number of goroutines, the rate and the
// 99th percentile into SVG files of the scenario's name.
func (r *report) plot(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, res := range r.Scenarios {
		if res.renewals() {
			continue // their rate is set
		}
		if res.crowds() {
			if err := res.drawCrowd(dir); err != nil {
				return err
			}
			continue
		}
		rate, late, what := "cycles/s", "p99 of lock + unlock, ms", "goroutines"
		p99 := func(s sample) float64 { return s.P99 / 1000 }
		if res.contended() {
			rate, late, what = "acquisitions/s", "p99 of the wait, ms", "contenders"
			p99 = func(s sample) float64 {
				if s.Wait == nil {
					return 0
				}
				return s.Wait.P99 / 1000
			}
		}
		if err := res.draw(filepath.Join(dir, res.Name+"-rate.svg"), rate, what, perSecond); err != nil {
			return err
		}
		if err := res.draw(filepath.Join(dir, res.Name+"-p99.svg"), late, what, p99); err != nil {
			return err
		}
	}
	return nil
}

// A series is one line of a plot.
type series struct {
	name   string
	points plotter.XYs
	shade  color.Color
	dashes []vg.Length
}

// draw has a line for each contestant.
func (res *result) draw(file, ylabel, xlabel string, of func(sample) float64) error {
	var all []*series
	for _, r := range res.Rows {
		i := slices.IndexFunc(all, func(s *series) bool { return s.name == r.Contestant })
		if i < 0 {
			i = len(all)
			all = append(all, &series{name: r.Contestant})
			all[i].shade, all[i].dashes = look(r.Contestant)
		}
		all[i].add(r, of)
	}
	return drawLines(file, res.Name, ylabel, xlabel, all)
}

func (s *series) add(r *row, of func(sample) float64) {
	if y := r.mid(of); y > 0 { // a logarithmic axis has no place for nothing
		s.points = append(s.points, plotter.XY{X: float64(r.Goroutines), Y: y})
	}
}

func drawLines(file, title, ylabel, xlabel string, all []*series) error {
	counts := map[int]bool{}
	low, high := math.Inf(1), 0.0
	for _, s := range all {
		for _, point := range s.points {
			counts[int(point.X)] = true
			low, high = min(low, point.Y), max(high, point.Y)
		}
	}
	if len(counts) < 2 {
		return nil
	}
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = xlabel, ylabel
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	var ticks plot.ConstantTicks
	for _, n := range slices.Sorted(maps.Keys(counts)) { // in order, so that the same figures give the same file
		ticks = append(ticks, plot.Tick{Value: float64(n), Label: strconv.Itoa(n)})
	}
	p.X.Tick.Marker = ticks
	p.Y.Tick.Marker = plot.LogTicks{Prec: -1}
	p.Add(plotter.NewGrid())
	for _, s := range all {
		if len(s.points) == 0 {
			continue
		}
		line, points, err := plotter.NewLinePoints(s.points)
		if err != nil {
			return err
		}
		line.Color, line.Width, line.Dashes = s.shade, vg.Points(1.5), s.dashes
		points.Color, points.Radius = s.shade, vg.Points(2.5)
		p.Add(line, points)
		p.Legend.Add(s.name, line, points)
	}
	// The whole decades around the lines; the legend beneath nothing of them.
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(low))), math.Pow(10, math.Ceil(math.Log10(high)))
	p.Legend.Top = true
	p.Legend.XOffs = vg.Points(160)
	p.Legend.TextStyle.Font.Size = vg.Points(9)
	p.Legend.Padding = vg.Points(3)
	return save(p, file)
}

// The colours are told apart with colour-blind eyes, too (Krzywinski's twelve and fifteen).
var palette = []color.RGBA{
	{0, 0, 0, 255},
	{102, 102, 102, 255},
	{213, 94, 0, 255},
	{230, 159, 0, 255},
	{0, 114, 178, 255},
	{86, 180, 233, 255},
	{0, 73, 73, 255},
	{146, 0, 0, 255},
	{255, 109, 182, 255},
	{0, 158, 115, 255},
	{73, 0, 146, 255},
	{146, 73, 0, 255},
}

// look gives a contestant the same line in every plot; limits, and those for whom there is no
// colour left, are dashed.
func look(name string) (shade color.Color, dashes []vg.Length) {
	var names []string
	for _, c := range all {
		names = append(names, c.name)
	}
	for _, sc := range scenarios {
		for _, c := range sc.contestants {
			if !slices.Contains(names, c.name) {
				names = append(names, c.name)
			}
		}
	}
	i := max(slices.Index(names, name), 0)
	if i >= len(palette) || strings.HasPrefix(name, "limit") {
		dashes = []vg.Length{vg.Points(4), vg.Points(3)}
	}
	return palette[i%len(palette)], dashes
}

// save leaves room at the right for the legend.
func save(p *plot.Plot, file string) error {
	const width, height, legend = 460, 330, 170
	c := vgsvg.New(vg.Points(width+legend), vg.Points(height))
	sheet := draw.New(c)
	sheet.FillPolygon(color.White,
		[]vg.Point{sheet.Min, {X: sheet.Max.X, Y: sheet.Min.Y}, sheet.Max, {X: sheet.Min.X, Y: sheet.Max.Y}})
	p.Draw(draw.Crop(sheet, vg.Points(8), -vg.Points(legend), vg.Points(8), -vg.Points(8)))
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if _, err := c.WriteTo(f); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}
