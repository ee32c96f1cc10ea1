package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/cases"
)

func TestMain(m *testing.M) {
	if told := os.Getenv(clientVariable); told != "" {
		os.Exit(clientMain(told))
	}
	flag.Parse()
	os.Exit(m.Run())
}

// The run, short. The long one is make history.
func TestHistory(t *testing.T) {
	provider := cases.Must(masters.Choose(t.Context()))(t)
	for what, guard := range map[string]time.Duration{"guarded": leastGuard, "without the guard": 0} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := config{
				length: 8 * time.Second, calm: time.Second, every: 300 * time.Millisecond,
				guard: guard, seed: rand.Uint64(), clients: 3, workers: 3, out: t.TempDir(),
				full: what == "guarded", patience: time.Hour, // when the throughput is back is judged by make history
			}
			r := cases.Must(c.run(t.Context(), provider, t.Output()))(t)
			t.Log(r)
			if err := r.err(); err != nil {
				t.Error(err)
			}
		})
	}
}

// ms is a time in a history made by hand.
func ms(n int64) int64 { return n * int64(time.Millisecond) }

func TestTheJudgesFindWhatIsWrong(t *testing.T) {
	good := []record{
		{Client: "a", Token: 10, Asked: ms(0), Granted: ms(1), Ended: ms(5), Released: ms(6)},
		{Client: "b", Token: 20, Asked: ms(2), Granted: ms(6), Ended: ms(9), Released: ms(9)},
		{Client: "a", Token: 30, Asked: ms(7), Granted: ms(10), Ended: ms(12), Released: ms(13)},
		{Client: "b", Name: "another", Token: 5, Asked: ms(1), Granted: ms(2), Ended: ms(12), Released: ms(13)},
	}
	with := func(i int, change func(*record)) []record {
		bad := append([]record(nil), good...)
		change(&bad[i])
		return bad
	}
	for name, c := range map[string]struct {
		history []record
		broken  string // the first invariant; "": all is right
	}{
		"nothing":              {good, ""},
		"an overlap":           {with(0, func(r *record) { r.Ended, r.Released = ms(8), ms(8) }), "exclusion"},
		"a token used twice":   {with(2, func(r *record) { r.Token = 20 }), "uniqueness"},
		"a token out of order": {with(2, func(r *record) { r.Token = 15 }), "order"},
	} {
		t.Run(name, func(t *testing.T) {
			settings := config{every: time.Second, guard: leastGuard, out: t.TempDir()}
			f := report{running: &running{config: settings, history: c.history}}
			cases.NoError(t, f.judge())
			found, want := "", 0
			if len(f.verdict.Broken) > 0 {
				found = f.verdict.Broken[0].Invariant
			}
			if c.broken != "" {
				want = 2
			}
			if found != c.broken || (f.linear.illegal == 1) != (want > 0) || (f.violations() > 0) != (want > 0) {
				t.Errorf("got %+v and %s, want %q", f.linear, f.verdict, c.broken)
			}
			if len(f.files) != want {
				t.Fatalf("got files %q, want %d", f.files, want)
			}
			if want == 0 {
				return
			}
			text, err := os.ReadFile(f.files[0])
			var again []record
			for each := json.NewDecoder(bytes.NewReader(text)); each.More(); {
				var r record
				cases.NoError(t, each.Decode(&r))
				again = append(again, r)
			}
			if err != nil || !slices.Equal(again, c.history) {
				t.Errorf("the file has %v, %v", again, err)
			}
			if view, err := os.ReadFile(f.files[1]); err != nil || !strings.Contains(string(view), "<html") {
				t.Errorf("the view: %v, %.80s", err, view)
			}
			if err := f.err(); err == nil || !strings.Contains(err.Error(), f.files[0]) ||
				!strings.Contains(err.Error(), f.files[1]) {
				t.Errorf("got %v, which does not name the files", err)
			}
		})
	}
}

func TestAHoldThatWasTakenAwayEndsThen(t *testing.T) {
	forced := []act{
		{Client: "c", About: "x", Begun: ms(10)},
		{Client: "c", About: "x", Begun: ms(10), Ended: ms(15), OK: true},
		{Client: "c", About: "y", Begun: ms(20)}, // nobody knows how it ended
	}
	history := []record{
		{Client: "a", Owner: "x", Granted: ms(1), Ended: ms(15) + int64(ttl)},
		{Client: "b", Owner: "y", Granted: ms(1), Ended: ms(90_000)},
		{Client: "b", Owner: "z", Granted: ms(1), Ended: ms(90_000)},
	}
	if wrong := cut(history, forced); len(wrong) > 0 {
		t.Errorf("got %q", wrong)
	}
	for i, want := range []int64{ms(10), ms(20), ms(90_000)} {
		if history[i].Ended != want {
			t.Errorf("hold %d ended at %d, want %d", i, history[i].Ended, want)
		}
	}
	late := []record{{Client: "a", Owner: "x", Granted: ms(1), Ended: ms(16) + int64(ttl)}}
	if wrong := cut(late, forced); len(wrong) != 1 {
		t.Errorf("it was trusted for too long: got %q", wrong)
	}
}

func TestJobsThatAreDoneTwice(t *testing.T) {
	done := func(at int64) act { return act{Client: "a", About: "job", Begun: ms(at), Ended: ms(at + 5), OK: true} }
	forgot := func(begun, ended int64) act {
		return act{Client: "c", About: "job", Begun: ms(begun), Ended: ms(ended)}
	}
	for name, c := range map[string]struct {
		done, forgot []act
		want         int
	}{
		"once":                        {[]act{done(10)}, nil, 0},
		"twice":                       {[]act{done(30), done(10)}, nil, 1},
		"twice, another forgotten":    {[]act{done(10), done(30)}, []act{{About: "other", Begun: ms(20), Ended: ms(21)}}, 1},
		"forgotten in between":        {[]act{done(10), done(30)}, []act{forgot(20, 0), forgot(20, 21)}, 0},
		"forgotten before":            {[]act{done(10), done(30)}, []act{forgot(5, 0), forgot(5, 6)}, 1},
		"forgotten after":             {[]act{done(10), done(30)}, []act{forgot(40, 0), forgot(40, 41)}, 1},
		"perhaps forgotten":           {[]act{done(10), done(30)}, []act{forgot(5, 0)}, 0},
		"two jobs, done once each":    {[]act{done(10), {About: "other", Begun: ms(30)}}, nil, 0},
		"three times, forgotten once": {[]act{done(10), done(30), done(50)}, []act{forgot(20, 0), forgot(20, 21)}, 1},
	} {
		if got := twice(c.done, c.forgot); len(got) != c.want {
			t.Errorf("%s: got %q, want %d", name, got, c.want)
		}
	}
}

func TestRecoveryIsMeasuredFromTheLastFault(t *testing.T) {
	last := time.Unix(1000, 0)
	f := report{running: &running{config: config{calm: 3 * time.Second}}, calmly: 25}
	for at := 400 * time.Millisecond; at < f.calm; at += 10 * time.Millisecond { // 25 in each back-off
		f.history = append(f.history, record{Granted: last.Add(at).UnixNano()})
	}
	if got := f.recovery(last); got < 300*time.Millisecond || got > 400*time.Millisecond {
		t.Errorf("got %s, want some 350ms: 20 of 25 in one back-off", got)
	}
}
