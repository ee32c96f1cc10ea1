package guard

import (
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/token"
)

// The scenarios of testdata/newcomer.txt.
func TestNewcomer(t *testing.T) {
	eachScenario(t, "testdata/newcomer.txt", func(t *testing.T, s scenario) {
		says, unkept := strings.CutSuffix(s.fields["says"], ", unkept")
		s.fields["says"] = says
		said, asked := s.said(), s.span(s.fields["asked"])
		known := s.knew().reconcile(said, now)
		if unkept {
			known.record = said.record
		}
		until, dated := newcomer(said, known, now, now.Add(asked))
		if s.fields["counts"] == "alone" {
			if dated {
				t.Errorf("got %s, want none", until.Sub(now))
			}
			return
		}
		want := s.span(s.fields["counts"])
		if !dated || until.Sub(now) != want {
			t.Errorf("got %s (dated: %t), want %s", until.Sub(now), dated, want)
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

// Newcomer never says that a node votes whose votes do not count for this client, and says what is later for others.
func TestNewcomerOfAGuard(t *testing.T) {
	_, g := met(t, has("uptime_in_seconds", "0"))
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
	g.SetClock(token.Offset{Ahead: 2 * time.Second, Wrong: true}, 0)
	if a := g.Newcomer(now.Add(time.Hour)); a == nil || !a.Until.IsZero() {
		t.Errorf("its clock is wrong: got %+v", a)
	}
	_, free := met(t, has("uptime_in_seconds", "0"), func(_ *node, r *Rules) { r.Period = 0 })
	if a := free.Newcomer(now); a != nil {
		t.Errorf("without a guard: got %+v", a)
	}
}
