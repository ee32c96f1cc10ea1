package agreement

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Clients that lock the same names must agree on some settings, and nobody compares their configurations. So each tells
// every node its settings when it connects and then every 20 to 35 s, and learns which others are in use. But it tells
// nothing before it asks for a lock: one that only looks, like redlock doctor, is no danger, and must not alarm others.

// settings are what other clients rely on.
type settings struct {
	guard     time.Duration // 0: off
	retention time.Duration // 0: without tokens, so it drops none
	ttl       time.Duration // the longest that the client has used; 0: none yet
}

const settingsFormat = "guard=%d retention=%d ttl=%d" // in ms

// String returns the settings as nodes keep them.
func (s settings) String() string {
	return fmt.Sprintf(settingsFormat, s.guard.Milliseconds(), s.retention.Milliseconds(), s.ttl.Milliseconds())
}

// parseSettings reads what String has written. What it cannot read may come from another version.
func parseSettings(text string) (s settings, ok bool) {
	var guard, retention, ttl int64
	n, err := fmt.Sscanf(text, settingsFormat, &guard, &retention, &ttl)
	const most = int64(1<<63-1) / int64(time.Millisecond)
	if err != nil || n != 3 || min(guard, retention, ttl) < 0 || max(guard, retention, ttl) > most {
		return settings{}, false
	}
	ms := time.Millisecond
	return settings{time.Duration(guard) * ms, time.Duration(retention) * ms, time.Duration(ttl) * ms}, true
}

// readSettings reads what a node told, which may be anything: a hundred at most, as the script does.
func readSettings(texts []string) (known []settings) {
	for _, text := range texts[:min(len(texts), maxTold)] {
		if s, ok := parseSettings(text); ok {
			known = append(known, s)
		}
	}
	return known
}

// compare describes how others' settings differ from s, which are this client's. unsafe: two can hold one lock.
//
// They can if the TTL of one client is longer than the guard of another: a node forgets the lock, and the other counts
// its vote again before the lock has ended. This client need not be one of the two. As long as no TTL in use is so
// long, a difference is only a trap. A retention cannot lead to two holders: the longest one counts for all.
func (s settings) compare(others []settings) (unsafe bool, text, remedy string) {
	var guards, retentions []time.Duration
	longest, shortest := s.ttl, s.guard // TTL and guard, of the clients that lock
	if s.ttl == 0 && len(others) > 0 {
		shortest = others[0].guard
	}
	for _, other := range others {
		longest, shortest = max(longest, other.ttl), min(shortest, other.guard)
		if other.guard != s.guard {
			guards = append(guards, other.guard)
		}
		if other.retention != s.retention && min(other.retention, s.retention) > 0 {
			retentions = append(retentions, other.retention)
		}
	}
	switch { // both follow from WithMaxTTL, so one is enough for a line in cron's mail
	case guards != nil:
		text = fmt.Sprintf("other clients use %s, this one %s",
			listed("a restart guard of ", "no restart guard", guards), listed("", "none", []time.Duration{s.guard}))
	case retentions != nil:
		text = fmt.Sprintf("other clients keep tokens for %s, this one for %s",
			listed("", "", retentions), listed("", "", []time.Duration{s.retention}))
	default:
		return false, "", ""
	}
	if unsafe = guards != nil && longest > shortest; unsafe {
		text += fmt.Sprintf(": a lock with a TTL of %s may be granted twice after a restart", inSeconds(longest))
	}
	remedy = "give all clients the same WithMaxTTL"
	if guards != nil && min(s.guard, slices.Min(guards)) == 0 {
		remedy += ", and none NodeConfig.NoRestartGuard"
	}
	return unsafe, text, remedy
}

// listed lists durations, the shortest first, each once, after the words of. Zero is called none. After five it ends.
func listed(of, none string, list []time.Duration) string {
	slices.Sort(list)
	var words []string
	for i, d := range slices.Compact(list) {
		if i == 5 {
			words = append(words, "more")
			break
		}
		if d == 0 {
			words = append(words, none)
			continue
		}
		words = append(words, of+inSeconds(d))
		of = ""
	}
	return strings.Join(words, " and ")
}

// inSeconds does not round, unlike guard.Seconds: two settings that differ must not look the same.
func inSeconds(d time.Duration) string { return fmt.Sprintf("%g s", d.Seconds()) }
