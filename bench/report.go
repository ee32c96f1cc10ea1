package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/redisserver"
)

type report struct {
	Machine   string        `json:"machine"`
	Began     time.Time     `json:"began"`
	Duration  time.Duration `json:"round_ns"`
	Rounds    int           `json:"rounds"`
	Versions  []string      `json:"versions"`
	Scenarios []*result     `json:"scenarios"`
}

type result struct {
	Name  string    `json:"name"`
	About string    `json:"about"`
	Began time.Time `json:"began,omitzero"`
	Load  float64   `json:"load,omitempty"` // of the machine over the minute before
	// Commit is that of the library; with a "+", code was not committed. Empty: there was no git.
	Commit string `json:"commit,omitempty"`
	Rows   []*row `json:"rows"`

	Machine string `json:"machine,omitempty"` // where it is not the report's
}

type row struct {
	Contestant string   `json:"contestant"`
	Nodes      int      `json:"nodes"`
	Goroutines int      `json:"goroutines"`
	Samples    []sample `json:"samples"`
}

func newReport(duration time.Duration, rounds int) *report {
	began := time.Now().UTC().Truncate(time.Second)
	return &report{Machine: machine(), Began: began, Duration: duration, Rounds: rounds, Versions: versions()}
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
func loadAverage() (load float64) {
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
	}
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

// versions are those of the peers and the clients under them.
func versions() (list []string) {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, m := range info.Deps {
		for _, part := range []string{"redsync", "redislock", "rueidis", "redigo", "go-redis/v9"} {
			if strings.Contains(m.Path, part) {
				list = append(list, m.Path+" "+m.Version)
				break
			}
		}
	}
	return list
}

// load joins the reports that earlier runs have written. A scenario that stands in several is the
// last one's: rows of different runs are not to be compared.
func load(files string) (*report, error) {
	var joined *report
	for file := range strings.SplitSeq(files, ",") {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := &report{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if joined == nil {
			joined = r
			continue
		}
		for _, res := range r.Scenarios {
			if res.Machine == "" && r.Machine != joined.Machine {
				res.Machine = r.Machine
			}
			if i := slices.IndexFunc(joined.Scenarios, func(s *result) bool { return s.Name == res.Name }); i >= 0 {
				joined.Scenarios[i] = res
			} else {
				joined.Scenarios = append(joined.Scenarios, res)
			}
		}
	}
	return joined, nil
}

// contended: the samples say what others waited.
func (res *result) contended() bool {
	for _, r := range res.Rows {
		for _, s := range r.Samples {
			if s.Wait != nil {
				return true
			}
		}
	}
	return false
}

// renewals: the samples say what became of holds.
func (res *result) renewals() bool {
	return len(res.Rows) > 0 && len(res.Rows[0].Samples) > 0 && res.Rows[0].Samples[0].Held != nil
}

// crowds: the samples are of crowds.
func (res *result) crowds() bool {
	return len(res.Rows) > 0 && len(res.Rows[0].Samples) > 0 && res.Rows[0].Samples[0].Crowd != nil
}

func (r *row) hung() bool {
	return slices.ContainsFunc(r.Samples, func(s sample) bool { return s.Hung })
}

// spread is a median and what it lies between.
type spread struct{ low, median, high float64 }

func (r *row) spread(of func(sample) float64) spread {
	var values []float64
	for _, s := range r.Samples {
		if !s.Hung {
			values = append(values, of(s))
		}
	}
	return median(values)
}

func median(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	slices.Sort(values)
	n := len(values)
	return spread{values[0], (values[(n-1)/2] + values[n/2]) / 2, values[n-1]}
}

func (r *row) mid(of func(sample) float64) float64 { return r.spread(of).median }

func perSecond(s sample) float64 { return s.PerSecond }

// ratio is the median of the ratios within each round: both had the same weather.
func (r *row) ratio(to *row, of func(sample) float64) float64 {
	var values []float64
	for i := range min(len(r.Samples), len(to.Samples)) {
		if base := of(to.Samples[i]); base > 0 {
			values = append(values, of(r.Samples[i])/base)
		}
	}
	return median(values).median
}

// reference finds the row to compare with at the same number of goroutines.
func (res *result) reference(goroutines int, is func(*row) bool) (best *row) {
	for _, r := range res.Rows {
		if r.Goroutines == goroutines && is(r) && len(r.Samples) > 0 && !r.hung() &&
			(best == nil || r.mid(perSecond) > best.mid(perSecond)) {
			best = r
		}
	}
	return best
}

func isRedsync(r *row) bool { return r.Contestant == redsyncRedigo5.name }
func isSingle(r *row) bool  { return r.Nodes == 1 && !strings.HasPrefix(r.Contestant, "redlock") }
func isLimit(r *row) bool   { return strings.HasPrefix(r.Contestant, "limit") }
