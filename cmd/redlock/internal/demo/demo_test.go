package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// told is what the demo must tell, in this order, wherever it is shown.
var told = []string{
	"1  Without a lock", "✗ sold 300 of 100 units",
	"2  With the lock", "masters 2 and 4 are killed", "masters 2 and 4 are back",
	"without the restart guard", "after 30 s",
	"✓ sold 100 of 100 units",
	"3  Without a majority", "masters 1, 3 and 5 are killed", "no quorum", "not connected",
	"✓ after one second nobody holds it", "masters 1, 3 and 5 are back", "without the restart guard", "for 30 s",
	"✓ a till holds the lock", "all 20 tills",
	"Summary", "oversold by 200", "100 sold of 100: exact", "no lock granted", "restart guard makes that 30 s",
}

func TestRun(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var out bytes.Buffer
	if err := Run(t.Context(), &out); err != nil {
		t.Error(err)
	}
	rest := out.String()
	for _, want := range told {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("the demo does not tell %q where expected:\n%s", want, out.String())
		}
		rest = after
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Errorf("escape sequences where there is no terminal:\n%q", out.String())
	}
	for line := range strings.Lines(out.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	// A machine that is busy with other tests may take longer than the 15 s promised.
	t.Logf("took %s", time.Since(start).Round(100*time.Millisecond))
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	if err := Run(ctx, &out); !errors.Is(err, context.Canceled) || strings.Contains(out.String(), "Summary") {
		t.Errorf("got %v and\n%s", err, out.String())
	}
}

func TestSummary(t *testing.T) {
	for name, c := range map[string]struct {
		sold, stock, crowd, early int64
		want                      error
		says                      string
	}{
		"exact":              {100, 0, 1, 0, nil, "✓ with the lock      100 sold of 100: exact, 2 of 5 masters dead for"},
		"oversold":           {101, 0, 2, 0, ErrNotHeld, "✗ with the lock      101 sold of 100, up to 2 tills at once"},
		"two at once":        {100, 0, 2, 0, ErrNotHeld, "up to 2 tills at once: THE LOCK DID NOT HOLD"},
		"without a majority": {100, 0, 1, 3, ErrNotHeld, "✗ without majority   3 locks granted: THAT MUST NOT BE"},
	} {
		var out bytes.Buffer
		d := newDemo(&out)
		d.unlocked, d.locked, d.outage, d.early = newSale(), newSale(), 1500*time.Millisecond, c.early
		d.locked.sold.Store(c.sold)
		d.locked.stock.Store(c.stock)
		d.locked.crowd.Store(c.crowd)
		if err := d.summary(); !errors.Is(err, c.want) || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: got %v, want %v, and %q in\n%s", name, err, c.want, c.says, out.String())
		}
	}
}

func TestState(t *testing.T) {
	c := redlocktest.New(t, masters)
	d := newDemo(&bytes.Buffer{})
	d.cluster = c
	s := newSale()
	d.current.Store(s)
	for _, step := range []struct {
		kill  []int
		sold  int64
		state string
		bar   string // of 9 cells at width 40, of which 3 are the stock
	}{
		{nil, 0, "● 1  ● 2  ● 3  ● 4  ● 5   5 of 5 up: a majority", "░░░▏      "},
		{[]int{1, 3}, 70, "● 1  ○ 2  ● 3  ○ 4  ● 5   3 of 5 up: a majority", "██░▏      "},
		{nil, 100, "● 1  ○ 2  ● 3  ○ 4  ● 5   3 of 5 up: a majority", "███▏      "},
		{[]int{0}, 150, "○ 1  ○ 2  ● 3  ○ 4  ● 5   2 of 5 up: no majority", "███▏█     "},
		{nil, 400, "○ 1  ○ 2  ● 3  ○ 4  ● 5   2 of 5 up: no majority", "███▏██████"},
	} {
		c.Kill(step.kill...)
		s.sold.Store(step.sold)
		want := []string{
			"  masters  " + step.state, fmt.Sprintf("  sold     %s %d sold, stock says 100", step.bar, step.sold),
		}
		if got := d.state(40, 0); !slices.Equal(got, want) {
			t.Errorf("%d sold: got %q, want %q", step.sold, got, want)
		}
		for _, width := range []int{80, 200} {
			for _, line := range d.state(width, 0) {
				if n := utf8.RuneCountInString(line); n > width {
					t.Errorf("width %d: a line of %d columns: %q", width, n, line)
				}
			}
		}
	}
}

// Each node's reason stands below its mark, and is broken where the line is full.
func TestExplain(t *testing.T) {
	var out bytes.Buffer
	newDemo(&out).explain(&redlock.QuorumError{Need: 2, Granted: 1, Nodes: []redlock.NodeError{
		{Addr: "n1:1", Outcome: "granted"},
		{Addr: "n2:2", Outcome: "failed", Err: fmt.Errorf("not connected%s", strings.Repeat(" at all", 8))},
		{Addr: "n3:3", Outcome: "no answer yet"},
	}})
	const want = "           no quorum: 1 of 3 nodes granted it, a majority is 2\n" +
		"             ✓ 1  n1:1 granted\n" +
		"             ✗ 2  n2:2 failed: not connected at all at all at all at all at all\n" +
		"                  at all at all at all\n" +
		"             · 3  n3:3 no answer yet\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
