package main

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
)

// parts are the tables and charts of the pages, by name.
//
//go:embed pages.tmpl
var parts string

// pages have parts.
var pages = []string{"benchmarks.md", "scale.md"}

// figure returns the sum of figures of a row; false: it lacks one, or was not measured.
func (r results) figure(scenario, lock string, n int, names ...string) (sum float64, ok bool) {
	row := r.find(scenario, lock, n)
	for _, name := range names {
		if row == nil {
			return 0, false
		}
		v, ok := row.figures[name]
		if name == "masters" {
			v, ok = float64(row.masters), true
		}
		if !ok {
			return 0, false
		}
		sum += v
	}
	return sum, true
}

// part writes a part of a page; empty: nothing of it was measured.
func (r results) part(name string) string {
	found := 0 // rows
	cell := func(form func(float64) string) any {
		return func(scenario, lock string, n int, names ...string) string {
			v, ok := r.figure(scenario, lock, n, names...)
			if !ok {
				return ""
			}
			found++
			return form(v)
		}
	}
	numbers := func(scenario string, locks, counts []any, name string, unit float64) (all []float64) {
		for _, lock := range locks {
			for _, n := range counts {
				v, _ := r.figure(scenario, lock.(string), n.(int), name)
				all = append(all, v/unit)
			}
		}
		return all
	}
	t := template.Must(template.New("").Funcs(template.FuncMap{
		"list":    func(all ...any) []any { return all },
		"num":     cell(number),
		"ms":      cell(func(v float64) string { return number(v / 1000) }),
		"whole":   cell(func(v float64) string { return strconv.FormatFloat(v, 'f', 0, 64) }),
		"inverse": cell(func(v float64) string { return number(1 / v) }),
		"labels": func(all []any) string {
			var texts []string
			for _, one := range all {
				texts = append(texts, strconv.Quote(fmt.Sprint(one)))
			}
			return strings.Join(texts, ",")
		},
		"values": func(scenario string, locks, counts []any, name string, unit float64) string {
			var texts []string
			for _, v := range numbers(scenario, locks, counts, name, unit) {
				texts = append(texts, strings.ReplaceAll(number(v), ",", ""))
			}
			return strings.Join(texts, ",")
		},
		"highest": func(scenario string, locks, counts []any, name string, unit float64) string {
			return strconv.FormatFloat(slices.Max(numbers(scenario, locks, counts, name, unit)), 'f', 0, 64)
		},
		"contestants": func(scenario string) (names []any) {
			for _, c := range choose(scenario, "")[0].contestants {
				names = append(names, c.name)
			}
			return names
		},
		"machine": func(scenario string) string {
			if one := r[scenario]; one != nil {
				found++
				return one.String()
			}
			return ""
		},
		"crowds": r.crowds,
		"perThousand": func() []perThousand {
			all := r.perThousand()
			found += len(all)
			return all
		},
	}).Parse(parts))
	var b strings.Builder
	must(t.ExecuteTemplate(&b, name, nil))
	if found == 0 {
		return ""
	}
	return b.String()
}

// generated are the parts of a page between two marks that name what stands there.
var generated = regexp.MustCompile(`(?s)(<!-- bench: ([a-z-]+) -->\n).*?(<!-- bench: end -->)`)

// update brings the parts of the pages in a directory up to date, and leaves the rest of the pages as it is.
func (r results) update(docs string) {
	for _, page := range pages {
		file := filepath.Join(docs, page)
		text, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must(err)
		must(os.WriteFile(file, []byte(r.updated(string(text))), 0o644))
	}
}

func (r results) updated(text string) string {
	return generated.ReplaceAllStringFunc(text, func(old string) string {
		m := generated.FindStringSubmatch(old)
		part := r.part(m[2])
		if part == "" { // nothing of it was measured
			return old
		}
		return m[1] + "\n" + part + "\n" + m[3]
	})
}

// What a master would need for more than was measured: the cost of one client, hold, waiter or cycle in the largest
// crowd, multiplied.

// A perThousand is what a thousand of something add to a master, and on their clients.
type perThousand struct {
	What, Grows string
	cost        map[string]float64
}

// Adds shows a cost. What may be lost in the noise is nothing where it is less.
func (p perThousand) Adds(name string) string {
	switch v := max(p.cost[name], 0); name {
	case connections:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case usedMemory:
		return number(v / 1024)
	default:
		return number(v)
	}
}

// HalfACore is how many take half of a master's core, alone, with two digits: more would claim too much. Empty: it was
// lost in the noise.
func (p perThousand) HalfACore() string {
	share := p.cost[masterShare]
	if share <= 0 {
		return ""
	}
	v, unit := 1000*50/share, 1.0
	for v/unit >= 100 {
		unit *= 10
	}
	return number(unit * float64(int(v/unit)))
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

// perThousand works out the costs from the largest crowd.
func (r results) perThousand() []perThousand {
	sizes := r.crowds()
	if len(sizes) == 0 {
		return nil
	}
	n := sizes[len(sizes)-1]
	figure := func(n int, state, name string) float64 {
		v, _ := r.figure(crowdScenario, state, n, name)
		return v
	}
	// added is what a state adds to another, for so many of what causes it. Memory and connections are the clients'
	// always: the buffers of their connections.
	added := func(n int, with, without string, count float64) map[string]float64 {
		cost := map[string]float64{}
		for _, name := range []string{masterShare, commands, "in KiB/s", "out KiB/s", usedMemory, connections} {
			of := count
			if name == usedMemory || name == connections {
				of = float64(n)
			}
			cost[name] = (figure(n, with, name) - figure(n, without, name)) * 1000 / max(of, 1)
		}
		return cost
	}
	// Cycles are those of the crowd that did most of them: on a busy machine the largest does not keep the pace.
	busiest := n
	for _, other := range sizes {
		if figure(other, allCycle, events) > figure(busiest, allCycle, events) {
			busiest = other
		}
	}
	return []perThousand{
		{"clients at rest", "with the clients", added(n, atRest, nobody, float64(n))},
		{"holds, TTL 10 s", "with the holds ÷ the TTL: 3 renewals in each", added(n, allHold, atRest, float64(n))},
		{"waiters, TTL 10 s", "with the waiters: each asks about once in a TTL", added(n, allWait, atRest, float64(n))},
		{"cycles/s", "with the cycles", added(busiest, allCycle, atRest, figure(busiest, allCycle, events))},
	}
}
