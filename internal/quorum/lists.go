package quorum

import "slices"

// NodeLists are the lists with which a client votes: one, or two while the nodes are being changed. All clients that
// lock a name must vote with lists that exclude each other: a client with the nodes a b c d e and one with a b c d f
// can each have a majority, c d e and a b f, and share no node.
type NodeLists [][]ListedNode

// ListedNode is one node of a list, as a client knows it.
type ListedNode struct {
	ID    string // what the node calls itself, whatever its address; "": the client has not met it yet
	Addr  string
	Stale bool // the node has been away for so long that it may have lost its data, and the ID with it
}

// Met reports whether the client knows by which ID others know the node.
func (n ListedNode) Met() bool { return n.ID != "" && !n.Stale }

// Addresses returns the lists for people.
func (l NodeLists) Addresses() [][]string {
	all := make([][]string, len(l))
	for i, list := range l {
		for _, n := range list {
			all[i] = append(all[i], n.Addr)
		}
		slices.Sort(all[i])
	}
	return all
}

// Exclude reports whether two clients with these lists exclude each other: every majority of some list of the one
// shares a node with every majority of some list of the other. Both clients need majorities of these two.
func (l NodeLists) Exclude(other NodeLists) bool {
	for _, ours := range l {
		for _, theirs := range other {
			if majoritiesMeet(len(ours), len(theirs), common(ours, theirs)) {
				return true
			}
		}
	}
	return false
}

// Same reports whether two clients have the same lists, in whatever words.
func (l NodeLists) Same(other NodeLists) bool {
	return slices.EqualFunc(l, other, func(ours, theirs []ListedNode) bool {
		return len(ours) == len(theirs) && common(ours, theirs) == len(ours)
	})
}

// AllStale returns the lists as they are if any node may just have lost its data.
func (l NodeLists) AllStale() NodeLists {
	all := make(NodeLists, len(l))
	for i, list := range l {
		all[i] = slices.Clone(list)
		for j := range all[i] {
			all[i][j].Stale = true
		}
	}
	return all
}

// Names reports whether a node may be in some list: clients may know it by other addresses, or have yet to meet it.
func (l NodeLists) Names(n ListedNode) bool {
	return slices.ContainsFunc(slices.Concat(l...), func(m ListedNode) bool {
		return n.ID == m.ID || n.Addr == m.Addr || !n.Met() || !m.Met()
	})
}

// MayWork reports whether a client with these lists can have a majority of each without some nodes. Those that may be
// others are counted among those that it can have.
func (l NodeLists) MayWork(without []ListedNode) bool {
	return !slices.ContainsFunc(l, func(list []ListedNode) bool {
		list, without := slices.Clone(list), slices.Clone(without)
		return len(list)-pair(list, without, sameNode) < Majority(len(list))
	})
}

// sameNode reports whether two entries are one node, as far as that is known.
func sameNode(n, m ListedNode) bool { return n.ID == m.ID && m.ID != "" || sameAddr(n, m) }

// sameAddr reports whether two entries have one address, and may be one node although the ids differ.
func sameAddr(n, m ListedNode) bool { return n.Addr == m.Addr && (!n.Met() || !m.Met()) }

// Apart returns the addresses that lead to different nodes: each client knows the id of its own.
func (l NodeLists) Apart(other NodeLists) (addrs []string) {
	theirs := slices.Concat(other...)
	for _, n := range slices.Concat(l...) {
		if slices.ContainsFunc(theirs, func(m ListedNode) bool {
			return n.Addr == m.Addr && n.ID != m.ID && n.Met() && m.Met()
		}) && !slices.Contains(addrs, n.Addr) {
			addrs = append(addrs, n.Addr)
		}
	}
	return addrs
}

// majoritiesMeet reports whether every majority of n nodes shares a node with every majority of m nodes, if the lists
// have some in common. Many are not enough: two lists of five with four in common have majorities that do not meet.
func majoritiesMeet(n, m, common int) bool {
	// A majority that avoids the common nodes has at least so many. If both have more together than there are, they meet.
	avoiding := func(size int) int { return max(0, Majority(size)-(size-common)) }
	return avoiding(n)+avoiding(m) > common
}

// common returns how many nodes two lists have in common. An entry stands for one node, so it has one counterpart at
// most: the entry with the same id, whatever the addresses are, and also if a client has not met the node lately.
// Entries without one are compared by address, if one client has not met the node, or not lately, and so does not know
// the id. That is often one that is down and being replaced: another address must not be taken for it.
//
// A node that has lost its data has another id. If that may have happened lately (AllStale), one address is one node,
// whatever the ids. Later, all clients that reach it have told the others its new id, and two ids are two nodes.
//
// Where clients reach the nodes in different ways, addresses tell nothing: where they know no node by the same address,
// and entries whose address leads the other client to a node that this one knows by another. Then ids are all there is.
// As a client must be able to start while a node is down or has lost its data, what is left may be the same nodes.
func common(a, b []ListedNode) int {
	var copies [2][MaxNodes]ListedNode // not on the heap: a client may compare hundreds of lists as it starts
	a, b = append(copies[0][:0], a...), append(copies[1][:0], b...)
	same := pair(a, b, func(n, m ListedNode) bool { return n.ID != "" && n.ID == m.ID })
	metA, restA, metB, restB := a[:same], a[same:], b[:same], b[same:]
	named := pair(restA, restB, sameAddr)
	if same == 0 {
		return named
	}
	disjoint := !slices.ContainsFunc(a, func(n ListedNode) bool { return knows(b, n.Addr) })
	restA = slices.DeleteFunc(restA[named:], func(n ListedNode) bool { return !disjoint && !knows(metB, n.Addr) })
	restB = slices.DeleteFunc(restB[named:], func(m ListedNode) bool { return !disjoint && !knows(metA, m.Addr) })
	// Of two that are the same, one is not known by its id.
	return same + named + min(len(restA), len(restB), unmetOf(restA)+unmetOf(restB))
}

// pair moves entries of a and b that are the same to the front of both, in pairs, and returns how many these are.
func pair(a, b []ListedNode, same func(n, m ListedNode) bool) (pairs int) {
	for i, n := range a {
		if at := slices.IndexFunc(b[pairs:], func(m ListedNode) bool { return same(n, m) }); at >= 0 {
			a[i], a[pairs] = a[pairs], n
			b[pairs], b[pairs+at] = b[pairs+at], b[pairs]
			pairs++
		}
	}
	return pairs
}

func knows(list []ListedNode, addr string) bool {
	return slices.ContainsFunc(list, func(n ListedNode) bool { return n.Addr == addr })
}

func unmetOf(list []ListedNode) (n int) {
	for _, node := range list {
		if !node.Met() {
			n++
		}
	}
	return n
}
