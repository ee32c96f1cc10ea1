// Command bench compares distributed locks on real Redis masters that it starts itself:
// this library, its peers, and the limit that the machine sets. See docs/benchmarks.md.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
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
	editTTL time.Duration // of lost-updates

	serial  int    // of the rounds so far
	current string // how the names of this round begin
}

func main() {
	if asChild() {
		return
	}
	const ms = time.Millisecond
	b := &bench{warmup: 200 * ms, settle: 1500 * ms, quiet: 150 * ms, editTTL: 2 * time.Second, plan: crowdFlags()}
	var (
		scenarioFlag   = flag.String("scenario", "uncontended", "scenarios, separated by commas, or all, or none; see -list")
		contestantFlag = flag.String("contestant", "",
			"only contestants whose name contains one of these, separated by commas; =name wants the whole name")
		publish = flag.String("publish", "", "bring this directory up to date, which is docs or like it: its "+
			"benchmarks/results.json by the scenarios that were measured, then tables in pages by all of it")
		faultsFlag = flag.String("faults", "", "instead of scenarios, play the faults whose names match this regular "+
			"expression: what other libraries do when something breaks, and this one")
		list = flag.Bool("list", false, "list the scenarios, and the faults with the libraries that meet them")
	)
	flag.Func("goroutines", "how many `goroutines`, contenders, holds or clients, above 0, separated by commas; the "+
		"default is the scenario's own, or 1,16,64,256", func(list string) error {
		for text := range strings.SplitSeq(list, ",") {
			n, err := strconv.ParseUint(text, 10, 31)
			if err != nil || n == 0 {
				return errors.New("want numbers above 0")
			}
			b.counts = append(b.counts, int(n))
		}
		return nil
	})
	flag.DurationVar(&b.length, "duration", time.Second, "length of a round")
	flag.IntVar(&b.rounds, "rounds", 0, "rounds of each contestant, in turn with the others; the default is 5, of crowd 1")
	flag.Parse()
	if *list {
		for _, sc := range scenarios {
			fmt.Printf("%-18s %s\n", sc.name, sc.about)
		}
		for _, f := range faults {
			fmt.Print("\n" + f.head())
			for _, s := range f.subjects() {
				fmt.Println("  " + s.String())
			}
		}
		return
	}
	fatal(attempt(func() {
		if *faultsFlag != "" {
			must(play(chooseFaults(*faultsFlag)))
			return
		}
		measured := results{}
		for _, sc := range choose(*scenarioFlag, *contestantFlag) {
			one := b.run(sc)
			measured[sc.name] = one
			fmt.Printf("\n%s: %s %s\n", sc.name, sc.about, one) // as soon as it is complete
			one.Rows.show()
		}
		if *publish != "" {
			measured.publish(*publish)
		}
	}))
}

// show prints rows, and an example of each contestant's errors.
func (all rows) show() {
	named := map[string]float64{}
	for _, r := range all {
		maps.Copy(named, r.figures)
	}
	columns := slices.Sorted(maps.Keys(named))
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "n\tlock\tmasters\t"+strings.Join(columns, "\t")+"\t")
	for _, r := range all {
		fmt.Fprintf(w, "%d\t%s\t%d\t", r.n, r.lock, r.masters)
		for _, name := range columns {
			if v, ok := r.figures[name]; ok {
				fmt.Fprint(w, exact(name, v))
			}
			fmt.Fprint(w, "\t")
		}
		fmt.Fprintln(w)
	}
	must(w.Flush())
	said := map[string]bool{}
	for _, r := range all {
		for _, s := range r.samples {
			if s.example != nil && !said[r.lock] {
				said[r.lock] = true
				fmt.Printf("\n%s, an error: %.300s\n", r.lock, strings.ReplaceAll(s.example.Error(), "\n", " "))
			}
		}
	}
}

// run lets all contestants take turns: what disturbs the machine disturbs them alike.
func (b *bench) run(sc scenario) *outcome {
	b.cluster = newCluster(sc)
	defer b.cluster.stop()
	measure := sc.measure
	if measure == nil {
		measure = (*bench).round
	}
	length := b.length * time.Duration(max(1, sc.longer))
	rounds := cmp.Or(b.rounds, sc.rounds, 5)
	one := newOutcome(rounds, length)
	one.Machine += b.cluster.versions()
	counts := [][]int{b.counts, sc.goroutines, {1, 16, 64, 256}}
	for _, n := range counts[slices.IndexFunc(counts, func(n []int) bool { return n != nil })] {
		of := map[string]*row{}
		for round := range rounds {
			for i := range sc.contestants {
				// Another one begins each round.
				c := sc.contestants[(i+round)%len(sc.contestants)]
				if r := of[c.name]; r != nil && r.hung() {
					continue // it would hang again, and what it left running disturbs the others
				}
				b.progress("%s, %d goroutines, round %d of %d: %s", sc.name, n, round+1, rounds, c.name)
				must(b.cluster.check())
				b.cluster.prepare(c)
				for _, s := range measure(b, sc, c, n, length) {
					r := of[s.who]
					if r == nil {
						r = &row{n: n, lock: s.who, masters: cmp.Or(s.nodes, c.nodes)}
						of[s.who], one.Rows = r, append(one.Rows, r)
					}
					r.samples = append(r.samples, s)
				}
			}
		}
	}
	b.progress("")
	for _, r := range one.Rows {
		r.condense()
	}
	compare(sc.name, one.Rows)
	return one
}

// progress overwrites one line of a terminal.
func (b *bench) progress(format string, args ...any) {
	if info, err := os.Stderr.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
		fmt.Fprintf(os.Stderr, "\r\033[K"+format, args...)
	}
}

// choose finds scenarios by their names, and of each the contestants that are wanted: by parts of their names, or by
// =name.
func choose(names, contestants string) (chosen []scenario) {
	wanted := func(c contestant) bool {
		return slices.ContainsFunc(strings.Split(contestants, ","), func(part string) bool {
			whole, ok := strings.CutPrefix(part, "=")
			return ok && c.name == whole || !ok && strings.Contains(c.name, part)
		})
	}
	for name := range strings.SplitSeq(names, ",") {
		found := name == "none"
		for _, sc := range scenarios {
			if name != "all" && name != sc.name {
				continue
			}
			found = true
			sc.contestants = slices.DeleteFunc(slices.Clone(sc.contestants), func(c contestant) bool { return !wanted(c) })
			if len(sc.contestants) > 0 {
				chosen = append(chosen, sc)
			}
		}
		if !found {
			must(fmt.Errorf("no scenario %q; -list names them", name))
		}
	}
	return chosen
}

// publish puts what was measured into a directory of pages, and makes its tables of all that is known there.
func (r results) publish(docs string) {
	file := filepath.Join(docs, "benchmarks", "results.json")
	all := load(file)
	maps.Copy(all, r)
	all.write(file)
	load(file).update(docs) // what is shown is what stands there
}

// A failure is why a run shows nothing. must panics with it, so that a scenario and a fault read as what happens, and
// attempt returns it.
type failure struct{ error }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func made[T any](v T, err error) T {
	must(err)
	return v
}

func attempt(f func()) (err error) {
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			err = why.error
		default:
			panic(why)
		}
	}()
	f()
	return nil
}

// undo is deferred, for what must not be left behind if the function fails.
func undo(f func()) {
	if why := recover(); why != nil {
		f()
		panic(why)
	}
}

func fatal(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}
