package redlock

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/finding"
)

// settingsFindings returns the severities and texts of the findings about settings, as the Locker knows them already.
func settingsFindings(l *Locker) (list []finding.Finding) {
	for _, n := range l.nodes {
		for _, f := range n.status().Findings {
			if f.Code == "settings" {
				list = append(list, f)
			}
		}
	}
	return list
}

// use locks once.
func use(t *testing.T, l *Locker, opts ...LockOption) {
	t.Helper()
	succeeds(t, must(l.TryLock(t.Context(), "used", opts...))(t).Unlock())
	settleNetwork()
}

// Both clients learn that they disagree, and forget it when the other one has been gone for a minute.
func TestClientsThatDisagreeAreFound(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var log journal
		a := fl.locker("a", log.logging(slog.LevelWarn))
		same := fl.locker("same", WithTTL(20*time.Second))
		elsewhere := fl.locker("elsewhere", WithPrefix("app:"), withGuard(50*time.Minute))
		for _, l := range []*Locker{a, same, elsewhere} {
			use(t, l)
		}
		looks := fl.locker("looks", withGuard(50*time.Minute))
		time.Sleep(time.Minute)
		if found := settingsFindings(looks); len(found) != 3 || found[0].Severity != finding.Degraded {
			t.Errorf("a client that only looks found %+v", found)
		}
		for name, l := range map[string]*Locker{"a": a, "same": same, "elsewhere": elsewhere} {
			equals(t, len(settingsFindings(l)), 0, "findings of %s: nothing differs", name)
		}
		b := fl.locker("b", WithTTL(45*time.Second))
		if found := settingsFindings(b); len(found) != 3 || found[0].Severity != finding.Degraded {
			t.Errorf("at connect: got %+v", found)
		}
		use(t, b)
		if found := settingsFindings(b); len(found) != 3 || found[0].Severity != finding.Unsafe ||
			!strings.HasPrefix(found[0].Text, "other clients use a restart guard of 30 s, this one 45 s: a lock with a TTL of "+
				"45 s may be granted twice") ||
			!strings.Contains(found[0].Remedy, "the same WithMaxTTL") {
			t.Errorf("after the first lock: got %+v", found)
		}
		time.Sleep(40 * time.Second) // settings are exchanged every 20 to 35 s
		if found := settingsFindings(a); len(found) != 3 || found[0].Severity != finding.Unsafe ||
			!strings.HasPrefix(found[0].Text, "other clients use a restart guard of 45 s, this one 30 s") {
			t.Errorf("after a probe: got %+v", found)
		}
		time.Sleep(5 * time.Minute)
		expectLines(t, log.take(), map[string]int{"finding=settings": 3}) // once for each node
		fl.nodes[0].Do("SCRIPT", "FLUSH")
		time.Sleep(time.Minute)
		equals(t, len(settingsFindings(a)), 3, "findings after minutes")
		_ = b.Close()
		time.Sleep(20 * time.Second)
		equals(t, len(settingsFindings(a)), 3, "findings after 20 s")
		time.Sleep(100 * time.Second) // a minute, and an exchange
		equals(t, len(settingsFindings(a)), 0, "findings when it is gone")
		for _, l := range []*Locker{a, same, elsewhere, looks} {
			_ = l.Close()
		}
		time.Sleep(6 * time.Minute)
		for _, n := range fl.nodes {
			equals[any](t, n.Do("EXISTS", "redlock:settings", "app:redlock:settings"), int64(0), "settings left")
		}
	})
}

// What counts is the longest TTL that a client has used, also in a call.
func TestTheTTLOfACallCountsAmongTheSettings(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		long := fl.locker("long", withGuard(45*time.Second))
		use(t, long)
		short := fl.locker("short")
		use(t, short)
		if found := settingsFindings(short); len(found) != 1 || found[0].Severity != finding.Degraded {
			t.Errorf("no TTL is too long: got %+v", found)
		}
		use(t, long, WithTTL(40*time.Second))
		if _, err := long.TryLock(t.Context(), "job", WithTTL(50*time.Second)); err == nil {
			t.Error("a TTL beyond the guard is accepted")
		}
		time.Sleep(50 * time.Second)
		if found := settingsFindings(short); len(found) != 1 || found[0].Severity != finding.Unsafe ||
			!strings.Contains(found[0].Text, "a TTL of 40 s") {
			t.Errorf("one is: got %+v", found)
		}
	})
}

// A node that refuses to keep settings is as good as before.
func TestSettingsThatCannotBeKept(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		fl.nodes[0].Do("SET", "redlock:settings", "foreign")
		l := fl.locker("a")
		use(t, fl.locker("b", WithTTL(45*time.Second)))
		time.Sleep(time.Minute)
		equals(t, len(l.Status(t.Context())[0].Findings), 0, "findings")
		use(t, l)
	})
}
