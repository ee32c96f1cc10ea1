package guard

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The scenarios of testdata/newcomer.txt.
func TestNewcomer(t *testing.T) {
	for _, s := range scenarios(t, "testdata/newcomer.txt") {
		t.Run(s.name, func(t *testing.T) {
			says, unkept := strings.CutSuffix(s.fields["says"], ", unkept")
			s.fields["says"] = says
			said, bad := s.said()
			old, bad2 := s.knew()
			asked, bad3 := span(s.fields["asked"])
			want, alone := time.Duration(0), s.fields["counts"] == "alone"
			var bad4 error
			if !alone {
				want, bad4 = span(s.fields["counts"])
			}
			if err := errors.Join(bad, bad2, bad3, bad4); err != nil {
				t.Fatal(err)
			}
			known := old.reconcile(said, now)
			if unkept {
				known.record = said.record
			}
			until, dated := newcomer(said, known, now, now.Add(asked))
			if dated == alone || dated && until.Sub(now) != want {
				t.Errorf("got %s (dated: %t), want %s", until.Sub(now), dated, s.fields["counts"])
			}
			if alone {
				return
			}
			// What it is about: one that comes then, or at any later time, votes, whatever the fractions of a second are.
			for later := max(want, asked); later < want+5*time.Second; later += 100 * time.Millisecond {
				for _, fraction := range []time.Duration{0, 300 * time.Millisecond, 999 * time.Millisecond} {
					then := *said
					then.Uptime += (later + fraction).Truncate(time.Second)
					then.micros += later.Microseconds()
					then.record = known.record
					other := (incarnation{}).reconcile(&then, now.Add(later))
					if age := now.Add(later).Sub(other.since); age < said.period {
						t.Fatalf("%s later, at +%s: one that comes then dates it %s back (%s)", later, fraction, age, other.reason)
					}
				}
			}
		})
	}
}

// Newcomer never says that a node votes whose votes do not count for this client, and says what is later for others.
func TestNewcomerOfAGuard(t *testing.T) {
	n, g := newNode(), newGuard(rules())
	n.info["uptime_in_seconds"], n.record = "0", ""
	if _, err := g.Probe(n.do, FirstProbe, nil); err != nil {
		t.Fatal(err)
	}
	period := g.rules.Period
	for _, c := range []struct {
		after     time.Duration
		own, them bool // whether the votes count
	}{
		{0, false, false},
		{period - 1, false, false},
		{period, true, false},
		{period + time.Second - 1, true, false},
		{period + time.Second, true, true},
	} {
		at := now.Add(c.after)
		a := g.Newcomer(at)
		if own := g.Abstention().Over(at); own != c.own || (a == nil) != c.them {
			t.Errorf("after %s: own %t, newcomer's %+v; want %t, %t", c.after, own, a, c.own, c.them)
		}
		if a != nil && (!a.Until.Equal(now.Add(period+time.Second)) || !strings.HasPrefix(a.Reason(at), "restarted ")) {
			t.Errorf("after %s: got until %s, %q", c.after, a.Until.Sub(now), a.Reason(at))
		}
	}
	g.EndAbstention(g.Abstention()) // as when a vote has counted
	if g.Newcomer(now.Add(period)) == nil || g.Newcomer(now.Add(period+time.Second)) != nil {
		t.Error("the end of the abstention of this client ends that of others")
	}
	g.SetClock(2*time.Second, true, 0)
	if a := g.Newcomer(now.Add(time.Hour)); a == nil || !a.Until.IsZero() {
		t.Errorf("its clock is wrong: got %+v", a)
	}
	r := rules()
	r.Period = 0
	free := newGuard(r)
	if _, err := free.Probe(n.do, FirstProbe, nil); err != nil || free.Newcomer(now) != nil {
		t.Errorf("without a guard: got %v, %+v", err, free.Newcomer(now))
	}
}
