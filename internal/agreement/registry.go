package agreement

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// Registration: a client tells each node its lists of nodes (lists.go), and learns which others are in use. It looks
// before it tells, so a client that is refused has alarmed nobody: see refusal.go.
//
// A thousand clients do this at one moment, so it costs each of them the same whatever the others have written: a node
// tells a digest of the lists that are in use, and who does not know it reads them, once in a process.

const (
	// registerAgain is the age at which a registration is confirmed: with the next probe.
	registerAgain = 30 * time.Second
	// confirmsWithin is how old a registration gets, with some margin, before it is confirmed: by a probe.
	confirmsWithin = registerAgain + 15*time.Second
)

// registry is what the nodes of a client said of lists, and what they were told. It decides, and sends nothing. An
// exchange has it, and guards it by its mutex, except refusal.
type registry struct {
	prefix     string
	onlyLooks  bool
	electorate *quorum.Electorate
	addrs      []string // by node

	refusal atomic.Pointer[Conflict] // why no lock is given to this client; nil: none is known

	ttl        time.Duration    // the longest of the client
	own        *usedLists       // this client's lists, with the identities that are known, and how long they are to live
	lists      quorum.NodeLists // the same
	at         []node
	opened     bool      // New has seen what the nodes said, so the client may register, unless it is refused
	clear      time.Time // since when a majority of each list has the registration, and no conflict is known; or zero
	closed     bool
	correcting bool // the client will soon register anew

	claims      map[string]time.Time // lists of which some node says that they are in use and conflict: since when
	waits       bool                 // a newcomer may be about to be refused, and should not alarm others
	established bool                 // whoever else conflicts came later
}

// begin prepares a registry, of which the client's side is set.
func (g *registry) begin() {
	g.at = make([]node, len(g.addrs))
	for i := range g.at {
		if !g.onlyLooks {
			g.at[i].candidate, g.at[i].member = drawID(), drawID()
		}
	}
	g.describe()
}

func drawID() string {
	var id [6]byte
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails
	return hex.EncodeToString(id[:])
}

// describe brings own up to date.
func (g *registry) describe() {
	g.lists = nil
	for at := 0; g.electorate.List(at) != 0; at++ {
		var list []quorum.ListedNode
		for i := range g.addrs {
			if g.electorate.List(at).Has(i) {
				list = append(list, g.listed(i))
			}
		}
		g.lists = append(g.lists, list)
	}
	g.own = knownLists.read([]string{listsText(g.lists, g.lives())})
	for i := range g.at {
		g.at[i].used = g.find(g.at[i].digest, g.at[i].used)
	}
}

// where returns the nodes for which is returns true.
func (g *registry) where(is func(at *node) bool) quorum.Set {
	return quorum.Where(len(g.at), func(i int) bool { return is(&g.at[i]) })
}

func (g *registry) listed(node int) quorum.ListedNode {
	return quorum.ListedNode{ID: g.at[node].id, Addr: g.addrs[node], Stale: g.at[node].stale}
}

// lives returns for how long a node is to keep the registration, unless it is confirmed: for longer than any hold that
// the client gets or extends before it confirms. That is rounded up, since each life makes another text.
func (g *registry) lives() time.Duration {
	life := registrationLives
	for life < g.ttl+confirmsWithin && life < longestLife {
		life *= 2
	}
	return min(life, longestLife)
}

// find returns the lists with that digest, or those given if they are not known.
func (g *registry) find(digest string, otherwise *usedLists) *usedLists {
	if digest == g.own.digest {
		return g.own
	}
	return cmp.Or(knownLists.find(digest), otherwise)
}

// request returns the arguments of the script that asks a node, or registers with it, and the lists that they tell.
func (g *registry) request(node int, mode string) (text string, args []any) {
	at := &g.at[node]
	at.reading = at.reading || mode == modeRead
	text, was, keys := g.subject(at, mode)
	args = append(append([]any{len(keys)}, keys...), mode, at.candidate, text, at.member, was)
	if mode == modeVote || mode == modeLeave {
		at.sent = at.sent || mode == modeVote
		at.requests++
		if life := g.own.lives[0]; life > registrationLives || at.members != nil {
			args = append(args, life.Milliseconds())
		}
		for _, member := range at.members {
			args = append(args, member)
		}
	}
	return text, args
}

// subject returns the lists that a request tells, those that the node forgets with it, and the keys of the script: of
// the lists in use, and of the clients of each text that the request is about.
func (g *registry) subject(at *node, mode string) (text, was string, keys []any) {
	own := g.own.texts[0]
	var about []string
	switch mode {
	case modeVote:
		text = own
		if at.noted != "" && at.noted != text {
			was = at.noted
		}
		about = []string{text}
	case modeLeave:
		text = cmp.Or(at.noted, at.former, own)
		if at.sent && own != text { // it may have that, without an answer so far
			was = own
		}
		about = []string{text}
	case modeCount:
		if at.used != nil {
			about = at.used.texts
		}
	}
	keys = append(keys, g.prefix+"lists")
	for _, text := range about {
		keys = append(keys, g.clientsKey(text))
	}
	switch {
	case was != "":
		keys = append(keys, g.clientsKey(was))
	case mode == modeCount && at.used != nil:
		keys = append(keys, g.prefix+"clients") // where older versions note all clients, whatever their lists
	}
	return text, was, keys
}

