// Command bench compares distributed locks on real Redis masters that it starts itself:
// this library, its peers, and the limit that the machine sets. See docs/benchmarks.md.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

type bench struct {
	cluster *cluster
	plan    *crowdPlan
	rounds  int           // 0: each scenario's own, or 5
	length  time.Duration // of a round
	counts  []int         // of goroutines; nil: each scenario's own
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
	const ms = time.Millisecond
	b := &bench{warmup: 200 * ms, settle: 1500 * ms, quiet: 150 * ms, plan: crowdFlags()}
	var (
		scenarioFlag   = flag.String("scenario", "uncontended", "scenarios, separated by commas, or all, or none; see -list")
		contestantFlag = flag.String("contestant", "",
			"only contestants whose name contains one of these, separated by commas; =name wants the whole name")
		goroutinesFlag = flag.String("goroutines", "",
			"how many goroutines, contenders, holds or clients; the default is the scenario's own, or 1,16,64,256")
		samples = flag.String("samples", "", "write the figures of each round to this CSV file")
		publish = flag.String("publish", "", "bring this directory up to date, which is docs or like it: its "+
			"benchmarks/*.csv by the scenarios that were measured, then charts, and tables in pages, by all of its CSV files")
		list = flag.Bool("list", false, "list the scenarios")
	)
	flag.DurationVar(&b.length, "duration", time.Second, "length of a round")
	flag.IntVar(&b.rounds, "rounds", 0, "rounds of each contestant, in turn with the others; the default is 5, of crowd 1")
	flag.Parse()
	if *list {
		for _, sc := range scenarios {
			fmt.Printf("%-18s %s\n", sc.name, sc.about)
		}
		return
	}
	chosen, err := choose(*scenarioFlag, *contestantFlag)
	fatal(err)
	b.counts, err = numbers(*goroutinesFlag)
	fatal(err)
	if *publish != "" && b.plan.parts != "" {
		fatal(errors.New("-publish: parts of a crowd alone would be taken for all of it"))
	}
	measured := b.measure(chosen)
	if *samples != "" {
		fatal(writeCSV(*samples, measured.samples()))
	}
	if *publish != "" {
		fatal(measured.publish(*publish))
	}
}

// measure runs the scenarios and prints their tables as soon as they are complete.
func (b *bench) measure(chosen []scenario) *results {
	raiseFileLimit()
	if info, err := os.Stderr.Stat(); err == nil {
		b.terminal = info.Mode()&os.ModeCharDevice != 0
	}
	measured := &results{}
	for _, sc := range chosen {
		one, rows, err := b.run(sc)
		fatal(err)
		measured.put(one, rows)
		fmt.Printf("\n%s: %s\n%s\n%s%s", one.scenario, sc.about, one, tables(rows), remarks(rows))
	}
	return measured
}

// remarks are an example of each contestant's errors.
func remarks(rows []*row) (text string) {
	said := map[string]bool{}
	for _, r := range rows {
		for _, s := range r.samples {
			if s.example != nil && !said[r.lock] {
				said[r.lock] = true
				text += fmt.Sprintf("\n%s, an error: %.300s\n", r.lock, strings.ReplaceAll(s.example.Error(), "\n", " "))
			}
		}
	}
	return text
}

// run lets all contestants take turns: what disturbs the machine disturbs them alike.
func (b *bench) run(sc scenario) (one run, rows []*row, err error) {
	if b.cluster, err = newCluster(sc); err != nil {
		return one, nil, err
	}
	defer b.cluster.stop()
	measure := sc.measure
	if measure == nil {
		measure = (*bench).round
	}
	length := b.length * time.Duration(max(1, sc.longer))
	one = newRun(sc.name, cmp.Or(b.rounds, sc.rounds, 5), length)
	counts := [][]int{b.counts, sc.goroutines, {1, 16, 64, 256}}
	for _, n := range counts[slices.IndexFunc(counts, func(n []int) bool { return n != nil })] {
		of := map[string]*row{}
		for round := range one.rounds {
			for i := range sc.contestants {
				// Another one begins each round.
				c := sc.contestants[(i+round)%len(sc.contestants)]
				if r := of[c.name]; r != nil && r.hung() {
					continue // it would hang again, and what it left running disturbs the others
				}
				b.progress("%s, %d goroutines, round %d of %d: %s", sc.name, n, round+1, one.rounds, c.name)
				if err := b.cluster.check(); err != nil {
					return one, nil, err
				}
				shown, err := measure(b, sc, c, n, length)
				if err != nil {
					return one, nil, err
				}
				for _, s := range shown {
					r := of[s.who]
					if r == nil {
						r = &row{scenario: sc.name, n: n, lock: s.who, masters: c.nodes}
						of[s.who], rows = r, append(rows, r)
					}
					r.samples = append(r.samples, s)
				}
			}
		}
	}
	b.progress("")
	for _, r := range rows {
		r.condense()
	}
	compare(rows)
	return one, rows, nil
}

// progress overwrites one line of a terminal.
func (b *bench) progress(format string, args ...any) {
	if b.terminal {
		fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
	}
}

func choose(names, contestants string) (chosen []scenario, err error) {
	for name := range strings.SplitSeq(names, ",") {
		found := name == "none"
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
			if whole, ok := strings.CutPrefix(part, "="); ok && c.name == whole || !ok && strings.Contains(c.name, part) {
				kept = append(kept, c)
				break
			}
		}
	}
	return kept
}

func numbers(list string) (n []int, err error) {
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		i, err := strconv.Atoi(text)
		if err != nil || i < 1 {
			return nil, fmt.Errorf("-goroutines %s: want numbers above 0, separated by commas", list)
		}
		n = append(n, i)
	}
	return n, nil
}

// publish puts what was measured into a directory of pages, and makes its charts and tables of all that is known there.
func (r *results) publish(docs string) error {
	dir := filepath.Join(docs, "benchmarks")
	all, err := load(dir)
	if err != nil {
		return err
	}
	for _, one := range r.runs {
		rows := slices.DeleteFunc(slices.Clone(r.rows), func(r *row) bool { return r.scenario != one.scenario })
		all.put(one, rows)
	}
	if err := all.write(dir); err != nil {
		return err
	}
	if all, err = load(dir); err != nil { // what is drawn is what stands there
		return err
	}
	return errors.Join(all.draw(dir), all.update(docs))
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
