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
	confirmed, remembered, unread := g.registrations(now)
	majority := g.electorate.Suffice(confirmed)
	g.established = g.electorate.Suffice(remembered) && !g.clear.IsZero() && now.Sub(g.clear) >= establishedAfter
	conflict, doubtful, open := g.conflict(now, unread)
	g.waits = g.waits && !majority
	if !majority || !g.established && (conflict != nil || doubtful || open != 0) {
		g.clear = time.Time{}
	} else if g.clear.IsZero() {
		g.clear = now
	}
	switch {
	case g.onlyLooks:
	case conflict == nil && open != 0: // what is not known may be one
	case conflict == nil, g.established: // whoever came later is refused
		g.refusal.Store(nil)
	default:
		g.refusal.Store(conflict)
		leave = g.withdraw(holds)
	}
	return leave
}

// registrations returns the nodes that have this client's registration; of these, those that would have told others of
// it all the time; and those of which it is not known which lists are in use.
func (g *registry) registrations(now time.Time) (confirmed, remembered, unread quorum.Set) {
	confirmed = g.where(func(at *node) bool {
		return at.noted != "" && now.Sub(at.confirmed) < registrationLives // whatever the text's life: who is away is late
	})
	// One that had forgotten the client has not told newcomers of it, nor may others have: within this time all are asked.
	remembered = confirmed & g.where(func(at *node) bool {
		return at.forgot.IsZero() || now.Sub(at.forgot) >= confirmsWithin
	})
	unread = g.where(func(at *node) bool { return at.unread() && now.Sub(at.heard) < registrationLives })
	return confirmed, remembered, unread
}

// withdraw returns the nodes that must forget this client, which is refused.
func (g *registry) withdraw(holds func() bool) (leave quorum.Set) {
	for i := range g.at {
		if at := &g.at[i]; at.noted != "" && !g.closed && !holds() {
			at.noted, at.former, leave = "", at.noted, leave.With(i)
		}
	}
	return leave
}

// A claim is what a node says of lists that conflict with this client's. One node may say anything, so:
//   - The lists must name the node, and clients that have them must have been seen: it is asked to count them.
//   - Such a client must be able to work. It registers with a node before it asks that for a lock. So if too few nodes
//     are left for a majority of its lists without those that do not know it, although they were asked later, there is
//     none. Two clients that have registered never both find that: on each node the later one learns of the other
//     (quorum.TestMajoritiesMeetExhaustively).
//   - Lists that are in use at a majority of the other nodes, and were for so long that those clients work on in any
//     case, are not refused: stopping one more client would only add to what a false claim does.
//
// What is left to one node: to refuse lists that nobody has used lately, by others of which it alone can know. It may
// be right, as two lists may have just one node in common.

// asksWithin is how long a claim is left open for the answers of nodes.
const asksWithin = 2 * time.Second

// asks reports whether a claim is left open. Before the client has opened, all have answered that will.
func (g *registry) asks(text string, now time.Time) bool {
	return g.opened && now.Sub(g.claims[text]) < asksWithin
}

// claimed returns the lists, by index, that are in use and conflict as the node says, and whether others may do so.
func (g *registry) claimed(node int, now time.Time) (claims []int, doubtful bool) {
	at := &g.at[node]
	if at.used == nil {
		return nil, false
	}
	v := at.used.judge(g.own)
	for _, l := range v.conflicts {
		if g.says(node, l, now) {
			claims = append(claims, l)
		}
	}
	for _, l := range v.doubtful {
		switch {
		case !g.says(node, l, now):
		case g.lasts(node, l):
			claims = append(claims, l)
		default:
			doubtful = true
			at.doubt(at.used.sums[l], now, len(v.doubtful))
		}
	}
	return slices.DeleteFunc(claims, func(l int) bool { return !at.used.lists[l].Names(g.listed(node)) }), doubtful
}

// noteClaims notes since when there are which claims.
func (g *registry) noteClaims(now time.Time) {
	before := g.claims
	g.claims = nil
	for i := range g.at {
		claims, _ := g.claimed(i, now)
		for _, l := range claims {
			if g.claims == nil {
				g.claims = make(map[string]time.Time)
			}
			text, since := g.at[i].used.texts[l], now
			if known, was := before[text]; was {
				since = known
			}
			g.claims[text] = since
		}
	}
}

// asksAgain reports whether the node is to be asked, because there are claims, what it says of them and whom it knows.
func (g *registry) asksAgain(node int) bool {
	at := &g.at[node]
	if g.onlyLooks || g.established || g.claims == nil || at.heard.IsZero() || at.refused != nil || at.unread() {
		return false
	}
	for _, since := range g.claims {
		if at.heard.Before(since) {
			return true
		}
	}
	return !at.counted
}

// unknown returns what to ask a node to learn which lists are in use there, and whose claims count; "": that is known.
func (g *registry) unknown(node int) string {
	switch at := &g.at[node]; {
	case at.heard.IsZero() && at.refused == nil:
		return modeAsk
	case at.unread():
		return modeRead
	case g.asksAgain(node):
		return modeCount
	default:
		return ""
	}
}

// recounts returns which of the nodes to ask again now: four times, then once a second, as digests may change for ever.
func (g *registry) recounts(of quorum.Set, now time.Time) (nodes quorum.Set) {
	for i := range g.at {
		if at := &g.at[i]; of.Has(i) && g.opened && g.asksAgain(i) && !at.recounted.After(now) {
			if earliest := now.Add(-3 * time.Second); at.recounted.Before(earliest) {
				at.recounted = earliest
			}
			at.recounted, nodes = at.recounted.Add(time.Second), nodes.With(i)
		}
	}
	return nodes
}

