package simtest

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// judge checks what is promised: one success, or exactly as many runs as may be; never two at once; nobody was told
// what is not so.
func (h *Hour) judge(blame func(format string, args ...any)) {
	slices.SortFunc(h.Runs, func(a, b HourRun) int { return a.Begun.Compare(b.Begun) })
	count := map[string]int{}
	for i, r := range h.Runs {
		count[r.How]++
		if i > 0 && r.Begun.Before(h.Runs[i-1].Ended) {
			blame("%s: %s began before %s had ended", h.Name, r.Process, h.Runs[i-1].Process)
		}
		if i > 0 && h.Runs[i-1].How == ranOK {
			blame("%s: %s began after a success", h.Name, r.Process)
		}
	}
	switch {
	case len(h.Runs) > hourRuns:
		blame("%s: %d runs", h.Name, len(h.Runs))
	case h.Done > 1 || h.Done != count[ranOK]:
		blame("%s: %d runs went well, %d were told so", h.Name, count[ranOK], h.Done)
	case h.Told["lost"] != count[ranLost]:
		blame("%s: %d runs lost their holds, %d were told so", h.Name, count[ranLost], h.Told["lost"])
	case h.Done == 0 && len(h.Runs) != hourRuns:
		blame("%s: neither done nor exhausted after %d runs", h.Name, len(h.Runs))
	case h.Done == 0 && (h.Told["done"] > 0 || h.Told["exhausted"] == 0), h.Done == 1 && h.Told["exhausted"] > 0:
		blame("%s: done %d times, and others were told %v", h.Name, h.Done, h.Told)
	}
}

// Totals sums up.
func (w *Hours) Totals() (done, exhausted int, runs map[string]int) {
	runs = map[string]int{}
	for _, h := range w.List {
		if done += h.Done; h.Done == 0 {
			exhausted++
		}
		for _, r := range h.Runs {
			runs[r.How]++
		}
	}
	return done, exhausted, runs
}

// Print writes a line for each hour.
func (w *Hours) Print(out io.Writer) error {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "JOB\tOUTCOME\tOTHERS WERE TOLD\tNODES RESTARTED\tRUNS")
	for _, h := range w.List {
		outcome := "exhausted"
		if h.Done > 0 {
			outcome = "done"
		}
		var told, runs []string
		for _, what := range []string{"done", "exhausted"} {
			if n := h.Told[what]; n > 0 {
				told = append(told, fmt.Sprintf("%d %s", n, what))
			}
		}
		for _, r := range h.Runs {
			runs = append(runs, fmt.Sprintf("%s %s (%s)", r.Process, r.How, r.Ended.Sub(r.Begun).Truncate(time.Second)))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", h.Name, outcome, strings.Join(told, ", "), h.Restarts,
			strings.Join(runs, ", "))
	}
	return t.Flush()
}
