package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The tables of the pages. A cell shows a figure of one row of the results: a line of the table says which as far as it
// can, and a column says the rest.
type spot struct {
	scenario string
	lock     string
	n        int
}

type line struct {
	title string
	spot
}

type column struct {
	title string
	spot
	show func(*row) string
}

func (r results) view(corner string, lines []line, columns ...column) string {
	head := []string{corner}
	for _, c := range columns {
		head = append(head, c.title)
	}
	var rows [][]string
	for _, l := range lines {
		cells, measured := []string{l.title}, false
		for _, c := range columns {
			text := ""
			if found := r.find(l.scenario+c.scenario, c.lock+l.lock, l.n+c.n); found != nil {
				text, measured = c.show(found), true
			}
			cells = append(cells, text)
		}
		if measured {
			rows = append(rows, cells)
		}
	}
	return table(head, rows)
}

// of shows a figure.
func of(name string) func(*row) string { return per(1, name) }

// per shows the sum of figures in a larger unit.
func per(unit float64, names ...string) func(*row) string {
	return func(r *row) string {
		v := 0.0
		for _, name := range names {
			one, ok := r.figures[name]
			if !ok {
				return ""
			}
			v += one
		}
		return number(v / unit)
	}
}

// format shows figures as their text says.
func format(text string, names ...string) func(*row) string {
	return func(r *row) string {
		var values []any
		for _, name := range names {
			values = append(values, r.figures[name])
		}
		return fmt.Sprintf(text, values...)
	}
}

// chart draws figures of rows in Mermaid, one after the other: as "bar" or "line". It has no legend, so the title names
// several from the top down; and its axes begin at the smallest figure, unless they are told.
func (r results) chart(title, axis, kind string, show func(*row) string, labels []string, curves ...[]spot) string {
	text, highest := "", 0.0
	for _, curve := range curves {
		var values []string
		for _, at := range curve {
			found := r.find(at.scenario, at.lock, at.n)
			if found == nil {
				return ""
			}
			value := strings.ReplaceAll(show(found), ",", "")
			v, _ := strconv.ParseFloat(value, 64) // number wrote it
			values, highest = append(values, value), max(highest, v)
		}
		text += fmt.Sprintf("    %s [%s]\n", kind, strings.Join(values, ","))
	}
	form := map[string]string{"bar": " horizontal"}[kind]
	const frame = "\n```mermaid\nxychart-beta%s\n    title %q\n    x-axis [\"%s\"]\n    y-axis %q 0 --> %.0f\n%s```\n"
	return fmt.Sprintf(frame, form, title, strings.Join(labels, `","`), axis, highest, text)
}

// bars charts the lines of a table, each at the same place.
func (r results) bars(title, axis string, show func(*row) string, lines []line, at spot) string {
	var labels []string
	var spots []spot
	for _, l := range lines {
		labels = append(labels, l.title)
		spots = append(spots, spot{l.scenario + at.scenario, l.lock, l.n + at.n})
	}
	return r.chart(title, axis, "bar", show, labels, spots)
}

// pages have the parts that are made here, by name.
var pages = map[string]map[string]func(results) string{
	"benchmarks.md": {
		"uncontended": results.uncontended, "contended": results.contended, "sick": results.sick,
		"several": results.several, "consensus": results.consensus, "outage": results.outage, "lost": results.lost,
	},
	"scale.md": {
		"machine": results.crowdMachine, "clients": results.crowdClients, "waits": results.crowdWaits,
		"costs": results.costs, "limits": results.limits,
	},
}

func (r results) crowdMachine() string {
	if one := r[crowdScenario]; one != nil {
		return one.String() + "\n"
	}
	return ""
}

// named makes a line for each contestant.
func named(scenario string, n int, locks ...string) (lines []line) {
	for _, lock := range locks {
		lines = append(lines, line{lock, spot{scenario, lock, n}})
	}
	return lines
}

