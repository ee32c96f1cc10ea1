// Command peers shows on real masters what other lock libraries do when something breaks, and beside each what this
// library does when the same breaks. It starts its own masters, and takes about three minutes in all:
//
//	go run -C bench ./peers [-list] [-run regexp]
//
// Each library is used as its documentation says, at the version in bench/go.mod. Where a time-out is missing by
// default, it is shown with one as well.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"time"
)

func main() {
	var (
		list = flag.Bool("list", false, "list the faults, and the libraries that meet them; run nothing")
		run  = flag.String("run", "", "run only faults whose name matches this regular expression")
	)
	flag.Parse()
	chosen, err := choose(*run)
	if err == nil && *list {
		for _, f := range chosen {
			fmt.Print(f.head())
			for _, s := range f.subjects() {
				fmt.Println("  " + s.String())
			}
		}
		return
	}
	if err == nil {
		err = play(chosen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func choose(pattern string) (chosen []fault, err error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	for _, f := range faults {
		if re.MatchString(f.name) {
			chosen = append(chosen, f)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("no fault matches %q; -list names them", pattern)
	}
	return chosen, nil
}

// play runs the faults one after the other. A peer may do what it likes; it is an error if a run fails to show
// anything, or if this library does not do what is expected.
func play(chosen []fault) error {
	began := time.Now()
	about, err := surroundings()
	if err != nil {
		return err
	}
	fmt.Println(about)
	var failed error
	for _, f := range chosen {
		fmt.Print("\n" + f.head())
		for _, s := range f.subjects() {
			o, err := f.play(s)
			if err != nil {
				o = outcome{seen: "not run: " + err.Error()}
				failed = errors.Join(failed, fmt.Errorf("%s, %s: %w", f.name, s.library, err))
			} else if s.module == ourModule && !o.expected {
				failed = errors.Join(failed, fmt.Errorf("%s: redlock does not do what is expected: %s", f.name, o.seen))
			}
			fmt.Printf("  %-3s  %s:\n       %s\n", map[bool]string{true: "yes", false: "no"}[o.expected], s, o.seen)
		}
	}
	fmt.Printf("\n%s in all.\n", time.Since(began).Round(time.Second))
	return failed
}

// A failure is why a run shows nothing. must panics with it, so that a fault reads as what happens; play returns it.
type failure struct{ err error }

func must(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func made[T any](v T, err error) T {
	must(err)
	return v
}

// play lets a subject meet the fault, with masters of its own.
func (f fault) play(s subject) (_ outcome, err error) {
	defer func() {
		switch why := recover().(type) {
		case nil:
		case failure:
			err = why.err
		default:
			panic(why)
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), longest)
	defer cancel()
	m := &masters{}
	defer m.stop()
	m.start(ctx, s.masters)
	// Whatever does not know of ctx ends with the masters.
	defer time.AfterFunc(longest, m.kill).Stop()
	return f.meet(ctx, m, s), nil
}
