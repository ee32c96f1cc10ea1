package runs_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/runs"
)

const token = 1763700000000000

// entry returns the entry of runs and state, by the next holder if they begin with "+"; "-": there is none; "?": the
// node does not count.
func entry(t *testing.T, said string) *runs.Entry {
	t.Helper()
	if said == "?" {
		return nil
	}
	text := strings.Replace("1763700000000000 "+said, "0 +", "1 ", 1)
	if said == "-" {
		text = ""
	}
	e, ok := runs.Parse(text, time.Minute)
	same := e.State == "" || strings.HasSuffix(said, runs.NotBegun) || runs.Text(e.Token, e.Runs, e.State) == text
	if !ok || e.Text != text || !same {
		t.Fatalf("%q is read as %+v, %v", text, e, ok)
	}
	return &e
}

func TestLatest(t *testing.T) {
	for _, c := range []struct {
		said       string // by three nodes
		latest     string
		have, lack quorum.Set
		held, free string // how the runs end, when the lock is held, and when it is not; with 2 runs at most
	}{
		{"-, -, -", "-", 0b111, 0, "", ""},
		{"-, -, ?", "-", 0b011, 0, "", ""},
		{"-, 1 begun, ?", "1 begun", 0b010, 0b001, "", ""},
		{"1 begun, 1 done, 1 begun", "1 done", 0b010, 0b101, "done", ""},
		{"1 done, 1 done, 1 begun", "1 done", 0b011, 0b100, "done", "done"},
		{"9 done, +10 failed, +10 failed", "+10 failed", 0b110, 0b001, "failed", "failed"},
		{"2 begun, 2 begun, 2 begun", "2 begun", 0b111, 0, "failed", ""},
		{"1 failed, 1 failed, -", "1 failed", 0b011, 0b100, "", ""},
		{"2 failed, -, -", "2 failed", 0b001, 0b110, "failed", ""},
		{"1 begun, 1 not-begun, -", "1 not-begun", 0b010, 0b101, "", ""},
		{"2 not-begun, +2 not-begun, +2 begun", "+2 not-begun", 0b010, 0b101, "", ""},
		{"3 begun, 3 not-begun, 3 not-begun", "3 not-begun", 0b110, 0b001, "failed", "failed"},
		{"2 failed, +0 forgotten, +0 forgotten", "+0 forgotten", 0b110, 0b001, "", ""},
	} {
		var entries []*runs.Entry
		for said := range strings.SplitSeq(c.said, ", ") {
			entries = append(entries, entry(t, said))
		}
		r := runs.Latest(entries)
		if want := entry(t, c.latest); r.Text != want.Text || r.Runs != want.Runs || r.Have != c.have || r.Lack != c.lack {
			t.Errorf("%s: got %+v; want %s on %b, and that %b lack it", c.said, r, c.latest, c.have, c.lack)
		}
		three := quorum.OneList(3)
		held, free := r.Final(2), ""
		if r.Settled(three) {
			free = held
		}
		if held != c.held || free != c.free {
			t.Errorf("%s: got %q and %q, want %q and %q", c.said, held, free, c.held, c.free)
		}
		if r.Final(0) == runs.Failed {
			t.Errorf("%s: the runs end, and there is no limit", c.said)
		}
	}
}

func TestWhatIsNoEntry(t *testing.T) {
	for _, text := range []string{
		"x", "1 1 done", runs.Text(token, 0, "done"), runs.Text(token, 1, "forgotten"), runs.Text(token, 0, "not-begun"),
		runs.Text(token, 1, "gone"), runs.Text(token, 1, "done") + " x", "176370000000000x 1 done",
		"+763700000000000 1 done", runs.Text(-1, 1, "done"), runs.Text(1<<53, 1, "done"), "1763700000000000 01 done",
	} {
		if e, ok := runs.Parse(text, 0); ok {
			t.Errorf("%q was accepted as %+v", text, e)
		}
	}
}

// Of two texts that are accepted, that of the larger token is the larger one.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "x", "+763700000000000 1 done", runs.Text(token, 0, runs.Forgotten)} {
		f.Add(seed, runs.Text(token, 2, runs.Failed))
	}
	f.Fuzz(func(t *testing.T, one, other string) {
		a, isOne := runs.Parse(one, 0)
		b, isOther := runs.Parse(other, 0)
		if isOne && isOther && (a.Token < b.Token) && one >= other {
			t.Errorf("%q: %+v, and %q: %+v", one, a, other, b)
		}
		if isOne && one != "" && (a.Text != one || a.Token < 0 || a.Runs < 0 || (a.Runs == 0) != (a.State == "")) {
			t.Errorf("%q: read as %+v", one, a)
		}
	})
}