func (r results) uncontended() string {
	lines := named("uncontended", 0,
		"limit", "redlock plain async", "redlock plain", "redlock async", "redlock", "redsync+redigo", "redsync+rueidis",
		"redsync+rueidis fail-fast", "rueidislock", "bare SET NX", "bsm/redislock")
	at64, at256 := spot{n: 64}, spot{n: 256}
	var curves [][]spot
	for _, lock := range []string{"limit", "redlock plain", "redlock", "redsync+rueidis"} {
		curves = append(curves, []spot{
			{"uncontended", lock, 1}, {"uncontended", lock, 16}, {"uncontended", lock, 64}, {"uncontended", lock, 256},
		})
	}
	return r.view("", lines,
		column{"masters", at64, func(r *row) string { return strconv.Itoa(r.masters) }},
		column{"cycles/s at 1 goroutine", spot{n: 1}, of(rate)}, column{"at 16", spot{n: 16}, of(rate)},
		column{"at 64", at64, of(rate)}, column{"÷ redsync+redigo", at64, of(rateToRedsync)},
		column{"at 256", at256, of(rate)}, column{"÷ redsync+redigo", at256, of(rateToRedsync)},
		column{"allocs", at64, of("allocs")}, column{"bytes", at64, format("%.0f", "bytes")},
		column{"CPU µs, client + servers", at64, per(1, clientCPU, serverCPU)}) +
		r.chart("by goroutines, from the top: limit, redlock plain, redlock, redsync+rueidis", "cycles/s", "line", of(rate),
			[]string{"1", "16", "64", "256"}, curves...)
}

// numbered makes a line for each number of goroutines, contenders or clients.
func numbered(scenario string, counts ...int) (lines []line) {
	for _, n := range counts {
		lines = append(lines, line{strconv.Itoa(n), spot{scenario: scenario, n: n}})
	}
	return lines
}

func (r results) contended() string {
	lines := numbered("contended", 2, 8, 32, 128)
	ours, theirs := spot{lock: "redlock"}, spot{lock: "redsync+redigo"}
	turns := format("%.0f–%.0f", "fewest", "most")
	return r.view("contenders", lines,
		column{"redlock: acquisitions/s", ours, of(rate)}, column{"wait p99 ms", ours, per(1000, p99)},
		column{"idle gap p50 µs", ours, of("gap p50 µs")}, column{"fewest–most of one", ours, turns},
		column{"redsync+redigo: acquisitions/s", theirs, of(rate)}, column{"wait p99 ms", theirs, per(1000, p99)},
		column{"fewest–most of one", theirs, turns},
		column{"rueidislock, one master: wait p99 ms", spot{lock: "rueidislock"}, per(1000, p99)},
		column{"bsm/redislock, one master: wait p99 ms", spot{lock: "bsm/redislock"}, per(1000, p99)})
}

func (r results) sick() string {
	lines := named("", 16, "redlock, all masters well", "redlock", "redlock plain", "redsync+redigo", "redsync+go-redis",
		"redsync+redigo fail-fast")
	in := func(scenario string) spot { return spot{scenario: scenario} }
	return r.view("", lines,
		column{"silent: cycles/s", in("silent"), of(rate)}, column{"p99 ms", in("silent"), per(1000, p99)},
		column{"max ms", in("silent"), per(1000, longest)},
		column{"falling silent: max ms", in("onset"), per(1000, longest)},
		column{"50 ms late: cycles/s", in("slow"), of(rate)}, column{"p99 ms", in("slow"), per(1000, p99)},
		column{"two refused: cycles/s", in("refused"), of(rate)}) +
		r.bars("one of five masters is silent: p99", "ms", per(1000, p99), lines, in("silent"))
}

func (r results) several() string {
	lines := numbered("lockall", 1, 16, 64)
	one, ten, floor := spot{lock: "redlock"}, spot{lock: "redlock" + tenNames}, spot{lock: "limit with tokens" + tenNames}
	cost := func(r *row) string { return number(1 / r.figures[rateToOne]) }
	return r.view("goroutines", lines,
		column{"one name: cycles/s", one, of(rate)}, column{"ten: cycles/s", ten, of(rate)},
		column{"ten cost, in cycles of one", ten, cost}, column{"of the floor's rate", ten, of(rateToLimit)},
		column{"the floor's ten, in cycles of its one", floor, cost})
}

func in(scenario string, contestants []contestant) (lines []line) {
	for _, c := range contestants {
		lines = append(lines, named(scenario, 0, c.name)...)
	}
	return lines
}

