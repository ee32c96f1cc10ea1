package main

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// results are what was measured, scenario by scenario: docs/benchmarks has those of the last runs.
type results struct {
	runs []run
	rows []*row
}

// A run says of a scenario when, where and of which library it was measured: a line of the file, by column.
type run map[string]string

// runColumns: load is the average over the minute before. commit is that of the library; with a "+", code was not
// committed; empty: there was no git. round is the length of one.
var runColumns = []string{"scenario", "began", "load", "commit", "rounds", "round", "machine"}

const runsFile = "runs.csv"

// The files of rows have the columns that their rows have.
var (
	rowFiles   = []string{"cycles.csv", "contended.csv", "crowd.csv", "consensus.csv", "lost.csv"}
	rowColumns = []string{"scenario", "n", "lock", "masters"} // and figures
)

func fileOf(r *row) string {
	kind, _, _ := strings.Cut(r.scenario, "-")
	if file := kind + ".csv"; slices.Contains(rowFiles, file) {
		return file
	}
	return rowFiles[0]
}

// load reads the results in a directory: none, if there are no files.
func load(dir string) (*results, error) {
	r := &results{}
	runs, err := readCSV(filepath.Join(dir, runsFile))
	for _, line := range runs {
		r.runs = append(r.runs, line)
	}
	for _, file := range rowFiles {
		lines, bad := readCSV(filepath.Join(dir, file))
		err = cmp.Or(err, bad)
		for _, line := range lines {
			one, bad := parseRow(line)
			err = cmp.Or(err, bad)
			r.rows = append(r.rows, one)
		}
	}
	return r, err
}

func parseRow(line map[string]string) (r *row, err error) {
	r = &row{scenario: line["scenario"], lock: line["lock"], figures: map[string]float64{}}
	if r.n, err = strconv.Atoi(line["n"]); err != nil {
		return r, err
	}
	if r.masters, err = strconv.Atoi(line["masters"]); err != nil {
		return r, err
	}
	for name, text := range line {
		if text == "" || slices.Contains(rowColumns, name) {
			continue
		}
		if r.figures[name], err = strconv.ParseFloat(text, 64); err != nil {
			return r, err
		}
	}
	return r, nil
}

