package demo

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/redlock/redlocktest"
)

// Marks in front of what happened.
const (
	good    = "✓"
	bad     = "✗"
	up      = "●"
	down    = "○"
	neutral = "·"
)

func (d *demo) mark(mark string) string {
	colour := terminal.Dim
	switch mark {
	case good, up:
		colour = terminal.Green
	case bad, down:
		colour = terminal.Red
	}
	return d.Paint(colour, mark)
}

// bar draws how many units were sold, in cells that stand for as many as there are customers: red beyond the stock.
func (d *demo) bar(sold, cells int) string {
	stock, at := cells*units/customers, cells*min(sold, customers)/customers
	return d.Paint(terminal.Green, strings.Repeat("█", min(at, stock))) +
		d.Paint(terminal.Dim, strings.Repeat("░", max(stock-at, 0))) + "▏" +
		d.Paint(terminal.Red, strings.Repeat("█", max(at-stock, 0))) + strings.Repeat(" ", cells-max(at, stock))
}

// heading begins a step.
func (d *demo) heading(title, intro string) {
	d.Print("", d.Paint(terminal.Bold, title), d.Paint(terminal.Dim, intro), "")
}

// say tells what has just happened.
func (d *demo) say(mark, format string, args ...any) {
	at := fmt.Sprintf("%6.2fs", time.Since(d.start).Seconds())
	d.Print(fmt.Sprintf("%s  %s %s", d.Paint(terminal.Dim, at), d.mark(mark), fmt.Sprintf(format, args...)))
}

// detail adds to what was said.
func (d *demo) detail(format string, args ...any) {
	d.Print(strings.Repeat(" ", 11) + fmt.Sprintf(format, args...))
}

// sold tells how a sale ended.
func (d *demo) sold(s *sale) {
	mark := bad
	if s.exact() {
		mark = good
	}
	d.say(mark, "sold %d of %d units; the stock says that %d are left", s.sold.Load(), units, s.stock.Load())
}

// showState shows masters and sale below all else until the returned function is called; not in plain lines, which say
// what happens to both.
func (d *demo) showState() (stop func()) {
	if !d.Live {
		return func() {}
	}
	return d.Animate(d.state)
}

// state draws masters and sale.
func (d *demo) state(width, _ int) []string {
	marks, alive := d.masters()
	for i := range marks {
		marks[i] += " " + d.Paint(terminal.Dim, strconv.Itoa(i+1))
	}
	verdict := fmt.Sprintf("%d of %d up: a majority", alive, masters)
	if alive < majority {
		verdict = d.Paint(terminal.Red, fmt.Sprintf("%d of %d up: no majority", alive, masters))
	}
	s := d.current.Load()
	sold := int(s.sold.Load())
	numbers := fmt.Sprintf("%d sold, stock says %d", sold, s.stock.Load())
	if sold > units {
		numbers = d.Paint(terminal.Red, numbers)
	}
	cells := min(max(width-40, 9), 48)
	return []string{
		"  masters  " + strings.Join(marks, "  ") + "   " + verdict,
		"  sold     " + d.bar(sold, cells) + " " + numbers,
	}
}

// masters returns a mark for each, and how many are up.
func (d *demo) masters() (marks []string, alive int) {
	for i := range d.cluster.Len() {
		mark := down
		if d.cluster.State(i) == redlocktest.Up {
			mark, alive = up, alive+1
		}
		marks = append(marks, d.mark(mark))
	}
	return marks, alive
}

// explain shows why a lock was not granted, node by node.
func (d *demo) explain(err error) {
	var q *redlock.QuorumError
	if !errors.As(err, &q) {
		d.detail("%v", err)
		return
	}
	d.detail("%s: %d of %d nodes granted it, a majority is %d",
		d.Paint(terminal.Red, "no quorum"), q.Granted, len(q.Nodes), q.Need)
	for i, n := range q.Nodes {
		mark := bad
		if n.Outcome == "granted" {
			mark = good
		} else if n.Outcome == "no answer yet" {
			mark = neutral
		}
		const margin = 18 // of what stands before the reason
		width, _ := d.Room()
		lines := terminal.Wrap(strings.Fields(n.Error()), width-margin)
		d.detail("  %s %d  %s", d.mark(mark), i+1, lines[0])
		for _, line := range lines[1:] {
			d.detail("       %s", line)
		}
	}
}

// summary tells the outcome, and returns an error where the lock did not hold.
func (d *demo) summary() error {
	d.Print("", d.Paint(terminal.Bold, "Summary"), "")
	line := func(mark, what, format string, args ...any) {
		d.Print(fmt.Sprintf("  %s %-18s %s", d.mark(mark), what, fmt.Sprintf(format, args...)))
	}
	sold := d.unlocked.sold.Load()
	line(bad, "without the lock", "%d sold of %d: oversold by %d", sold, units, max(0, sold-units))
	sold = d.locked.sold.Load()
	if d.locked.exact() {
		line(good, "with the lock", "%d sold of %d: exact, 2 of %d masters dead for %.1f s",
			sold, units, masters, d.outage.Seconds())
	} else {
		line(bad, "with the lock", "%d sold of %d, up to %d tills at once: THE LOCK DID NOT HOLD",
			sold, units, d.locked.crowd.Load())
	}
	if d.early == 0 {
		line(good, "without majority", "no lock granted; again %s after it came back",
			d.again.Round(time.Millisecond))
		d.Print(d.Paint(terminal.Dim, fmt.Sprintf("%23s(a real fleet's restart guard makes that 30 s)", "")))
	} else {
		line(bad, "without majority", "%d locks granted: THAT MUST NOT BE", d.early)
	}
	d.Print("", d.Paint(terminal.Dim, fmt.Sprintf("Took %.1f s. Next: redlock run --help", time.Since(d.start).Seconds())))
	if !d.locked.exact() || d.early > 0 {
		return ErrNotHeld
	}
	return nil
}

// numbers lists two nodes or more as people count them: "1, 3 and 5".
func numbers(nodes []int) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = strconv.Itoa(n + 1)
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " and " + words[last]
}
