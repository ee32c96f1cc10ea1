package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Assume says which assumptions a run kept, and so which invariants may be demanded of it.
type Assume struct {
	// Clocks: no node's clock ran outside the drift allowance or was set, and no majority forgot within the guard period.
	// Without it holds may overlap, and tokens need only follow the order of granting.
	Clocks bool
	// Emptied: when a node lost its data under live connections, which nobody notices at once. It was out of the vote for
	// no time at all, so that nothing orders two attempts on either side of that moment but their ideas of the time.
	Emptied []time.Time
	// Excuse reports whether two holds need not be in order; nil: all must.
	Excuse func(a, b *Hold) bool
}

// apart is how far two attempts can be from each other and still be in the wrong order where a node was emptied: as old
// as a waiter's token, or a Locker's measurement of the nodes' clocks, may become, and what clocks may disagree by.
const apart = 16 * time.Second

// excuses reports whether a node was emptied between two holds, or they are excused otherwise.
func (a *Assume) excuses(earlier, later *Hold) bool {
	if a.Excuse != nil && a.Excuse(earlier, later) {
		return true
	}
	return later.Granted.Sub(earlier.Granted) < apart && slices.ContainsFunc(a.Emptied, func(at time.Time) bool {
		return !earlier.Start.After(at) && !later.Granted.Before(at)
	})
}

// Check judges the recorded holds in O(n log n). Honesty is judged while recording and reported here, too.
func (h *History) Check(assume Assume) []Violation {
	h.mu.Lock()
	found := slices.Clone(h.violations)
	h.mu.Unlock()
	byName := map[string][]*Hold{}
	var names []string
	for _, hold := range h.Holds() {
		if byName[hold.Name] == nil {
			names = append(names, hold.Name)
		}
		byName[hold.Name] = append(byName[hold.Name], &hold)
	}
	for _, name := range names {
		holds := byName[name]
		if assume.Clocks {
			found = append(found, overlaps(holds)...)
		}
		holds = slices.DeleteFunc(holds, func(h *Hold) bool { return h.Reads || h.Token == 0 }) // which have no tokens
		found = append(found, assume.repeated(holds)...)
		found = append(found, assume.disorder(holds, "was granted before this one was asked for",
			func(h *Hold) time.Time { return h.Granted }, func(h *Hold) time.Time { return h.Start })...)
		if assume.Clocks {
			// What was taken from its holder before it knew that it had it is over, whatever it was granted when.
			holds = slices.DeleteFunc(holds, func(h *Hold) bool { return !h.Revoked.IsZero() && !h.Revoked.After(h.Granted) })
			found = append(found, assume.disorder(holds, "was over before this one was granted",
				func(h *Hold) time.Time { return h.over() }, func(h *Hold) time.Time { return h.Granted })...)
		}
	}
	return found
}

// overlaps finds holders that trusted their holds at the same time, and not both to read. The interval begins where
// Lock returned and not where the winning request was sent: a request may overtake, on its way to the nodes, the
// release that makes it succeed.
func overlaps(holds []*Hold) []Violation { // sorted by Granted
	var found []Violation
	var longest, written *Hold // of all, of those that write
	for _, h := range holds {
		other := longest
		if h.Reads {
			other = written
		}
		if other != nil && h.Granted.Before(other.excludes()) && h.Granted.Before(h.excludes()) {
			found = append(found, Violation{"exclusion", fmt.Sprintf("%s\n\twhile held: %s", h, other)})
		}
		if longest == nil || h.excludes().After(longest.excludes()) {
			longest = h
		}
		if !h.Reads && (written == nil || h.excludes().After(written.excludes())) {
			written = h
		}
	}
	return found
}

// repeated finds tokens that were given twice.
func (a *Assume) repeated(holds []*Hold) []Violation {
	sorted := slices.Clone(holds)
	slices.SortStableFunc(sorted, func(h, k *Hold) int { return cmp.Compare(h.Token, k.Token) })
	var found []Violation
	for i := 1; i < len(sorted); i++ {
		if sorted[i].Token == sorted[i-1].Token && !(a.Excuse != nil && a.Excuse(sorted[i-1], sorted[i])) {
			found = append(found, Violation{"uniqueness", fmt.Sprintf("%s\n\tsame token as: %s", sorted[i], sorted[i-1])})
		}
	}
	return found
}

// disorder finds holds whose token is not above that of every hold which came before them: whose "last" is not after
// the later one's "first". One sweep over both orders, keeping the greatest token so far.
func (a *Assume) disorder(holds []*Hold, relation string, last, first func(*Hold) time.Time) []Violation {
	earlier, later := slices.Clone(holds), slices.Clone(holds)
	slices.SortStableFunc(earlier, func(a, b *Hold) int { return last(a).Compare(last(b)) })
	slices.SortStableFunc(later, func(a, b *Hold) int { return first(a).Compare(first(b)) })
	var found []Violation
	var greatest *Hold
	i := 0
	for _, h := range later {
		for ; i < len(earlier) && !last(earlier[i]).After(first(h)); i++ {
			if greatest == nil || earlier[i].Token > greatest.Token {
				greatest = earlier[i]
			}
		}
		if greatest == nil || greatest.id == h.id || greatest.Token < h.Token {
			continue
		}
		for _, before := range earlier[:i] { // the greatest may be excused, and another one not
			if before.id != h.id && before.Token >= h.Token && !a.excuses(before, h) {
				found = append(found, Violation{"order", fmt.Sprintf("%s\n\t%s: %s", h, relation, before)})
				break
			}
		}
	}
	return found
}

// Leftovers finds keys on the nodes for which allowed reports false: what nobody holds must be gone.
func Leftovers(nodes []*Node, allowed func(key string) bool) []Violation {
	var found []Violation
	for _, n := range nodes {
		for _, k := range n.Keys() {
			if !allowed(k) {
				text := fmt.Sprintf("%s still has %q = %v, PTTL %v", n.Addr(), k, n.Do("GET", k), n.Do("PTTL", k))
				found = append(found, Violation{"clean", text})
			}
		}
	}
	return found
}
