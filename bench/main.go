// Command bench compares distributed locks on real Redis masters that it starts itself:
// this library, its peers, and the limit that the machine sets. See docs/benchmarks.md.
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type bench struct {
	cluster *cluster
	rounds  int // 0: each scenario's own, or 5
	plan    *crowdPlan
	warmup  time.Duration // contestants run, the clock does not
	settle  time.Duration // after a fault of afterWarmup
	quiet   time.Duration // before orphans are counted

	serial  int    // of the rounds so far
	current string // how the names of this round begin

	terminal bool // on stderr
}

func main() {
	if child, err := asChild(); child {
		fatal(err)
		return
	}
	var (
		scenarioFlag   = flag.String("scenario", "uncontended", "scenarios, separated by commas, or all; see -list")
		contestantFlag = flag.String("contestant", "", "only contestants whose name contains one of these, comma-separated")
		goroutinesFlag = flag.String("goroutines", "1,16,64,256",
			"how many goroutines (contenders, in contended scenarios); some scenarios have other defaults")
		duration = flag.Duration("duration", time.Second, "length of a round")
		rounds   = flag.Int("rounds", 5, "rounds of each contestant, interleaved with the others'; crowd has one by default")
		jsonFile = flag.String("json", "", "write every sample to this file")
		mdFile   = flag.String("markdown", "", "write the tables to this file, too")
		plotDir  = flag.String("plots", "", "write the charts of the pages (SVG) into this directory")
		page     = flag.String("page", "", "bring the tables in this page up to date: docs/scale.md")
		from     = flag.String("from", "", "measure nothing: tables and charts from -json files of earlier runs, "+
			"separated by commas; a scenario that stands in several is taken from the last")
		cpuProfile = flag.String("cpuprofile", "", "write a CPU profile, labelled by contestant and goroutines")
		memProfile = flag.String("memprofile", "", "write a profile of every allocation")
		list       = flag.Bool("list", false, "list the scenarios")
		plan       = crowdFlags()
	)
	flag.Parse()
	if *list {
		for _, sc := range scenarios {
			fmt.Printf("%-18s %s\n", sc.name, sc.about)
		}
		return
	}
	var (
		r   *report
		err error
	)
	if *from != "" {
		r, err = load(*from)
		fatal(err)
		fmt.Print(r.markdown())
	} else {
		chosen, err := choose(*scenarioFlag, *contestantFlag)
		fatal(err)
		counts, err := numbers(*goroutinesFlag)
		fatal(err)
		stop := profile(*cpuProfile, *memProfile)
		given := map[string]bool{}
		flag.Visit(func(f *flag.Flag) { given[f.Name] = true })
		if !given["goroutines"] {
			counts = nil
		}
		b := &bench{plan: plan}
		if given["rounds"] {
			b.rounds = *rounds
		}
		r = b.measure(chosen, counts, *duration, *rounds)
		stop()
	}
	if *jsonFile != "" {
		text, err := json.MarshalIndent(r, "", "\t")
		fatal(err)
		fatal(os.WriteFile(*jsonFile, append(text, '\n'), 0o644))
	}
	if *mdFile != "" {
		fatal(os.WriteFile(*mdFile, []byte(r.markdown()), 0o644))
	}
	if *plotDir != "" {
		fatal(r.draw(*plotDir))
	}
	if *page != "" {
		fatal(r.update(*page))
	}
}

// measure runs the scenarios and prints each table as soon as it is complete. counts nil: each scenario's own.
func (b *bench) measure(chosen []scenario, counts []int, duration time.Duration, rounds int) *report {
	raiseFileLimit()
	const ms = time.Millisecond
	b.warmup, b.settle, b.quiet = 200*ms, 1500*ms, 150*ms
	if info, err := os.Stderr.Stat(); err == nil {
		b.terminal = info.Mode()&os.ModeCharDevice != 0
	}
	r := newReport(duration, rounds)
	fmt.Println(r.Machine)
	for _, sc := range chosen {
		n := counts
		if n == nil {
			n = sc.goroutines
		}
		if n == nil {
			n = []int{1, 16, 64, 256}
		}
		res, err := b.run(sc, n, duration)
		fatal(err)
		r.Scenarios = append(r.Scenarios, res)
		fmt.Print(res.markdown())
	}
	return r
}

