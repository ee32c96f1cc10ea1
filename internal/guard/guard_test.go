package guard

import (
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/token"
)

const period = 30 * time.Second

// Which votes of an abstaining node count, by its reason and by the command's trust.
func TestAbstention(t *testing.T) {
	restarted := &Abstention{reason: reasonRestart, since: now, Until: now.Add(period)}
	astray := &Abstention{ahead: time.Hour} // its clock is wrong
	for _, c := range []struct {
		why    *Abstention
		counts [3]bool       // for TrustOld, TrustOurs, TrustAll
		lasts  time.Duration // for requests that are asked so long after now, it is not over yet
		ends   bool          // it is for one that is asked then
	}{
		{restarted, [3]bool{false, true, true}, period - 1, true},
		{astray, [3]bool{false, false, true}, 1000 * time.Hour, false},
	} {
		for trust, want := range c.counts {
			if got := c.why.Counts(Trust(trust)); got != want {
				t.Errorf("%+v, trust %d: counts %t, want %t", c.why, trust, got, want)
			}
		}
		if before, then := c.why.Over(now.Add(c.lasts)), c.why.Over(now.Add(c.lasts+1)); before || then != c.ends {
			t.Errorf("%+v: over %t after %s, then %t, want %t", c.why, before, c.lasts, then, c.ends)
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
			Abstention{reason: jump{by: 90 * time.Minute}.reason(), since: now},
			10 * time.Second, "had its clock set forward by 1h30m0s, noticed 10 s ago: keys expired early",
		},
		{*astray, 0, "its clock is 1h0m0s ahead of the other nodes'"},
		{Abstention{ahead: -1234567 * time.Microsecond}, 0, "its clock is 1.235s behind the other nodes'"},
	} {
		cases.Equals(t, c.why.Reason(now.Add(c.after)), c.want, "after %s", c.after)
	}
}

// A node abstains for the guard period after it may have forgotten votes, and a little longer because of late answers.
// EndAbstention ends exactly the abstention that was found to be over.
func TestAnAbstentionEnds(t *testing.T) {
	at := now
	g := newGuard(rules())
	g.now = func() time.Time { return at }
	g.known = incarnation{epoch: epoch("a"), at: at, since: at.Add(-10 * time.Second), reason: reasonPromoted}
	until := g.known.since.Add(period)
	for _, c := range []struct {
		at       time.Time
		abstains bool
	}{
		{now, true}, {until, true}, {until.Add(time.Second - 1), true}, {until.Add(time.Second), false},
	} {
		at = c.at
		if g.SetClock(token.Offset{}, 0) {
			t.Errorf("after %s: a clock that is right is to be read again", at.Sub(now))
		}
		a := g.Abstention()
		if (a != nil) != c.abstains || a != nil && (!a.Until.Equal(until) || a.reason != reasonPromoted) {
			t.Errorf("after %s: got %+v, want it %t until %s", at.Sub(now), a, c.abstains, until)
		}
	}
	at = until
	g.SetClock(token.Offset{}, 0)
	a := g.Abstention()
	if !g.EndAbstention(a) || g.Abstention() != nil || g.EndAbstention(a) {
		t.Error("it is ended twice, or not at all")
	}
	g.SetClock(token.Offset{Ahead: time.Hour, Wrong: true}, 0)
	if g.EndAbstention(a) || g.Abstention() == nil {
		t.Error("another abstention is ended in its place")
	}
}

// A node with a wrong clock abstains until the clock is right; one whose clock jumped forward, for the guard period.
func TestSetClock(t *testing.T) {
	n, g := met(t)
	abstains(t, g, "")
	at := now
	g.now = func() time.Time { return at }
	const forward = "had its clock set forward by 1m0s, noticed 1 s ago: keys expired early"
	for _, c := range []struct {
		name   string
		ahead  time.Duration
		wrong  bool
		jumped time.Duration
		turned bool
		why    string // "": it votes
	}{
		{"a little off", time.Second, false, 0, false, ""},
		{"wrong", -time.Hour, true, 0, true, "its clock is 1h0m0s behind the other nodes'"},
		{"wrong still", -2 * time.Hour, true, 0, false, "its clock is 2h0m0s behind the other nodes'"},
		{"right again", 0, false, 0, false, ""},
		{"set forward", 0, false, time.Minute, true, forward},
		{"looked at", 0, false, 0, false, forward},
		{"wrong, too", time.Hour, true, 0, true, "its clock is 1h0m0s ahead of the other nodes'"},
		{"right", 0, false, 0, false, forward},
	} {
		if turned := g.SetClock(token.Offset{Ahead: c.ahead, Wrong: c.wrong}, c.jumped); turned != c.turned {
			t.Errorf("%s: to be read again %t, want %t", c.name, turned, c.turned)
		}
		a := g.Abstention()
		if (a == nil) != (c.why == "") || a != nil && a.Reason(at) != c.why {
			t.Errorf("%s: got %+v, want %q", c.name, a, c.why)
		}
		if _, _, ahead := g.Status(); ahead != c.ahead {
			t.Errorf("%s: %s ahead, want %s", c.name, ahead, c.ahead)
		}
	}
	// The next probe writes it to the record, for all clients.
	at = now.Add(time.Second)
	probe(t, g, n, FullProbe)
	if g.jump != (jump{}) || g.known.record != (record{epoch("a"), ago(0), false}) {
		t.Errorf("got the jump %+v, record %s", g.jump, g.known.record)
	}
	if a := g.Abstention(); a == nil || !a.Until.Equal(at.Add(period)) {
		t.Errorf("got %+v, want it until %s", a, at.Add(period))
	}
}

// The clock may jump during a probe. The replies may be older, so the jump stays for the next probe.
func TestAClockThatIsSetWhileTheNodeIsAsked(t *testing.T) {
	n, g := meet()
	n.before = func() { g.SetClock(token.Offset{}, time.Minute) }
	if probe(t, g, n, FirstProbe); g.jump == (jump{}) {
		t.Error("the jump is forgotten")
	}
	abstains(t, g, g.jump.reason())
}

// A subscription has a connection of its own, which may be to another incarnation than the known one.
func TestSubscribedToKnown(t *testing.T) {
	n, g := met(t)
	for _, c := range []struct {
		name  string
		reply any
		want  bool
	}{
		{"the same", n.reply("INFO replication", []any{"INFO", "replication"}), true},
		{"another", []byte("master_replid:" + other("b") + "\r\n"), false},
		{"refused", no, false},
		{"nothing", nil, false},
	} {
		if g.SetSubscribed(c.reply); g.SubscribedToKnown() != c.want {
			t.Errorf("%s: known %t, want %t", c.name, g.SubscribedToKnown(), c.want)
		}
	}
	g.known.epoch = unknownEpoch
	if g.SetSubscribed(nil); g.SubscribedToKnown() {
		t.Error("two unknown ones are taken for one")
	}
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1234 * time.Microsecond: "1ms", 999 * time.Millisecond: "999ms",
		time.Second: "1 s", time.Second + 1: "2 s", 30 * time.Second: "30 s", time.Hour: "3600 s",
	} {
		cases.Equals(t, Seconds(d), want, "%v", d)
	}
}
