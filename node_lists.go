package redlock

import (
	"crypto/sha1" //nolint:gosec // see digestOf
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// All clients that lock a name must vote with lists of nodes that exclude each other: a client with the nodes a b c d e
// and one with a b c d f can each have a majority, c d e and a b f, and share no node. So each client tells the nodes
// its lists, and learns from them which others are in use. This file judges; registration.go asks.

// nodeLists are the lists with which a client votes: one, or two while the nodes are being changed.
type nodeLists [][]listedNode

// listedNode is one node of a list, as a client knows it.
type listedNode struct {
	id    string // what the node calls itself, whatever its address; "": the client has not met it yet
	addr  string
	stale bool // the node has been away for so long that it may have lost its data, and the id with it
}

// met reports whether the client knows by which id others know the node.
func (n listedNode) met() bool { return n.id != "" && !n.stale }

const (
	// registrationLives is for how long a node counts a client that does not confirm its registration, at least (see
	// registry.lives), and for how long a client may be silent without becoming a newcomer.
	registrationLives = time.Minute
	// longestLife bounds that. Where a clock is set back by more, what seems to be from the future goes: see lists.lua.
	longestLife = time.Hour
)

// unmet stands before the id of a node that the client has not met yet, or not lately.
const unmet = "?"

// text returns the lists as nodes keep them: String, and behind it the life of the registration in minutes, if that is
// not one: "id@address …|8". So everybody knows how long the text may stay after its last client has crashed, and
// clients whose registrations live for less do not keep it.
func (l nodeLists) text(life time.Duration) string {
	if life == registrationLives {
		return l.String()
	}
	return fmt.Sprintf("%s|%d", l, int(life.Minutes()))
}

// String returns the lists as "id@address id@address|id@address …", the nodes of a list in order.
func (l nodeLists) String() string {
	var lists []string
	for _, list := range l {
		var nodes []string
		for _, n := range list {
			word := n.id + "@" + addrEscaper.Replace(n.addr)
			if !n.met() {
				word = unmet + word
			}
			nodes = append(nodes, word)
		}
		slices.Sort(nodes)
		lists = append(lists, strings.Join(nodes, " "))
	}
	return strings.Join(lists, "|")
}

// The path of a Unix socket may have any character in it.
var (
	addrEscaper   = strings.NewReplacer("%", "%25", " ", "%20", "|", "%7C", "\n", "%0A", "\r", "%0D")
	addrUnescaper = strings.NewReplacer("%25", "%", "%20", " ", "%7C", "|", "%0A", "\n", "%0D", "\r")
)

// parseNodeLists reads what text has written. What it cannot read may come from another version.
func parseNodeLists(text string) (l nodeLists, life time.Duration, ok bool) {
	parts, life := strings.Split(text, "|"), registrationLives
	if last := len(parts) - 1; !strings.Contains(parts[last], "@") {
		minutes, err := strconv.Atoi(parts[last])
		if err != nil || minutes < 2 || minutes > int(longestLife.Minutes()) {
			return nil, registrationLives, false
		}
		parts, life = parts[:last], time.Duration(minutes)*time.Minute
	}
	for _, part := range parts {
		var list []listedNode
		for word := range strings.FieldsSeq(part) {
			id, addr, found := strings.Cut(word, "@")
			id, stale := strings.CutPrefix(id, unmet)
			if !found || id == "" && !stale || addr == "" {
				return nil, registrationLives, false
			}
			list = append(list, listedNode{id, addrUnescaper.Replace(addr), stale && id != ""})
		}
		if len(list) == 0 || len(list) > quorum.MaxNodes {
			return nil, registrationLives, false
		}
		l = append(l, list)
	}
	return l, life, len(l) == 1 || len(l) == 2
}

// addresses returns the lists for people.
func (l nodeLists) addresses() [][]string {
	all := make([][]string, len(l))
	for i, list := range l {
		for _, n := range list {
			all[i] = append(all[i], n.addr)
		}
		slices.Sort(all[i])
	}
	return all
}

// exclude reports whether two clients with these lists exclude each other: some list of one and some list of the other
// are such that every majority of the one shares a node with every majority of the other. Both clients need a majority
// of these two. For lately see common.
func (l nodeLists) exclude(other nodeLists, lately bool) bool {
	for _, ours := range l {
		for _, theirs := range other {
			if majoritiesMeet(len(ours), len(theirs), common(ours, theirs, lately)) {
				return true
			}
		}
	}
	return false
}

// apart returns the addresses that lead to different nodes: each client knows the id of its own.
func (l nodeLists) apart(other nodeLists) (addrs []string) {
	theirs := slices.Concat(other...)
	for _, n := range slices.Concat(l...) {
		if slices.ContainsFunc(theirs, func(m listedNode) bool {
			return n.addr == m.addr && n.id != m.id && n.met() && m.met()
		}) && !slices.Contains(addrs, n.addr) {
			addrs = append(addrs, n.addr)
		}
	}
	return addrs
}

// majoritiesMeet reports whether every majority of n nodes shares a node with every majority of m nodes, if the two
// lists have some nodes in common. It is not enough that these are many: two lists of five with four in common have
// majorities that do not meet.
func majoritiesMeet(n, m, common int) bool {
	// A majority that avoids the common nodes as far as it can has this many of them. If that is more than there are,
	// for both together, they meet.
	avoiding := func(size int) int { return max(0, quorum.Majority(size)-(size-common)) }
	return avoiding(n)+avoiding(m) > common
}

// common returns how many nodes two lists have in common. An entry stands for one node, so it has one counterpart at
// most: the entry with the same id, whatever the addresses are, and also if a client has not met the node lately.
// Entries without one are compared by address, if one of the clients does not know the id, since it has not met the
// node, or not lately. That is often one that is down and is just being replaced: an entry with another address must
// not be taken for it.
//
// A node that has lost its data has another id. If that may have happened lately, one address is one node, whatever the
// ids. Later, all clients that reach the node have told the others its new id, and two ids are two nodes.
//
// Where clients reach the nodes in different ways, addresses tell nothing: where they know no node by the same address,
// and entries whose address leads the other client to a node that this one knows by another. Then ids are all there is.
// As a client must be able to start while a node is down or has lost its data, what is left may be the same nodes.
func common(a, b []listedNode, lately bool) int {
	a, b = slices.Clone(a), slices.Clone(b)
	same := pair(a, b, func(n, m listedNode) bool { return n.id != "" && n.id == m.id })
	metA, restA, metB, restB := a[:same], a[same:], b[:same], b[same:]
	named := pair(restA, restB, func(n, m listedNode) bool {
		return n.addr == m.addr && (lately || !n.met() || !m.met())
	})
	if same == 0 {
		return named
	}
	disjoint := !slices.ContainsFunc(a, func(n listedNode) bool { return knows(b, n.addr) })
	restA = slices.DeleteFunc(restA[named:], func(n listedNode) bool { return !disjoint && !knows(metB, n.addr) })
	restB = slices.DeleteFunc(restB[named:], func(m listedNode) bool { return !disjoint && !knows(metA, m.addr) })
	maybe := min(len(restA), len(restB))
	if !lately { // of two that are the same, one is not known by its id
		maybe = min(maybe, unmetOf(restA)+unmetOf(restB))
	}
	return same + named + maybe
}

// pair moves entries of a and b that are the same to the front of both, one for one, and returns how many pairs these
// are.
func pair(a, b []listedNode, same func(n, m listedNode) bool) (pairs int) {
	for i, n := range a {
		if at := slices.IndexFunc(b[pairs:], func(m listedNode) bool { return same(n, m) }); at >= 0 {
			a[i], a[pairs] = a[pairs], n
			b[pairs], b[pairs+at] = b[pairs+at], b[pairs]
			pairs++
		}
	}
	return pairs
}

func knows(list []listedNode, addr string) bool {
	return slices.ContainsFunc(list, func(n listedNode) bool { return n.addr == addr })
}

func unmetOf(list []listedNode) (n int) {
	for _, node := range list {
		if !node.met() {
			n++
		}
	}
	return n
}

// usedLists are the lists of which a node says that they are in use. They are the same for everybody who knows the
// digest, and never change.
type usedLists struct {
	digest string
	texts  []string
	lists  []nodeLists     // by text; nil: it comes from another version
	lives  []time.Duration // by text: for how long it counts after a client has confirmed it
	clash  func() bool     // reports whether two of them conflict

	mu       sync.Mutex
	verdicts map[*usedLists]listsVerdict // what judge has returned; guarded by mu
}

// listsVerdict is how lists that are in use go together with a client's own ones.
type listsVerdict struct {
	conflicts []int // by index: lists that conflict
	doubtful  []int // by index: lists that conflict, too, unless a node has lost its data lately
}

// judge compares the lists with a client's own ones. All Lockers of a process with the same lists ask the same, again
// and again, so what was found is kept.
func (u *usedLists) judge(own *usedLists) listsVerdict {
	u.mu.Lock()
	defer u.mu.Unlock()
	v, judged := u.verdicts[own]
	if judged {
		return v
	}
	for i, l := range u.lists {
		switch {
		case l == nil || own.lists[0].exclude(l, false):
		case own.lists[0].exclude(l, true):
			v.doubtful = append(v.doubtful, i)
		default:
			v.conflicts = append(v.conflicts, i)
		}
	}
	if u.verdicts == nil || len(u.verdicts) >= maxKnown {
		u.verdicts = make(map[*usedLists]listsVerdict)
	}
	u.verdicts[own] = v
	return v
}

// digestOf returns the digest of lists, as lists.lua forms it.
func digestOf(texts ...string) string {
	sum := sha1.Sum([]byte(strings.Join(texts, "\n"))) //nolint:gosec // what scripts can compute; no secret
	return hex.EncodeToString(sum[:])
}

// knownLists are the lists that this process has read lately, by their digest. So it parses once what all nodes say to
// all its Lockers, again and again.
var knownLists = listsCache{of: make(map[string]*usedLists)}

type listsCache struct {
	mu sync.Mutex
	of map[string]*usedLists // guarded by mu
}

// find returns the lists with that digest, or nil.
func (c *listsCache) find(digest string) *usedLists {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.of[digest]
}

// maxKnown is how many digests are kept: there are seldom more than two at a time.
const maxKnown = 16

// read returns the lists with these texts.
func (c *listsCache) read(texts []string) *usedLists {
	digest := digestOf(texts...)
	if known := c.find(digest); known != nil {
		return known
	}
	used := &usedLists{
		digest: digest, texts: texts, lists: make([]nodeLists, len(texts)), lives: make([]time.Duration, len(texts)),
	}
	for i, text := range texts {
		l, life, ok := parseNodeLists(text)
		if used.lives[i] = life; ok {
			used.lists[i] = l
		}
	}
	used.clash = sync.OnceValue(func() bool {
		for i, a := range used.lists {
			for _, b := range used.lists[i+1:] {
				if a != nil && b != nil && !a.exclude(b, true) {
					return true
				}
			}
		}
		return false
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.of) >= maxKnown {
		clear(c.of)
	}
	c.of[digest] = used
	return used
}

// ListConflictError says that clients are at work whose lists of nodes and this Locker's do not exclude each other: two
// of them could hold one lock. It satisfies errors.Is for [ErrListConflict].
type ListConflictError struct {
	Node  string     // the address of the node that says so
	Own   [][]string // the addresses of this Locker's nodes: one list, or the old and the new one (see [WithMigration])
	Other [][]string // those of the other clients

	apart []string // addresses by which they reach other masters than this Locker does
}

// Error shows both lists, and how to change nodes.
func (e *ListConflictError) Error() string {
	return fmt.Sprintf("%s: other clients use %s%s, this one %s (as %s says): "+
		"each could hold the lock without the other; to change nodes, use WithMigration (docs/changing-nodes.md)",
		ErrListConflict, listsInWords(e.Other), apartInWords(e.apart), listsInWords(e.Own), e.Node)
}

// apartInWords says which addresses lead to different masters; "": none do.
func apartInWords(addrs []string) string {
	if addrs == nil {
		return ""
	}
	return " (where " + strings.Join(addrs, " and ") + " is another master)"
}

// Unwrap returns ErrListConflict.
func (e *ListConflictError) Unwrap() error { return ErrListConflict }

// listsInWords shows lists of addresses: "a b c", or "a b c to a b d".
func listsInWords(lists [][]string) string {
	var words []string
	for _, list := range lists {
		words = append(words, strings.Join(list, " "))
	}
	return strings.Join(words, " to ")
}