// profile starts the profiles that have a file name.
func profile(cpu, mem string) (stop func()) {
	if cpu != "" {
		f, err := os.Create(cpu)
		fatal(err)
		fatal(pprof.StartCPUProfile(f))
	}
	if mem != "" {
		runtime.MemProfileRate = 1
	}
	return func() {
		pprof.StopCPUProfile()
		if mem == "" {
			return
		}
		f, err := os.Create(mem)
		fatal(err)
		fatal(pprof.Lookup("allocs").WriteTo(f, 0))
		fatal(f.Close())
	}
}

// run lets all contestants take turns: what disturbs the machine disturbs them alike.
func (b *bench) run(sc scenario, counts []int, duration time.Duration) (*result, error) {
	var err error
	if b.cluster, err = newCluster(sc); err != nil {
		return nil, err
	}
	defer b.cluster.stop()
	if sc.measure == nil {
		sc.measure = (*bench).round
	}
	rounds := cmp.Or(b.rounds, sc.rounds, 5)
	res := &result{
		Name: sc.name, About: sc.about, Began: time.Now().UTC().Truncate(time.Second), Load: loadAverage(), Commit: commit(),
	}
	for _, n := range counts {
		rows := make([]*row, len(sc.contestants))
		for i, c := range sc.contestants {
			rows[i] = &row{Contestant: c.name, Nodes: c.nodes, Goroutines: n}
		}
		for round := range rounds {
			for i := range sc.contestants {
				// Another one begins each round.
				i = (i + round) % len(sc.contestants)
				if rows[i].hung() {
					continue // it would hang again, and what it left running disturbs the others
				}
				b.progress("%s, %d goroutines, round %d of %d: %s", sc.name, n, round+1, rounds, sc.contestants[i].name)
				if err := b.cluster.check(); err != nil {
					return nil, err
				}
				s, err := sc.measure(b, sc, sc.contestants[i], n, duration*time.Duration(max(1, sc.longer)))
				if err != nil {
					return nil, err
				}
				rows[i].Samples = append(rows[i].Samples, s)
			}
		}
		res.Rows = append(res.Rows, rows...)
	}
	b.progress("")
	return res, nil
}

// progress overwrites one line of a terminal.
func (b *bench) progress(format string, args ...any) {
	if b.terminal {
		fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
	}
}

func choose(names, contestants string) (chosen []scenario, err error) {
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, sc := range scenarios {
			if name != "all" && name != sc.name {
				continue
			}
			found = true
			sc.contestants = filter(sc.contestants, contestants)
			if len(sc.contestants) > 0 {
				chosen = append(chosen, sc)
			}
		}
		if !found {
			return nil, fmt.Errorf("no scenario %q; -list names them", name)
		}
	}
	return chosen, nil
}

func filter(all []contestant, parts string) (kept []contestant) {
	for _, c := range all {
		for part := range strings.SplitSeq(parts, ",") {
			// "=name" wants the whole name.
			if whole, ok := strings.CutPrefix(part, "="); ok && c.name == whole || !ok && strings.Contains(c.name, part) {
				kept = append(kept, c)
				break
			}
		}
	}
	return kept
}

func numbers(list string) (n []int, err error) {
	for text := range strings.SplitSeq(list, ",") {
		i, err := strconv.Atoi(text)
		if err != nil || i < 1 {
			return nil, fmt.Errorf("-goroutines %s: want numbers above 0, separated by commas", list)
		}
		n = append(n, i)
	}
	return n, nil
}

// raiseFileLimit makes room for pools of 256 connections to five masters, and for a crowd.
func raiseFileLimit() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)
	}
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
