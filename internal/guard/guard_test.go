package guard

import (
	"testing"
	"time"
)

const period = 30 * time.Second

// Whose word counts while the node abstains, by why it does and by what rests on the answer.
func TestAbstention(t *testing.T) {
	now := time.Now()
	restarted := &Abstention{doubt: doubtRestart, since: now, Until: now.Add(period)}
	astray := &Abstention{ahead: time.Hour}
	for _, c := range []struct {
		name   string
		why    *Abstention
		counts [3]bool // for TrustOld, TrustOurs, TrustAll
	}{
		{"restarted", restarted, [3]bool{false, true, true}},
		{"its clock is wrong", astray, [3]bool{false, false, true}},
	} {
		for trust, want := range c.counts {
			if got := c.why.Counts(Trust(trust)); got != want {
				t.Errorf("%s, trust %d: counts %t, want %t", c.name, trust, got, want)
			}
		}
	}
	for _, c := range []struct {
		name  string
		why   *Abstention
		asked time.Duration // after now
		want  bool
	}{
		{"asked before", restarted, period - 1, false},
		{"asked at its end", restarted, period, true},
		{"a wrong clock is wrong until it is set right", astray, 1000 * time.Hour, false},
	} {
		if got := c.why.Over(now.Add(c.asked)); got != c.want {
			t.Errorf("%s: over %t, want %t", c.name, got, c.want)
		}
	}
	for _, c := range []struct {
		why   Abstention
		after time.Duration
		want  string
	}{
		{*restarted, 0, "restarted 1 s ago without durable persistence"},
		{*restarted, 4100 * time.Millisecond, "restarted 5 s ago without durable persistence"},
		{
			Abstention{doubt: leap{by: 90 * time.Minute}.doubt(), since: now},
			10 * time.Second, "had its clock set forward by 1h30m0s, noticed 10 s ago: keys expired early",
		},
		{*astray, 0, "its clock is 1h0m0s ahead of the other nodes'"},
		{Abstention{ahead: -1234567 * time.Microsecond}, 0, "its clock is 1.235s behind the other nodes'"},
	} {
		if got := c.why.Reason(now.Add(c.after)); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
