package redlock

import (
	"crypto/sha1" //nolint:gosec // see digestOf
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// All clients that lock a name must vote with lists of nodes that exclude each other: a client with the nodes a b c d e
// and one with a b c d f can each have a majority, c d e and a b f, and share no node. So each client tells the nodes
// its lists, and learns from them which others are in use. This file judges; registration.go asks.

// nodeLists are the lists with which a client votes: one, or two while the nodes are being changed.
type nodeLists [][]listedNode

// listedNode is one node of a list, as a client knows it.
type listedNode struct {
	id   string // what the node calls itself, whatever its address; "": the client has not met it yet
	addr string
}

// unmet stands for the id of a node that the client has not met yet.
const unmet = "?"

// String returns the lists as nodes keep them: "id@address id@address|id@address …", the nodes of a list in order.
func (l nodeLists) String() string {
	var lists []string
	for _, list := range l {
		var nodes []string
		for _, n := range list {
			id := n.id
			if id == "" {
				id = unmet
			}
			nodes = append(nodes, id+"@"+addrEscaper.Replace(n.addr))
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

// parseNodeLists reads what String has written. What it cannot read may come from another version.
func parseNodeLists(text string) (l nodeLists, ok bool) {
	for part := range strings.SplitSeq(text, "|") {
		var list []listedNode
		for word := range strings.FieldsSeq(part) {
			id, addr, found := strings.Cut(word, "@")
			if !found || id == "" || addr == "" {
				return nil, false
			}
			if id == unmet {
				id = ""
			}
			list = append(list, listedNode{id, addrUnescaper.Replace(addr)})
		}
		if len(list) == 0 || len(list) > maxNodes {
			return nil, false
		}
		l = append(l, list)
	}
	return l, len(l) <= 2
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
// of these two.
func (l nodeLists) exclude(other nodeLists) bool {
	for _, ours := range l {
		for _, theirs := range other {
			if majoritiesMeet(len(ours), len(theirs), common(ours, theirs)) {
				return true
			}
		}
	}
	return false
}

// majoritiesMeet reports whether every majority of n nodes shares a node with every majority of m nodes, if the two
// lists have some nodes in common. It is not enough that these are many: two lists of five with four in common have
// majorities that do not meet.
func majoritiesMeet(n, m, common int) bool {
	// A majority that avoids the common nodes as far as it can has this many of them. If that is more than there are,
	// for both together, they meet.
	avoiding := func(size int) int { return max(0, majority(size)-(size-common)) }
	return avoiding(n)+avoiding(m) > common
}

// common returns how many nodes two lists have in common. Two entries are the same node if their ids agree or their
// addresses do. A node that its client has not met yet is known by its address alone: it is often one that is down and
// is just being replaced, and then the lists must not be taken for the same.
//
// But if the clients know no node by the same address, and some by the same id, they reach the nodes in different ways.
// Then ids are all there is, and a node has another one when it has lost its data, or none while it is down. A client
// must be able to start then, so the entries that are left may be the same nodes: only the lists' sizes are compared.
func common(a, b []listedNode) int {
	same, addrs := 0, 0
	rest := slices.Clone(b)
	for _, n := range a {
		at := slices.IndexFunc(rest, func(m listedNode) bool {
			return n.addr == m.addr || n.id != "" && n.id == m.id
		})
		if at < 0 {
			continue
		}
		same++
		if rest[at].addr == n.addr {
			addrs++
		}
		rest = slices.Delete(rest, at, at+1)
	}
	if addrs == 0 && same > 0 {
		return min(len(a), len(b))
	}
	return same
}

// usedLists are the lists of which a node says that they are in use. They are the same for everybody who knows the
// digest, and never change.
type usedLists struct {
	digest string
	texts  []string
	lists  []nodeLists // by text; nil: it comes from another version
	clash  func() bool // reports whether two of them conflict

	mu       sync.Mutex
	verdicts map[*usedLists]nodeLists // what conflict has returned; guarded by mu
}

// conflict returns the first of the lists that conflicts with a client's own ones, or nil. All Lockers of a process
// with the same lists ask the same, again and again, so what was found is kept.
func (u *usedLists) conflict(own *usedLists) nodeLists {
	u.mu.Lock()
	defer u.mu.Unlock()
	conflict, judged := u.verdicts[own]
	if judged {
		return conflict
	}
	for _, l := range u.lists {
		if l != nil && !own.lists[0].exclude(l) {
			conflict = l
			break
		}
	}
	if u.verdicts == nil || len(u.verdicts) >= maxKnown {
		u.verdicts = make(map[*usedLists]nodeLists)
	}
	u.verdicts[own] = conflict
	return conflict
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
	used := &usedLists{digest: digest, texts: texts, lists: make([]nodeLists, len(texts))}
	for i, text := range texts {
		if l, ok := parseNodeLists(text); ok {
			used.lists[i] = l
		}
	}
	used.clash = sync.OnceValue(func() bool {
		for i, a := range used.lists {
			for _, b := range used.lists[i+1:] {
				if a != nil && b != nil && !a.exclude(b) {
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
}

// Error shows both lists, and how to change nodes.
func (e *ListConflictError) Error() string {
	return fmt.Sprintf("%s: other clients use %s, this one %s (as %s says): each could hold the lock without the other; "+
		"to change nodes, use WithMigration (docs/changing-nodes.md)",
		ErrListConflict, listsInWords(e.Other), listsInWords(e.Own), e.Node)
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