// readCSV returns the lines of a file by column.
func readCSV(file string) (lines []map[string]string, err error) {
	f, err := os.Open(file)
	if err != nil {
		if os.IsNotExist(err) {
			return nil, nil
		}
		return nil, err
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil || len(all) == 0 {
		return nil, fmt.Errorf("%s: %w", file, cmp.Or(err, fs.ErrInvalid))
	}
	for _, cells := range all[1:] {
		line := map[string]string{}
		for i, cell := range cells {
			line[all[0][i]] = cell
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// write is what load reads.
func (r *results) write(dir string) error {
	lines := [][]string{runColumns}
	for _, one := range r.runs {
		var line []string
		for _, name := range runColumns {
			line = append(line, one[name])
		}
		lines = append(lines, line)
	}
	if err := writeCSV(filepath.Join(dir, runsFile), lines); err != nil {
		return err
	}
	for _, file := range rowFiles {
		rows := slices.DeleteFunc(slices.Clone(r.rows), func(r *row) bool { return fileOf(r) != file })
		if err := writeCSV(filepath.Join(dir, file), linesOf(rows)); err != nil {
			return err
		}
	}
	return nil
}

func linesOf(rows []*row) [][]string {
	var columns []string
	for _, f := range figures {
		for _, name := range []string{f, leastOf(f), mostOf(f)} {
			if slices.ContainsFunc(rows, func(r *row) bool { _, ok := r.figures[name]; return ok }) {
				columns = append(columns, name)
			}
		}
	}
	lines := [][]string{slices.Concat(rowColumns, columns)}
	for _, r := range rows {
		line := []string{r.scenario, strconv.Itoa(r.n), r.lock, strconv.Itoa(r.masters)}
		for _, name := range columns {
			text := ""
			if v, ok := r.figures[name]; ok {
				text = exact(v)
			}
			line = append(line, text)
		}
		lines = append(lines, line)
	}
	return lines
}

// exact shows so many digits that what tables show of them is not rounded twice.
func exact(v float64) string {
	if v >= 10_000 {
		return strconv.FormatFloat(math.Trunc(v), 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

func writeCSV(file string, lines [][]string) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	err = csv.NewWriter(f).WriteAll(lines)
	return cmp.Or(err, f.Close())
}

// samples are the figures of each round.
func (r *results) samples() [][]string {
	var rounds []*row
	for _, r := range r.rows {
		for _, s := range r.samples {
			one := *r
			one.figures = s.figures
			rounds = append(rounds, &one)
		}
	}
	return linesOf(rounds)
}

// put replaces what there is of a scenario: rows of different runs are not to be compared.
func (r *results) put(one run, rows []*row) {
	r.runs = slices.DeleteFunc(r.runs, func(old run) bool { return old["scenario"] == one["scenario"] })
	r.rows = slices.DeleteFunc(r.rows, func(old *row) bool { return old.scenario == one["scenario"] })
	r.runs, r.rows = append(r.runs, one), append(r.rows, rows...)
	place := func(name string) int {
		return slices.IndexFunc(scenarios, func(sc scenario) bool { return sc.name == name })
	}
	slices.SortStableFunc(r.runs, func(a, b run) int { return place(a["scenario"]) - place(b["scenario"]) })
	slices.SortStableFunc(r.rows, func(a, b *row) int { return place(a.scenario) - place(b.scenario) })
}

// of returns the run of a scenario; nil: there was none.
func (r *results) of(scenario string) run {
	i := slices.IndexFunc(r.runs, func(one run) bool { return one["scenario"] == scenario })
	if i < 0 {
		return nil
	}
	return r.runs[i]
}

// find returns a row; nil: it was not measured.
func (r *results) find(scenario, lock string, n int) *row {
	i := slices.IndexFunc(r.rows, func(r *row) bool { return r.scenario == scenario && r.lock == lock && r.n == n })
	if i < 0 {
		return nil
	}
	return r.rows[i]
}

func newRun(scenario string, rounds int, length time.Duration) run {
	return run{
		"scenario": scenario, "began": time.Now().UTC().Format(time.RFC3339), "load": loadAverage(), "commit": commit(),
		"rounds": strconv.Itoa(rounds), "round": length.String(), "machine": machine(),
	}
}

// String is a sentence for pages. A test of docs reads the commit.
func (one run) String() string {
	of := ""
	if one["commit"] != "" {
		of = fmt.Sprintf("; measured at commit `%s`", one["commit"])
	}
	began, _ := time.Parse(time.RFC3339, one["began"]) // as it was written
	return fmt.Sprintf("Measured on %s, with clients and masters on one machine; %s, load average %s%s.",
		one["machine"], began.Format("2 January 2006, 15:04 UTC"), one["load"], of)
}

func machine() string {
	model := runtime.GOARCH
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	server := "redis-server ?"
	if binary, err := redisserver.Find(); err == nil {
		if version, err := redisserver.Version(binary); err == nil {
			server = strings.Replace(version, "Redis server v=", "redis-server ", 1)
		}
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s, %s",
		runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version(), server)
}

// loadAverage is how many processes wanted to run over the last minute.
func loadAverage() string {
	text, _ := os.ReadFile("/proc/loadavg") // none on other systems
	load, _, _ := strings.Cut(string(text), " ")
	return load
}

// commit is that of the working directory: go run builds what lies there. With a "+", some code there differs from it.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return ""
	}
	code := []string{":(top)*.go", ":(top)*.lua", ":(top)*go.mod", ":(top,exclude)*_test.go"}
	changed, err := exec.Command("git", append([]string{"status", "--porcelain", "--"}, code...)...).Output()
	if err != nil || len(changed) > 0 {
		return strings.TrimSpace(string(head)) + "+"
	}
	return strings.TrimSpace(string(head))
}