// clientsKey is the key at which a node keeps the clients that have these lists.
func (g *registry) clientsKey(text string) string { return g.prefix + "clients:" + digestOf(text)[:12] }

// due returns what to ask a node with a probe; "": nothing. Registrations are 30 s apart, and seldom more than 45.
func (g *registry) due(node int, now time.Time) string {
	stays := !g.closed && g.at[node].noted != "" // also if it is refused: its holds still count
	switch {
	case !g.mayRegister() && g.at[node].former != "": // the node was out of reach when it was told
		return modeLeave
	case !g.mayRegister() && !(stays && g.lapses(node, now)):
		return modeAsk
	case g.lapses(node, now):
		return modeVote
	default:
		return ""
	}
}

// mayRegister reports whether the client may tell the nodes its lists.
func (g *registry) mayRegister() bool {
	return !g.onlyLooks && g.opened && !g.closed && !g.waits && g.refusal.Load() == nil
}

// outdated reports whether a node has not been told the lists as they are, and may be.
func (g *registry) outdated(at *node) bool { return g.mayRegister() && at.noted != g.own.texts[0] }

// lapses reports whether a node should be told the lists again.
func (g *registry) lapses(node int, now time.Time) bool {
	at := &g.at[node]
	return !g.correcting && (at.noted != g.own.texts[0] || now.Sub(at.confirmed) >= registerAgain)
}

// prolong makes the registrations live for longer, if the TTL needs it. It returns the nodes to tell.
func (g *registry) prolong(ttl time.Duration) (to quorum.Set) {
	if g.ttl = max(g.ttl, ttl); g.own.lives[0] < g.lives() {
		g.describe()
	}
	return g.where(func(at *node) bool { return g.outdated(at) && (at.sent || at.noted != "") })
}

// correct returns the nodes that have not been told the lists as they are, or none.
func (g *registry) correct() (to quorum.Set) {
	g.correcting = false
	return g.where(g.outdated)
}

// connected notes a new connection to a node, over which the handshake has asked. It returns the node if it is to be
// told now. The member is another one: the former may be that of another process, of which this is a copy, from a
// snapshot that was started twice. So the end of neither takes away what the other has told.
//
// The member before goes with the registration: a client is counted once, and leaves nothing behind that would keep a
// former text alive. A copy may thereby take away that of its original. The text stays, for the copy has it, and the
// original confirms it within 45 s; or, should the copy end sooner, it registers anew then or when told of it.
func (g *registry) connected(node int) (to quorum.Set) {
	at := &g.at[node]
	if at.sent {
		at.members = append(at.members[max(0, len(at.members)+1-maxMembers):], at.member)
	}
	at.member, at.sent = drawID(), false
	at.requests++
	if g.mayRegister() && !g.correcting {
		to = to.With(node)
	}
	return to
}

// maxMembers is how many former members are remembered until a node has taken them away: several if connections break.
const maxMembers = 16

// note notes what a node said in answer to any mode but modeLeave. lost are the nodes that have forgotten the lists
// that they were told, and this one. corrects reports that the client must register anew.
func (g *registry) note(
	node int, mode, text string, said registration, now time.Time,
) (lost quorum.Set, corrects bool) {
	at := &g.at[node]
	at.heard = now
	corrects = g.learn(node, said.id, now)
	if at.digest != said.digest {
		at.digest, at.used = said.digest, g.find(said.digest, nil)
	}
	switch {
	case mode == modeVote:
		at.noted, at.former, at.confirmed, at.members = text, "", now, nil
	case said.digest == "":
		at.forget(now)
	}
	switch mode {
	case modeRead:
		at.used = knownLists.read(said.texts)
		for i := range g.at {
			g.at[i].used = g.find(g.at[i].digest, g.at[i].used)
		}
	case modeCount:
		at.count(said.of, said.counts)
	}
	lost = lost.With(node)
	for i := range g.at {
		// No answer to a registration leads to another, nor any within a second of the last time: it might go on for ever.
		at := &g.at[i]
		if at.lacks(at.noted) && !(i == node && mode == modeVote) && now.Sub(at.forgot) >= time.Second {
			at.forget(now)
			lost = lost.With(i)
		}
	}
	at.counted = mode == modeCount && (at.digest == "" || at.used != nil && slices.Equal(at.used.texts, said.of))
	return lost, corrects
}

// learn notes the identity of a node. If that is another one than before, the node has lost its data, with what it was
// told. Most answers are to registrations, which would hide that. It reports whether the client must register anew.
func (g *registry) learn(node int, id string, now time.Time) bool {
	at := &g.at[node]
	if id == "" || id == at.id && !at.stale {
		return false
	}
	if at.id != "" && at.id != id {
		if !at.rename(now) {
			return false
		}
		at.forget(now)
	}
	at.id, at.stale = id, false
	if !g.opened {
		return false // open describes them all at once
	}
	g.describe()
	g.correcting = g.correcting || !g.closed
	return !g.closed
}

// doubtIDs notes which nodes have been away for long: they may have lost their data meanwhile, and then others know
// them by another id. The id is kept, for others may know the node by another address.
func (g *registry) doubtIDs(away quorum.Set, now time.Time) {
	doubted := false
	for i := range g.at {
		if at := &g.at[i]; away.Has(i) && at.id != "" && !at.stale && now.Sub(at.heard) >= registrationLives {
			at.stale, doubted = true, true
		}
	}
	if doubted && g.opened {
		g.describe()
	}
}