func (r results) consensus() string {
	at := func(n int) spot { return spot{n: n} }
	contended := spot{scenario: "-contended", n: 32}
	times := func(r *row) string {
		if v := r.figures[rateToLock]; v > 0 {
			return number(1 / v)
		}
		return ""
	}
	return r.view("", in("consensus", beside),
		column{"cycles/s at 1 goroutine", at(1), of(rate)},
		column{"at 64", at(64), of(rate)}, column{"redlock ÷ it", at(64), times},
		column{"at 256", at(256), of(rate)}, column{"redlock ÷ it", at(256), times},
		column{"CPU µs at 64", at(64), per(1, clientCPU, serverCPU)},
		column{"32 contend: acquisitions/s", contended, of(rate)}, column{"wait p99 ms", contended, per(1000, p99)}) +
		r.bars("64 goroutines, a name for each", "cycles/s", of(rate), in("consensus", beside), at(64))
}

func (r results) outage() string {
	silent, killed := spot{scenario: "-silent", n: 16}, spot{scenario: "-killed", n: 16}
	return r.view("", in("consensus", outages),
		column{"silent: nobody acquires for ms", silent, of(without)},
		column{"longest cycle ms", silent, per(1000, longest)},
		column{"killed: nobody acquires for ms", killed, of(without)},
		column{"longest cycle ms", killed, per(1000, longest)})
}

func (r results) lost() string {
	at := spot{n: lostUpdates.goroutines[0]}
	show := func(name string) func(*row) string { return format("%.0f", name) }
	return r.view("", in(lostUpdates.name, lostUpdates.contestants),
		column{"updates", at, show(updates)}, column{"pauses", at, show(pauses)},
		column{"refused", at, show(rejected)}, column{"lost", at, show(lost)})
}

// crowds are the sizes of those that were measured.
func (r results) crowds() (sizes []int) {
	if o := r[crowdScenario]; o != nil {
		for _, r := range o.Rows {
			sizes = append(sizes, r.n)
		}
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

func (r results) crowdClients() string {
	lines := numbered(crowdScenario, r.crowds()...)
	rest, waited := spot{lock: atRest}, spot{lock: allWait}
	return r.view("clients", lines,
		column{"KiB of memory of each", rest, of(memoryOfEach)}, column{"goroutines of each", rest, of(goroutinesOfEach)},
		column{"KiB, once it has waited", waited, of(memoryOfEach)},
		column{"goroutines, once it has waited", waited, of(goroutinesOfEach)},
		column{"CPU of all at rest, % of a core", rest, of(clientShare)}, column{"a master's CPU, %", rest, of(masterShare)},
		column{"of the busiest", rest, of(busiestShare)},
		column{"keys left in the end", spot{lock: redlockFenced5.name}, format("%.0f", orphans)})
}

func (r results) crowdWaits() string {
	return r.view("clients", numbered(crowdScenario, r.crowds()...),
		column{"all open at once: ms until each has had a lock", spot{lock: allOpen}, of(took)},
		column{"all want one name: ms until each has had it", spot{lock: oneName}, of(took)},
		column{"a master dies and returns: worst cycle of one more client, ms", spot{lock: masterReturns}, of("worst ms")})
}

// generated are the parts of a page between two marks that name what stands there.
var generated = regexp.MustCompile(`(?s)(<!-- bench: ([a-z-]+) -->\n).*?(<!-- bench: end -->)`)

// update brings the tables of the pages in a directory up to date, and leaves the rest of the pages as it is.
func (r results) update(docs string) (err error) {
	for page, parts := range pages {
		file := filepath.Join(docs, page)
		text, bad := os.ReadFile(file)
		if errors.Is(bad, os.ErrNotExist) {
			continue
		}
		updated, wrong := r.updated(string(text), parts)
		if err = errors.Join(err, bad, wrong); err == nil {
			err = os.WriteFile(file, []byte(updated), 0o644)
		}
	}
	return err
}

func (r results) updated(text string, parts map[string]func(results) string) (_ string, err error) {
	text = generated.ReplaceAllStringFunc(text, func(part string) string {
		m := generated.FindStringSubmatch(part)
		write := parts[m[2]]
		if write == nil {
			err = fmt.Errorf("nothing is known of %q", m[2])
		} else if table := write(r); table != "" { // else nothing of it was measured
			return m[1] + "\n" + table + "\n" + m[3]
		}
		return part
	})
	return text, err
}
