package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// What the demo shows beside its acts: the changing lines, the reasons, and the summary.

// status draws the changing lines.
func (d *demo) status(width int) []string {
	alive := 0
	dots := make([]string, d.cluster.Len())
	for i := range dots {
		mark := down
		if d.cluster.State(i) == redlocktest.Up {
			mark, alive = up, alive+1
		}
		if dots[i] = d.mark(mark); d.live {
			dots[i] += " " + d.paint(dim, fmt.Sprint(i+1))
		}
	}
	s := d.sale.Load()
	sold, stock := int(s.sold.Load()), s.stock.Load()
	if !d.live {
		return []string{fmt.Sprintf("masters %s, sold %d, stock %d", strings.Join(dots, ""), sold, stock)}
	}
	verdict := fmt.Sprintf("%d of %d up: a majority", alive, masters)
	if alive < majority {
		verdict = d.paint(red, fmt.Sprintf("%d of %d up: no majority", alive, masters))
	}
	numbers := fmt.Sprintf("%d sold, stock says %d", sold, stock)
	if sold > units {
		numbers = d.paint(red, numbers)
	}
	cells := min(max(width-40, 9), 48)
	return []string{
		"  masters  " + strings.Join(dots, "  ") + "   " + verdict,
		"  sold     " + d.bar(sold, units, customers, cells) + " " + numbers,
	}
}

// summary tells the outcome, and returns an error where the lock did not hold.
func (d *demo) summary() error {
	d.act("Summary")
	d.total(bad, "without the lock", "%d sold of %d: oversold by %d", d.unlocked.sold.Load(), units, max(0, d.unlocked.sold.Load()-units))
	sold := d.locked.sold.Load()
	if d.exact() {
		d.total(good, "with the lock", "%d sold of %d: exact, 2 of %d masters dead for %.1f s", sold, units, masters, d.outage.Seconds())
	} else {
		d.total(bad, "with the lock", "%d sold of %d, up to %d tills at once: THE LOCK DID NOT HOLD", sold, units, d.locked.crowd.Load())
	}
	if d.early == 0 {
		d.total(good, "without majority", "no lock granted; again %s after it came back", d.again.Round(time.Millisecond))
	} else {
		d.total(bad, "without majority", "%d locks granted: THAT MUST NOT BE", d.early)
	}
	d.print("", d.paint(dim, fmt.Sprintf("Took %.1f s. Next: redlock run --help", time.Since(d.start).Seconds())))
	if !d.exact() || d.early > 0 {
		return &failure{code: exitFailure, text: "the lock did not hold"}
	}
	return nil
}

func (d *demo) total(mark, what, format string, args ...any) {
	d.print(fmt.Sprintf("  %s %-18s %s", d.mark(mark), what, fmt.Sprintf(format, args...)))
}

// explain shows why a lock was not granted, node by node.
func (d *demo) explain(err error) {
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		d.detail("%v", err)
		return
	}
	d.detail("%s: %d of %d nodes granted it, %d are needed", d.paint(red, reason(err)), q.Granted, len(q.Nodes), q.Need)
	for i, n := range q.Nodes {
		mark := bad
		if n.Outcome == redlock.OutcomeGranted {
			mark = good
		} else if n.Outcome == redlock.OutcomeLate {
			mark = neutral
		}
		const margin = 18 // of what stands before the reason
		lines := fold(strings.Fields(n.Error()), d.width()-margin)
		d.detail("  %s %d  %s", d.mark(mark), i+1, lines[0])
		for _, line := range lines[1:] {
			d.detail("       %s", line)
		}
	}
}

func reason(err error) string {
	for _, known := range []error{redlock.ErrTaken, redlock.ErrNoQuorum, redlock.ErrLost} {
		if errors.Is(err, known) {
			return strings.TrimPrefix(known.Error(), "redlock: ")
		}
	}
	return "not granted"
}

// numbers lists nodes as people count them: "1, 3 and 5".
func numbers(nodes []int) string {
	var b strings.Builder
	for i, n := range nodes {
		switch {
		case i > 0 && i == len(nodes)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		fmt.Fprint(&b, n+1)
	}
	return b.String()
}
