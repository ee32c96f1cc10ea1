package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

// crowdTables are all that was measured of crowds. A table without a part that was measured is left out.
func (res *result) crowdTables() string {
	var b strings.Builder
	only := res.onlyParts()
	if only != "" {
		fmt.Fprintf(&b, "Only %s; what belongs to other parts is 0.\n\n", only)
	}
	measured := &crowdPlan{parts: only}
	b.WriteString(res.crowdStarts())
	for _, table := range []struct {
		write func() string
		of    []string
	}{
		{res.crowdClients, []string{"rest", "waiters"}},
		{res.crowdCosts, []string{"rest", "holds", "cycles", "waiters"}},
		{res.crowdEvents, []string{"holds", "newcomers"}},
	} {
		if slices.ContainsFunc(table.of, measured.wants) {
			b.WriteString("\n" + table.write())
		}
	}
	return b.String()
}

// onlyParts are the parts of the scenario that were chosen; empty: all were measured.
func (res *result) onlyParts() (parts string) {
	for _, r := range res.Rows {
		for _, s := range r.Samples {
			parts = cmp.Or(parts, s.Crowd.Parts)
		}
	}
	return parts
}

// of returns a function that shows the median of one of a crowd's figures.
func (r *row) of() func(func(*crowd) float64) string {
	return func(f func(*crowd) float64) string {
		return number(r.mid(func(s sample) float64 { return f(s.Crowd) }))
	}
}

// starts are the ways in which a crowd comes to its first lock.
var starts = []struct {
	name string
	of   func(*crowd) *arrival
}{
	{"all open, in one process", func(c *crowd) *arrival { return c.Open }},
	{"all open, in ten processes", func(c *crowd) *arrival { return c.Processes }},
	{"all masters are killed, and come back", func(c *crowd) *arrival { return c.Restart }},
}

// crowdStarts is how long crowds need for a first lock each. What was not measured has no row.
func (res *result) crowdStarts() string {
	var b strings.Builder
	head(&b, "clients", "what happens", "had a lock then", "after s", "calls failed meanwhile",
		"connections made for each that they want")
	for _, r := range res.Rows {
		for _, st := range starts {
			var measured []arrival
			for _, s := range r.Samples {
				if a := st.of(s.Crowd); a != nil {
					measured = append(measured, *a)
				}
			}
			if len(measured) == 0 {
				continue
			}
			mid := func(f func(arrival) float64) float64 {
				var values []float64
				for _, a := range measured {
					values = append(values, f(a))
				}
				return median(values).median
			}
			made := mid(func(a arrival) float64 { return a.Made })
			shown := "–" // an earlier version did not count them
			if made > 0 {
				shown = number(made)
			}
			fmt.Fprintf(&b, "| %d | %s | %.0f of %d | %s | %.0f | %s |\n", r.Goroutines, st.name,
				mid(func(a arrival) float64 { return float64(a.Served) }), measured[0].Clients,
				number(mid(func(a arrival) float64 { return a.Took })),
				mid(func(a arrival) float64 { return float64(a.Failed) }), shown)
		}
	}
	return b.String()
}

// crowdClients is what a client costs its own machine.
func (res *result) crowdClients() string {
	var b strings.Builder
	head(&b, "clients", "KiB of memory of each", "goroutines of each",
		"KiB, once it has waited", "goroutines, once it has waited",
		"CPU of all at rest, % of a core", "a master's CPU, %", "of the busiest", "keys left in the end")
	for _, r := range res.Rows {
		m := r.of()
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %.0f |\n", r.Goroutines,
			m(func(c *crowd) float64 { return c.Memory }), m(func(c *crowd) float64 { return c.Goroutines }),
			m(func(c *crowd) float64 { return c.MemoryWaited }), m(func(c *crowd) float64 { return c.GoroutinesWaited }),
			m(func(c *crowd) float64 { return c.Rest.Client }), m(func(c *crowd) float64 { return c.Rest.Master }),
			m(func(c *crowd) float64 { return c.Rest.Busiest }),
			r.total(func(s sample) float64 { return float64(s.Orphans) }))
	}
	return b.String()
}

// A state is what a crowd does while its cost is measured.
type state struct {
	name   string
	events string // "": it has none
	of     func(*crowd) *cost
}

var states = []state{
	{"nobody is there", "", func(c *crowd) *cost { return &c.Empty }},
	{"at rest", "", func(c *crowd) *cost { return &c.Rest }},
	{"each keeps a hold, TTL 10 s", "renewals", func(c *crowd) *cost { return &c.Holds }},
	{"each locks and unlocks at a pace", "cycles", func(c *crowd) *cost { return &c.Cycles }},
	{"all wait for one name", "", func(c *crowd) *cost { return &c.Waiters }},
}

// crowdCosts is what each state of each crowd costs.
func (res *result) crowdCosts() string {
	var b strings.Builder
	head(&b, "clients", "what they do", "a second", "client CPU, % of a core", "a master's CPU, %", "of the busiest",
		"commands/s", "KiB/s in", "KiB/s out", "memory of a master, KiB", "connections")
	for _, r := range res.Rows {
		for _, st := range states {
			m := func(f func(*cost) float64) string { return r.of()(func(c *crowd) float64 { return f(st.of(c)) }) }
			events := ""
			if st.events != "" {
				events = m(func(l *cost) float64 { return l.Events }) + " " + st.events
			}
			fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %.0f |\n", r.Goroutines, st.name, events,
				m(func(l *cost) float64 { return l.Client }), m(func(l *cost) float64 { return l.Master }),
				m(func(l *cost) float64 { return l.Busiest }), m(func(l *cost) float64 { return l.Commands }),
				m(func(l *cost) float64 { return l.In }), m(func(l *cost) float64 { return l.Out }),
				m(func(l *cost) float64 { return l.Memory }),
				r.mid(func(s sample) float64 { return st.of(s.Crowd).Connections }))
		}
	}
	return b.String()
}