// conflict returns the first claim that counts, or nil, and whether some lists may turn out to conflict. open are the
// nodes of which it is not known what they say: those given, and those whose claims may turn out not to count.
func (g *registry) conflict(now time.Time, unread quorum.Set) (first *Conflict, doubtful bool, open quorum.Set) {
	g.noteClaims(now)
	g.waits = false
	claims, doubts, unread := g.claimants(now, unread)
	open = unread
	var counting quorum.Set // nodes that make a claim that counts
	for i, addr := range g.addrs {
		if !claims.Has(i) {
			continue
		}
		list, _ := g.claimed(i, now)
		for _, l := range list {
			switch g.weigh(i, l, claims|doubts|unread, now) {
			case claimDenied:
			case claimOpen:
				open, g.waits = open.With(i), true
			case claimCounts:
				if counting = counting.With(i); first == nil {
					theirs := g.at[i].used.lists[l]
					first = &Conflict{addr, g.lists.Addresses(), theirs.Addresses(), g.lists.Apart(theirs)}
				}
			}
		}
	}
	if open|counting != 0 && g.inUse(g.electorate.All&^(open|counting), now) {
		g.waits = false
		return nil, doubts != 0, 0
	}
	return first, doubts != 0, open
}

// claimants returns the nodes that make a claim and know clients for it, those with lists that may turn out to
// conflict, and those of which it is not known what they say: those given, and those that have a claim and no count.
func (g *registry) claimants(now time.Time, unknown quorum.Set) (claims, doubts, unread quorum.Set) {
	unread = unknown
	for i := range g.at {
		at := &g.at[i]
		list, doubted := g.claimed(i, now)
		if doubted {
			doubts = doubts.With(i)
		}
		for _, l := range list {
			switch {
			case at.counts[at.used.texts[l]] > 0:
				claims = claims.With(i)
			case !at.counted && now.Sub(at.heard) < registrationLives:
				unread = unread.With(i)
				g.waits = g.waits || g.asks(at.used.texts[l], now)
			}
		}
	}
	return claims, doubts, unread
}

// weight is what a claim amounts to by what the other nodes say.
type weight uint8

const (
	claimDenied weight = iota // nobody has the lists, or too few nodes are left for a client that has them
	claimOpen                 // nodes that have not been asked since may yet deny it
	claimCounts
)

// weigh weighs a node's claim about the lists with that index. Of the silent nodes, nothing is taken for a denial.
func (g *registry) weigh(node, index int, silent quorum.Set, now time.Time) weight {
	theirs, text := g.at[node].used.lists[index], g.at[node].used.texts[index]
	if g.at[node].counts[text] == 0 {
		return claimDenied
	}
	var deny, may []quorum.ListedNode // say that they do not know the lists, or may say so
	for j := range g.at {
		switch at := &g.at[j]; {
		case silent.Has(j) || now.Sub(at.heard) >= registrationLives:
		case !at.heard.Before(g.claims[text]):
			deny = append(deny, g.listed(j))
		case g.asks(text, now):
			may = append(may, g.listed(j))
		}
	}
	switch {
	case !theirs.MayWork(deny):
		return claimDenied
	case !theirs.MayWork(append(deny, may...)):
		return claimOpen
	default:
		return claimCounts
	}
}

// inUse reports whether a majority from a set says that others use this client's lists, longer than a crash explains.
func (g *registry) inUse(among quorum.Set, now time.Time) bool {
	return g.electorate.Suffice(among & g.where(func(at *node) bool {
		old := func(l int) bool { return at.ages[at.used.texts[l]] >= at.used.lives[l]+establishedAfter }
		return at.used != nil && now.Sub(at.heard) < registrationLives &&
			slices.ContainsFunc(at.used.judge(g.own).same, old)
	}))
}

// doubt notes lists that conflict unless a node has lost its data lately. They stay: short-lived clients come and go.
func (at *node) doubt(sum [20]byte, now time.Time, of int) {
	if !at.doubts[sum].IsZero() {
		return
	}
	if at.doubts == nil || len(at.doubts) >= maxDoubts {
		at.doubts = make(map[[20]byte]time.Time, of) // of that size: each client has one for each node
	}
	at.doubts[sum] = now
}

// maxDoubts is how many lists are remembered: more than a node tells.
const maxDoubts = 200

// lasts reports whether lists, by index, have been in use for longer than a restart explains, as the node says. That
// depends on their life, for the client that confirmed them may have crashed.
func (g *registry) lasts(node, index int) bool {
	at := &g.at[node]
	since := at.doubts[at.used.sums[index]]
	return !since.IsZero() && at.heard.Sub(since) >= at.used.lives[index]+restartExplains
}

// says reports whether the node has said, no longer ago than they live, that the lists with that index are in use.
func (g *registry) says(node, index int, now time.Time) bool {
	at := &g.at[node]
	return now.Sub(at.heard) < at.used.lives[index]
}

// conflicting returns the lists, by index, that are in use at the node and conflict with this client's.
func (g *registry) conflicting(node int) (list []int) {
	used := g.at[node].used
	if used == nil {
		return nil
	}
	stale := g.lists.AllStale()
	for i, l := range used.lists {
		own := stale
		if g.lasts(node, i) {
			own = g.lists
		}
		clients, counted := g.at[node].counts[used.texts[i]]
		if l != nil && (clients > 0 || !counted) && !own.Exclude(l) {
			list = append(list, i)
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
