package agreement

import (
	"slices"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// Whoever comes later is refused: a client that finds a conflict gets no locks, unless a majority of each of its lists
// has its registration, and has had it for so long that all nodes within reach would have told of a conflict before.
// Such a client works on and says so, since stopping it would only add an outage to a danger that the newcomer causes.
// Of two that begin at one moment, each may learn of the other only when a majority has its registration. Then both are
// refused, and the first to ask again works.
//
// It is a net and no proof: two clients that can reach no node in common learn nothing of each other.

const (
	// establishedAfter is for how long no node must tell of a conflict before the client takes any other for one that came
	// later. Within that time nodes that are within reach are connected again, and every connection has been probed.
	establishedAfter = 15 * time.Second
	// restartExplains is for how much longer than they live lists may be in use in which a node has another id than the
	// one that the node itself has told. Some client has the old one: it has crashed, or learns the new one with its next
	// registration, or it has lost the node and doubts the id after a minute; and the text may stay for another life.
	restartExplains = 90 * time.Second
)

// judge decides anew whether this client is refused. It returns the nodes that must forget it if it is refused from now
// on. holds reports whether it has holds, or tickets for some: these still count against others.
func (g *registry) judge(now time.Time, holds func() bool) (leave quorum.Set) {
	var confirmed, remembered quorum.Set
	unread := false
	for i := range g.at {
		at := &g.at[i]
		if at.noted != "" && now.Sub(at.confirmed) < registrationLives { // whatever the text's life: who is away is late
			confirmed = confirmed.With(i)
			// One that had forgotten the client has not told newcomers of it. Others may have forgotten it, too: within this
			// time all of them are asked.
			if at.forgot.IsZero() || now.Sub(at.forgot) >= confirmsWithin {
				remembered = remembered.With(i)
			}
		}
		unread = unread || at.unread() && now.Sub(at.heard) < registrationLives
	}
	majority := g.electorate.Suffice(confirmed)
	established := g.electorate.Suffice(remembered) && !g.clear.IsZero() && now.Sub(g.clear) >= establishedAfter
	conflict, doubtful := g.conflict(now)
	if !majority || !established && (conflict != nil || doubtful || unread) {
		g.clear = time.Time{}
	} else if g.clear.IsZero() {
		g.clear = now
	}
	switch {
	case g.onlyLooks:
	case conflict == nil && unread: // what is not known may be one
	case conflict == nil, established: // whoever came later is refused
		g.refusal.Store(nil)
	default:
		g.refusal.Store(conflict)
		for i := range g.at {
			if at := &g.at[i]; at.noted != "" && !g.closed && !holds() {
				at.noted, at.former, leave = "", at.noted, leave.With(i)
			}
		}
	}
	return leave
}

// conflict returns the first conflict of this client's lists with others, or nil, and whether some may turn out to be
// one.
func (g *registry) conflict(now time.Time) (first *Conflict, doubtful bool) {
	for i, addr := range g.addrs {
		used := g.at[i].used
		if used == nil {
			continue
		}
		v := used.judge(g.own)
		var theirs quorum.NodeLists
		for _, l := range v.conflicts {
			if theirs == nil && g.says(i, l, now) {
				theirs = used.lists[l]
			}
		}
		for _, l := range v.doubtful {
			switch {
			case !g.says(i, l, now):
			case g.lasts(i, l):
				theirs = used.lists[l]
			default:
				doubtful = true
				g.doubt(used.texts[l], now)
			}
		}
		if theirs != nil {
			return &Conflict{addr, g.lists.Addresses(), theirs.Addresses(), g.lists.Apart(theirs)}, true
		}
	}
	return nil, doubtful
}

// doubt notes lists that conflict unless a node has lost its data lately. They are not forgotten when they are out of
// use, since short-lived clients use them now and then.
func (g *registry) doubt(text string, now time.Time) {
	if !g.doubts[text].IsZero() {
		return
	}
	if g.doubts == nil || len(g.doubts) >= maxDoubts {
		g.doubts = make(map[string]time.Time)
	}
	g.doubts[text] = now
}

// maxDoubts is how many lists are remembered: more than a node tells.
const maxDoubts = 200

// lasts reports whether lists, by index, have been in use for longer than a restart explains, as the node says. That
// depends on their life, for the client that confirmed them may have crashed.
func (g *registry) lasts(node, index int) bool {
	at := &g.at[node]
	since := g.doubts[at.used.texts[index]]
	return !since.IsZero() && at.heard.Sub(since) >= at.used.lives[index]+restartExplains
}

// says reports whether the node has said that the lists with that index are in use, and that is not longer ago than
// they live.
func (g *registry) says(node, index int, now time.Time) bool {
	at := &g.at[node]
	return now.Sub(at.heard) < at.used.lives[index]
}

// conflicting returns the lists, by index, that are in use at the node and conflict with this client's.
func (g *registry) conflicting(node int) (list []int) {
	if used := g.at[node].used; used != nil {
		for i, l := range used.lists {
			if l != nil && !g.lists.Exclude(l, !g.lasts(node, i)) {
				list = append(list, i)
			}
		}
	}
	return list
}

// Clients are the clients that have the same node lists.
type Clients struct {
	Lists    [][]string // the addresses of the nodes, as those clients know them: one list, or the old and the new one
	Count    int        // how many were seen lately
	Conflict bool       // these lists and this client's do not exclude each other
	Apart    []string   // if so, addresses by which they reach other masters than this client does
	// Within is how long ago one of them was seen, at most; 0: a moment ago, or that is not known. Gone is for how long,
	// at least, none was seen: longer than clients are silent that are at work; 0: some were, or that is not known.
	Within, Gone time.Duration
}

// clients returns what a node said of clients, by the addresses in their lists, and whether any two lists conflict.
func (g *registry) clients(node int, now time.Time) (list []Clients, clash bool) {
	at := &g.at[node]
	used, conflicting := at.used, g.conflicting(node)
	if used == nil {
		return nil, false
	}
	for i, l := range used.lists {
		if l == nil || !g.says(node, i, now) {
			continue
		}
		c := Clients{
			Lists: l.Addresses(), Count: at.counts[used.texts[i]], Conflict: slices.Contains(conflicting, i),
			Within: at.seen[used.texts[i]],
		}
		if c.Conflict {
			c.Apart = g.lists.Apart(l)
		}
		same := func(d Clients) bool {
			return c.Conflict == d.Conflict && slices.EqualFunc(c.Lists, d.Lists, slices.Equal[[]string])
		}
		// One text is not another, though the addresses are the same, if a node has another id meanwhile, or TTLs are longer.
		if at := slices.IndexFunc(list, same); at < 0 {
			list = append(list, c)
		} else {
			list[at].Count += c.Count
			if c.Within > 0 && (list[at].Within <= 0 || c.Within < list[at].Within) {
				list[at].Within = c.Within
			}
		}
	}
	for i := range list {
		switch c := &list[i]; {
		case c.Within == longAgo:
			c.Within, c.Gone = 0, seenWithin[len(seenWithin)-1]
		case c.Within <= seenWithin[0]:
			c.Within = 0
		}
	}
	slices.SortFunc(list, func(a, b Clients) int { return slices.CompareFunc(a.Lists, b.Lists, slices.Compare) })
	return list, now.Sub(at.heard) < registrationLives && used.clash()
}
