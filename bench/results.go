package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// results are what was measured, by scenario: docs/benchmarks/results.json has those of the last runs.
type results map[string]*outcome

// An outcome is what was measured of a scenario, and when, where and of which library. Measured again it is another
// one: rows of different runs are not to be compared.
type outcome struct {
	Began   time.Time
	Load    string // the average over the minute before
	Commit  string // of the library; with a "+", code was not committed; empty: there was no git
	Rounds  int
	Round   string // the length of one
	Machine string
	Rows    rows
}

type rows []*row

// columns are rows as the file has them: of each figure the values of all, null where there is none. So a name stands
// there once. A row is one of each N with each Lock.
type columns struct {
	N       []int
	Lock    []string
	Masters []int // of each Lock
	Figures map[string][]*json.Number
}

// exact shows so many digits that what tables show of them is not rounded twice. More than three are noise where no
// table shows them.
func exact(name string, v float64) string {
	digits := 3
	if name == events || strings.Contains(parts, strconv.Quote(name)) {
		digits = 6
	}
	if v >= 10_000 && digits > 3 {
		return strconv.FormatFloat(math.Trunc(v), 'f', 0, 64)
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64) // it has just been one
	return strconv.FormatFloat(v, 'f', -1, 64)
}

func (all rows) MarshalJSON() ([]byte, error) {
	c := columns{Figures: map[string][]*json.Number{}}
	for _, r := range all {
		if !slices.Contains(c.N, r.n) {
			c.N = append(c.N, r.n)
		}
		if !slices.Contains(c.Lock, r.lock) {
			c.Lock, c.Masters = append(c.Lock, r.lock), append(c.Masters, r.masters)
		}
	}
	for _, r := range all {
		at := slices.Index(c.N, r.n)*len(c.Lock) + slices.Index(c.Lock, r.lock)
		for name, v := range r.figures {
			if c.Figures[name] == nil {
				c.Figures[name] = make([]*json.Number, len(c.N)*len(c.Lock))
			}
			number := json.Number(exact(name, v))
			c.Figures[name][at] = &number
		}
	}
	return json.Marshal(c)
}

func (all *rows) UnmarshalJSON(text []byte) error {
	var c columns
	err := json.Unmarshal(text, &c)
	if len(c.Masters) != len(c.Lock) {
		return errors.New("rows without Masters")
	}
	for _, n := range c.N {
		for i, lock := range c.Lock {
			*all = append(*all, &row{n: n, lock: lock, masters: c.Masters[i], figures: map[string]float64{}})
		}
	}
	for name, values := range c.Figures {
		if len(values) != len(*all) {
			return fmt.Errorf("%d values of %s in %d rows", len(values), name, len(*all))
		}
		for i, v := range values {
			if v != nil {
				(*all)[i].figures[name], _ = v.Float64() // JSON has no other numbers
			}
		}
	}
	return err
}

// load reads the results in a file: none, if there is no file.
func load(file string) (r results) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return results{}
	}
	must(err)
	if err := json.Unmarshal(text, &r); err != nil {
		must(fmt.Errorf("%s: %w", file, err))
	}
	return r
}

// write is what load reads. Each figure has a line, so that git shows which have changed.
func (r results) write(file string) {
	lines := strings.NewReplacer(`],"`, "],\n\"", `},"`, "},\n\"").Replace(string(made(json.Marshal(r)))) + "\n"
	must(os.WriteFile(file, []byte(lines), 0o644))
}

// find returns a row; nil: it was not measured.
func (r results) find(scenario, lock string, n int) *row {
	if o := r[scenario]; o != nil {
		if i := slices.IndexFunc(o.Rows, func(r *row) bool { return r.lock == lock && r.n == n }); i >= 0 {
			return o.Rows[i]
		}
	}
	return nil
}

func newOutcome(rounds int, length time.Duration) *outcome {
	text, _ := os.ReadFile("/proc/loadavg") // none on other systems
	load, _, _ := strings.Cut(string(text), " ")
	now := time.Now().UTC().Truncate(time.Second)
	return &outcome{
		Began: now, Load: load, Commit: commit(), Rounds: rounds, Round: length.String(), Machine: machine(),
	}
}

// String is a sentence for pages. A test of docs reads the commit.
func (o *outcome) String() string {
	of := ""
	if o.Commit != "" {
		of = fmt.Sprintf("; measured at commit `%s`", o.Commit)
	}
	return fmt.Sprintf("Measured on %s, with clients and masters on one machine; %s, load average %s%s.",
		o.Machine, o.Began.Format("2 January 2006, 15:04 UTC"), o.Load, of)
}

func machine() string {
	model, server := runtime.GOARCH, "redis-server ?"
	cpus, _ := os.ReadFile("/proc/cpuinfo") // none on other systems
	if m := regexp.MustCompile(`(?m)^model name\s*: (.*)$`).FindSubmatch(cpus); m != nil {
		model = string(m[1])
	}
	if binary, err := redisserver.Find(); err == nil {
		if version, err := redisserver.Version(binary); err == nil {
			server = strings.Replace(version, "Redis server v=", "redis-server ", 1)
		}
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s, %s",
		runtime.NumCPU(), model, runtime.GOOS, runtime.GOARCH, runtime.Version(), server)
}

// commit is that of the working directory: go run builds what lies there. With a "+", some code there differs from it.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=7", "HEAD").Output()
	if err != nil {
		return ""
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--",
		":(top)*.go", ":(top)*.lua", ":(top)*go.mod", ":(top,exclude)*_test.go").Output()
	if err != nil || len(changed) > 0 {
		return strings.TrimSpace(string(head)) + "+"
	}
	return strings.TrimSpace(string(head))
}
