package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s. Began %s; rounds of %s.\n", r.Machine, r.Began.Format(time.DateTime+" UTC"), r.Duration)
	for _, v := range r.Versions {
		fmt.Fprintf(&b, "\n- %s", v)
	}
	b.WriteString("\n")
	for _, res := range r.Scenarios {
		b.WriteString(res.markdown())
	}
	return b.String()
}

func (res *result) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n### %s\n\n%s Rounds: %d.", res.Name, res.About, res.rounds())
	if !res.Began.IsZero() {
		fmt.Fprintf(&b, " Began %s, load average %s.", res.Began.Format("15:04 UTC"), number(res.Load))
	}
	if res.Commit != "" {
		fmt.Fprintf(&b, " Measured at commit `%s`.", res.Commit)
	}
	if res.Machine != "" {
		fmt.Fprintf(&b, " On another machine: %s.", res.Machine)
	}
	b.WriteString("\n\n")
	switch {
	case res.contended():
		res.contendedTable(&b)
	case res.renewals():
		res.renewalsTable(&b)
	case res.crowds():
		b.WriteString(res.crowdTables())
	default:
		res.table(&b)
	}
	res.remarks(&b)
	return b.String()
}

func (res *result) rounds() (n int) {
	for _, r := range res.Rows {
		n = max(n, len(r.Samples))
	}
	return n
}

// texts are the columns that are of words.
var texts = []string{
	"lock", "what they do", "what happens", "state of the masters", "a thousand", "grows",
	"half a core is taken by",
}

// head writes the head of a table. All columns are of numbers, but for texts.
func head(b *strings.Builder, columns ...string) {
	b.WriteString("| " + strings.Join(columns, " | ") + " |\n|")
	for _, c := range columns {
		if slices.Contains(texts, c) {
			b.WriteString("-|")
		} else {
			b.WriteString("-:|")
		}
	}
	b.WriteString("\n")
}

func (res *result) table(b *strings.Builder) {
	head(b,
		"goroutines", "lock", "masters", "cycles/s (least–most)", "× redsync", "× best single", "of limit",
		"acquire p50 µs", "p50 µs", "p99 µs", "p99.9 µs", "max ms", "allocs", "bytes", "client CPU µs",
		"server CPU µs", "orphans", "errors")
	for _, r := range res.Rows {
		if len(r.Samples) == 0 {
			continue
		}
		rate := r.spread(perSecond)
		rates := fmt.Sprintf("%s (%s–%s)", number(rate.median), number(rate.low), number(rate.high))
		if r.hung() {
			rates = "**hung**"
		}
		against := func(is func(*row) bool) string {
			if to := res.reference(r.Goroutines, is); to != nil && to != r && !r.hung() {
				return number(r.ratio(to, perSecond))
			}
			return ""
		}
		m := func(of func(sample) float64) string { return number(r.mid(of)) }
		fmt.Fprintf(b, "| %d | %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %.0f | %.0f |\n",
			r.Goroutines, r.Contestant, r.Nodes, rates, against(isRedsync), against(isSingle), against(isLimit),
			m(func(s sample) float64 { return s.AcquireP50 }), m(func(s sample) float64 { return s.P50 }),
			m(func(s sample) float64 { return s.P99 }), m(func(s sample) float64 { return s.P999 }),
			number(r.spread(func(s sample) float64 { return s.Max / 1000 }).high),
			m(func(s sample) float64 { return s.Allocs }), m(func(s sample) float64 { return s.Bytes }),
			m(func(s sample) float64 { return s.ClientCPU }), m(func(s sample) float64 { return s.ServerCPU }),
			r.total(func(s sample) float64 { return float64(s.Orphans) }),
			r.total(func(s sample) float64 { return float64(s.Errors) }))
	}
}

func (res *result) contendedTable(b *strings.Builder) {
	head(b,
		"contenders", "lock", "masters", "acquisitions/s (least–most)", "× redsync", "wait p50 ms", "p99 ms",
		"max ms", "p99 ÷ a turn of all", "others meanwhile p99", "idle gap p50 µs", "p99 µs",
		"fewest–most of one", "Jain", "overlaps", "requests/node", "commands/node", "server CPU µs", "orphans",
		"errors")
	for _, r := range res.Rows {
		if len(r.Samples) == 0 {
			continue
		}
		if r.hung() {
			fmt.Fprintf(b, "| %d | %s | %d | **hung** |\n", r.Goroutines, r.Contestant, r.Nodes)
			continue
		}
		rate := r.spread(perSecond)
		versus := ""
		if to := res.reference(r.Goroutines, isRedsync); to != nil && to != r {
			versus = number(r.ratio(to, perSecond))
		}
		m := func(of func(*waits) float64) string {
			return number(r.mid(func(s sample) float64 { return of(s.Wait) }))
		}
		fmt.Fprintf(b, "| %d | %s | %d | %s (%s–%s) | %s | %s | %s | %s | %s | %s | %s | %s | %s–%s | %s | %.0f | "+
			"%s | %s | %s | %.0f | %.0f |\n",
			r.Goroutines, r.Contestant, r.Nodes, number(rate.median), number(rate.low), number(rate.high), versus,
			m(func(w *waits) float64 { return w.P50 / 1000 }), m(func(w *waits) float64 { return w.P99 / 1000 }),
			number(r.spread(func(s sample) float64 { return s.Wait.Max / 1000 }).high),
			number(r.mid(func(s sample) float64 { return s.turns(r.Goroutines) })),
			m(func(w *waits) float64 { return w.Others }), m(func(w *waits) float64 { return w.GapP50 }),
			m(func(w *waits) float64 { return w.GapP99 }),
			m(func(w *waits) float64 { return float64(w.Fewest) }), m(func(w *waits) float64 { return float64(w.Most) }),
			m(func(w *waits) float64 { return w.Jain }), r.total(func(s sample) float64 { return float64(s.Wait.Overlaps) }),
			m(func(w *waits) float64 { return w.Requests }), m(func(w *waits) float64 { return w.Commands }),
			number(r.mid(func(s sample) float64 { return s.ServerCPU })),
			r.total(func(s sample) float64 { return float64(s.Orphans) }),
			r.total(func(s sample) float64 { return float64(s.Errors) }))
	}
}

// turns is the p99 wait in turns of all contenders, a turn being the mean time from one acquisition to the
// next. A queue that is fair, and moves steadily, gives 1.
func (s sample) turns(contenders int) float64 {
	return s.Wait.P99 / 1e6 * s.PerSecond / float64(contenders)
}

// remarks give one example of each contestant's errors.
func (res *result) remarks(b *strings.Builder) {
	said := map[string]bool{}
	for _, r := range res.Rows {
		for _, s := range r.Samples {
			if s.Example != "" && !said[r.Contestant] {
				said[r.Contestant] = true
				fmt.Fprintf(b, "\n%s, an error: `%.300s`\n", r.Contestant, strings.ReplaceAll(s.Example, "\n", " "))
			}
		}
	}
}

func (r *row) total(of func(sample) float64) (sum float64) {
	for _, s := range r.Samples {
		sum += of(s)
	}
	return sum
}

// number shows three digits that matter, and thousands apart.
func number(v float64) string {
	switch {
	case v >= 1_000_000:
		return fmt.Sprintf("%d,%03d,%03d", int(v)/1_000_000, int(v)/1000%1000, int(v)%1000)
	case v >= 10_000:
		return fmt.Sprintf("%d,%03d", int(v)/1000, int(v)%1000)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
