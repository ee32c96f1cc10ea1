// Command mutants puts deliberate bugs into the library, one at a time, and shows that the tests notice: the
// simulation, or where that cannot express it a test of a package. It prints a table, and fails where a bug survives.
//
//	go run ./internal/mutants            all of them
//	go run ./internal/mutants -only raise  those whose name matches
//
// The bugs are replacements of text in the sources as they are (mutant.go), which the compiler is given in place of the
// files. The list is in bugs/*.txt; bugs/README.md describes its notation.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

func main() {
	only := flag.String("only", "", "regular expression for the names of the mutants to try")
	seeds := flag.Int("seeds", 2000, "how many seeds the simulation gets for each")
	first := flag.Int("first", 1, "the first seed")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many are tried at a time")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, seedRange{*first, *seeds}, *jobs); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only string, seeds seedRange, jobs int) error {
	wanted, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	all, err := mutants()
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range all {
		if wanted.MatchString(m.name) {
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("no mutant's name matches %q", only)
	}
	lab, err := newLab(ctx)
	if err != nil {
		return err
	}
	defer lab.close()
	verdicts, failures := make([]verdict, len(chosen)), make([]error, len(chosen))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(jobs)
	for i, m := range chosen {
		group.Go(func() error {
			verdicts[i], failures[i] = lab.try(ctx, m, seeds)
			if failures[i] != nil {
				failures[i] = fmt.Errorf("%s: %w", m.name, failures[i])
				return ctx.Err()
			}
			fmt.Fprintf(os.Stderr, "%s: %s\n", m.name, verdicts[i])
			return nil
		})
	}
	if err := errors.Join(append(failures, group.Wait())...); err != nil {
		return err
	}
	return table(chosen, verdicts)
}

// table prints what came of it, as Markdown.
func table(tried []mutant, verdicts []verdict) error {
	survived := 0
	fmt.Println("| mutant | caught by | seeds | how it shows |")
	fmt.Println("|---|---|---:|---|")
	for i, m := range tried {
		v, seeds := verdicts[i], "–"
		if v.seeds > 0 {
			seeds = strconv.Itoa(v.seeds)
		}
		if v.by == "" {
			v.by = "**nothing**"
			survived++
		}
		fmt.Printf("| %s | %s | %s | %s |\n", m.name, v.by, seeds, strings.ReplaceAll(v.trace, "|", `\|`))
	}
	fmt.Printf("\n%d of %d mutants caught\n", len(tried)-survived, len(tried))
	if survived > 0 {
		return fmt.Errorf("%d mutants survived", survived)
	}
	return nil
}