// crowdEvents is what happens when a master dies and returns, when all want one name, and when newcomers start.
func (res *result) crowdEvents() string {
	var b strings.Builder
	head(&b, "clients", "TTL s", "a master's return: holds lost", "calls failed", "worst cycle ms, before", "during",
		"one name at once: served", "after s", "overlaps")
	for _, r := range res.Rows {
		for i, ttl := range crowdTTLs {
			m := r.of()
			total := func(f func(*crowd) int) float64 {
				return r.total(func(s sample) float64 { return float64(f(s.Crowd)) })
			}
			served := fmt.Sprintf("%.0f of %d",
				r.mid(func(s sample) float64 { return float64(s.Crowd.Hot[i].Served) }), r.Goroutines)
			if failed := total(func(c *crowd) int { return c.Hot[i].Failed }); failed > 0 {
				served += fmt.Sprintf(", %.0f failed", failed)
			}
			fmt.Fprintf(&b, "| %d | %.0f | %.0f | %.0f of %.0f | %s | %s | %s | %s | %.0f |\n", r.Goroutines, ttl.Seconds(),
				total(func(c *crowd) int { return c.Returns[i].Lost }), total(func(c *crowd) int { return c.Returns[i].Failed }),
				total(func(c *crowd) int { return c.Returns[i].Calls }),
				number(r.spread(func(s sample) float64 { return s.Crowd.Returns[i].Before }).high),
				number(r.spread(func(s sample) float64 { return s.Crowd.Returns[i].Worst }).high),
				served, m(func(c *crowd) float64 { return c.Hot[i].Took }),
				total(func(c *crowd) int { return c.Hot[i].Overlaps }))
		}
	}
	b.WriteString("\n")
	head(&b, "clients at rest beside them", "newcomers at one moment", "state of the masters", "starts",
		"until the first has it ms, median", "of the worst start",
		"until the last has had it ms, median", "of the worst start", "starts with an error")
	for _, r := range res.Rows {
		for _, st := range []struct {
			masters string
			of      func(*crowd) *start
		}{
			{"all well", func(c *crowd) *start { return &c.Starts }},
			{"one 50 ms late", func(c *crowd) *start { return &c.Late }},
		} {
			one := st.of(r.Samples[0].Crowd)
			fmt.Fprintf(&b, "| %d | %d | %s | %.0f | %s | %s | %s | %s | %.0f |\n", r.Goroutines, one.Clients, st.masters,
				r.total(func(s sample) float64 { return float64(st.of(s.Crowd).Starts) }),
				r.of()(func(c *crowd) float64 { return st.of(c).FirstMedian }),
				number(r.spread(func(s sample) float64 { return st.of(s.Crowd).FirstWorst }).high),
				r.of()(func(c *crowd) float64 { return st.of(c).Median }),
				number(r.spread(func(s sample) float64 { return st.of(s.Crowd).Worst }).high),
				r.total(func(s sample) float64 { return float64(st.of(s.Crowd).Failed) }))
		}
	}
	return b.String()
}

// generated are the parts of a page between two marks that name what stands there.
var generated = regexp.MustCompile(`(?s)(<!-- bench: ([a-z-]+) -->\n).*?(<!-- bench: end -->)`)

// update brings the tables of a page up to date, and leaves the rest of the page as it is.
func (r *report) update(page string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	updated, err := r.updated(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(page, []byte(updated), 0o644)
}

func (r *report) updated(text string) (_ string, err error) {
	for _, res := range r.Scenarios {
		if !res.crowds() {
			continue
		}
		if only := res.onlyParts(); only != "" {
			return text, fmt.Errorf("of the crowd only %s was measured", only)
		}
		parts := map[string]func() string{
			"machine": func() string { return res.where(r) }, "starts": res.crowdStarts,
			"clients": res.crowdClients, "events": res.crowdEvents,
			"costs": res.costs, "limits": res.limits,
		}
		text = generated.ReplaceAllStringFunc(text, func(part string) string {
			m := generated.FindStringSubmatch(part)
			write := parts[m[2]]
			if write == nil {
				err = fmt.Errorf("nothing is known of %q", m[2])
				return part
			}
			return m[1] + "\n" + write() + "\n" + m[3]
		})
		return text, err
	}
	return text, fmt.Errorf("no crowd was measured")
}

// where says on which machine a result was measured, when, and of which library. A test of docs reads the commit.
func (res *result) where(r *report) string {
	machine := res.Machine
	if machine == "" {
		machine = r.Machine
	}
	of := ""
	if res.Commit != "" {
		of = fmt.Sprintf("; measured at commit `%s`", res.Commit)
	}
	return fmt.Sprintf("Measured on %s, with clients and masters on one machine; %s, load average %s%s.\n",
		machine, res.Began.Format("2 January 2006, 15:04 UTC"), number(res.Load), of)
}
