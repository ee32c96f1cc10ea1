package main

import (
	"errors"
	"fmt"
	"maps"
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
	lock     string // of the line's and of the column's, one follows the other
	n        int
}

type line struct {
	cells []string // that it begins with
	spot
}

type column struct {
	title string
	spot
	show func(*row) string
}

func (r *results) view(head []string, lines []line, columns ...column) string {
	for _, c := range columns {
		head = append(head, c.title)
	}
	var rows [][]string
	for _, l := range lines {
		cells, measured := l.cells, false
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

// pages have the parts that are made here, by name.
var pages = map[string]map[string]func(*results) string{
	"benchmarks.md": {
		"uncontended": (*results).uncontended, "contended": (*results).contended, "sick": (*results).sick,
		"several": (*results).several,
	},
	"scale.md": {
		"machine": func(r *results) string {
			if one := r.of(crowdScenario); one != nil {
				return one.String() + "\n"
			}
			return ""
		},
		"starts": (*results).crowdStarts, "clients": (*results).crowdClients, "events": (*results).crowdEvents,
		"costs": (*results).costs, "limits": (*results).limits,
	},
}

// compared makes a line for each contestant.
func compared(scenario string, locks ...string) (lines []line) {
	for _, lock := range locks {
		lines = append(lines, line{[]string{lock}, spot{scenario: scenario, lock: lock}})
	}
	return lines
}

func (r *results) uncontended() string {
	at := func(n int) spot { return spot{n: n} }
	return r.view([]string{""}, compared("uncontended", "limit", "redlock plain async", "redlock plain", "redlock async",
		"redlock", "redsync+redigo", "redsync+rueidis", "redsync+rueidis fail-fast", "rueidislock", "bare SET NX",
		"bsm/redislock"),
		column{"masters", at(64), func(r *row) string { return strconv.Itoa(r.masters) }},
		column{"cycles/s at 64 goroutines", at(64), of(rate)}, column{"÷ redsync+redigo", at(64), of(rateToRedsync)},
		column{"cycles/s at 256", at(256), of(rate)}, column{"÷ redsync+redigo", at(256), of(rateToRedsync)},
		column{"allocs", at(64), of("allocs")}, column{"bytes", at(64), format("%.0f", "bytes")},
		column{"CPU µs, client + servers", at(64), per(1, clientCPU, serverCPU)})
}

func (r *results) contended() string {
	var lines []line
	for _, n := range []int{2, 8, 32, 128} {
		lines = append(lines, line{[]string{strconv.Itoa(n)}, spot{n: n, scenario: "contended"}})
	}
	ours, theirs := spot{lock: "redlock"}, spot{lock: "redsync+redigo"}
	turns := format("%.0f–%.0f", "fewest", "most")
	return r.view([]string{"contenders"}, lines,
		column{"redlock: acquisitions/s", ours, of(rate)}, column{"wait p99 ms", ours, per(1000, p99)},
		column{"idle gap p50 µs", ours, of("gap p50 µs")}, column{"fewest–most of one", ours, turns},
		column{"redsync+redigo: acquisitions/s", theirs, of(rate)}, column{"fewest–most of one", theirs, turns})
}

func (r *results) sick() string {
	var lines []line
	for _, lock := range []string{
		"redlock, all masters well", "redlock", "redlock plain", "redsync+redigo", "redsync+go-redis",
		"redsync+redigo fail-fast",
	} {
		lines = append(lines, line{[]string{lock}, spot{n: 16, lock: lock}})
	}
	in := func(scenario string) spot { return spot{scenario: scenario} }
	return r.view([]string{""}, lines,
		column{"silent: cycles/s", in("silent"), of(rate)}, column{"p99 ms", in("silent"), per(1000, p99)},
		column{"falling silent: max ms", in("onset"), per(1000, longest)},
		column{"50 ms late: cycles/s", in("slow"), of(rate)}, column{"p99 ms", in("slow"), per(1000, p99)},
		column{"two refused: cycles/s", in("refused"), of(rate)})
}

func (r *results) several() string {
	var lines []line
	for _, n := range []int{1, 16, 64} {
		lines = append(lines, line{[]string{strconv.Itoa(n)}, spot{n: n, scenario: "lockall"}})
	}
	one, ten, floor := spot{lock: "redlock"}, spot{lock: "redlock" + tenNames}, spot{lock: "limit with tokens" + tenNames}
	cost := func(r *row) string { return number(1 / r.figures[rateToOne]) }
	return r.view([]string{"goroutines"}, lines,
		column{"one name: cycles/s", one, of(rate)}, column{"ten: cycles/s", ten, of(rate)},
		column{"ten cost, in cycles of one", ten, cost}, column{"of the floor's rate", ten, of(rateToLimit)},
		column{"the floor's ten, in cycles of its one", floor, cost})
}

// ofCrowd makes a line for each size of a crowd and each of these.
func (r *results) ofCrowd(what ...string) (lines []line) {
	sizes := map[int]bool{}
	for _, r := range r.rows {
		if r.scenario == crowdScenario {
			sizes[r.n] = true
		}
	}
	for _, n := range slices.Sorted(maps.Keys(sizes)) {
		for _, w := range what {
			lines = append(lines, line{[]string{strconv.Itoa(n)}, spot{crowdScenario, w, n}})
		}
	}
	return lines
}

func (r *results) crowdStarts() string {
	return r.view([]string{"clients"}, r.ofCrowd(allOpen, tenProcesses, allRestart),
		column{title: "what happens", show: func(r *row) string { return r.lock }},
		column{title: "had a lock then", show: servedOf}, column{title: "after s", show: per(1000, took)},
		column{title: "calls failed meanwhile", show: format("%.0f", failures)},
		column{title: "connections made for each that they want", show: of(made)})
}

func servedOf(r *row) string { return fmt.Sprintf("%.0f of %d", r.figures[served], r.n) }

func (r *results) crowdClients() string {
	rest, waited := spot{lock: atRest}, spot{lock: allWait}
	return r.view([]string{"clients"}, r.ofCrowd(""),
		column{"KiB of memory of each", rest, of(memoryOfEach)}, column{"goroutines of each", rest, of(goroutinesOfEach)},
		column{"KiB, once it has waited", waited, of(memoryOfEach)},
		column{"goroutines, once it has waited", waited, of(goroutinesOfEach)},
		column{"CPU of all at rest, % of a core", rest, of(clientShare)}, column{"a master's CPU, %", rest, of(masterShare)},
		column{"of the busiest", rest, of(busiestShare)},
		column{"keys left in the end", spot{lock: redlockFenced5.name}, format("%.0f", orphans)})
}

func (r *results) crowdEvents() string {
	back, rush := spot{lock: masterReturns}, spot{lock: oneName}
	text := r.view([]string{"clients"}, r.ofCrowd(ttlOf(crowdTTLs[0]), ttlOf(crowdTTLs[1])),
		column{"TTL s", rush, func(r *row) string { return strings.TrimSuffix(r.lock[len(oneName):], " s") }},
		column{"a master's return: holds lost", back, format("%.0f", "lost")},
		column{"calls failed", back, format("%.0f of %.0f", failures, "calls")},
		column{"worst cycle ms, before", back, of("before ms")}, column{"during", back, of("worst ms")},
		column{"one name at once: served", rush, func(r *row) string {
			if n := r.figures[failures]; n > 0 {
				return fmt.Sprintf("%s, %.0f failed", servedOf(r), n)
			}
			return servedOf(r)
		}},
		column{"after s", rush, per(1000, took)}, column{"overlaps", rush, format("%.0f", "overlaps")})
	return text + "\n" + r.view([]string{"clients at rest beside them"}, r.ofCrowd(newcomersWell, newcomersLate),
		column{title: "newcomers at one moment", show: format("%.0f", "newcomers")},
		column{title: "state of the masters", show: func(r *row) string { return r.lock[len(newcomers):] }},
		column{title: "starts", show: format("%.0f", "starts")},
		column{title: "until the first has it ms, median", show: of("first ms")},
		column{title: "of the worst start", show: of("first worst ms")},
		column{title: "until the last has had it ms, median", show: of("last ms")},
		column{title: "of the worst start", show: of("last worst ms")},
		column{title: "starts with an error", show: format("%.0f", failures)})
}

// generated are the parts of a page between two marks that name what stands there.
var generated = regexp.MustCompile(`(?s)(<!-- bench: ([a-z-]+) -->\n).*?(<!-- bench: end -->)`)

// update brings the tables of the pages in a directory up to date, and leaves the rest of the pages as it is.
func (r *results) update(docs string) (err error) {
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

func (r *results) updated(text string, parts map[string]func(*results) string) (_ string, err error) {
	text = generated.ReplaceAllStringFunc(text, func(part string) string {
		m := generated.FindStringSubmatch(part)
		write := parts[m[2]]
		if write == nil {
			err = fmt.Errorf("nothing is known of %q", m[2])
			return part
		}
		if table := write(r); table != "" {
			return m[1] + "\n" + table + "\n" + m[3]
		}
		return part // nothing of it was measured
	})
	return text, err
}
