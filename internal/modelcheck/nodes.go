package modelcheck

import (
	"fmt"
	"math/bits"
	"strings"
)

// What the models have in common.

const (
	nodes       = 3
	majority    = nodes/2 + 1
	maxAttempts = 3
	maxListed   = 6 // nodes of two lists together
)

// phase says how far an attempt has come.
type phase uint8

const (
	idle      phase = iota
	acquiring       // the proposal is out to every node
	raising         // the second round is out
	won
	lost // it will not win; only what is on the wire matters
	over // it was a hold, which has ended
)

// kind is what a step is.
type kind uint8

const (
	begins kind = iota
	asksAgain
	decides
	extends
	ends
	executes
	refuses
	expires
	forgets
	trims
	handsOver
	repairs
	ticks
)

// event is one step of a protocol or of the world around it.
type event struct {
	kind          kind
	attempt, node uint8
	voters        nodeSet // whose answers the attempt counts
	token         uint8
}

var sentences = [...]string{
	begins:    "{client} asks every node, with {token}",
	asksAgain: "{client} asks every node again, with {token}",
	decides:   "{client} has heard {nodes} and decides",
	extends:   "{client} extends its hold on {nodes} and trusts it",
	ends:      "{client} ends its hold, gives up or crashes",
	executes:  "{node} executes what {client} asked",
	refuses:   "{node} refuses {client} the lock",
	expires:   "the key of {client} on {node} goes",
	forgets:   "{node} loses its data",
	trims:     "{node} trims its entry",
	handsOver: "{node} hands the key over to {client}",
	repairs:   "{client} sets its key again on {node}",
	ticks:     "time goes on",
}

func (e event) String() string {
	return strings.NewReplacer("{client}", client(e.attempt), "{node}", nodeName(e.node), "{nodes}", e.voters.String(),
		"{token}", fmt.Sprint(e.token)).Replace(sentences[e.kind])
}

// owner is how a node knows attempt a; 0: nobody.
func owner(a int) uint8 { return uint8(a + 1) }

func client(a uint8) string { return fmt.Sprintf("client %d", a+1) }

func nodeName(n uint8) string { return string(rune('a' + n)) }

// nodeSet is a set of nodes, a bit for each.
type nodeSet uint8

func setOf(nodes ...int) (set nodeSet) {
	for _, n := range nodes {
		set |= 1 << n
	}
	return set
}

func (set nodeSet) has(n int) bool { return set>>n&1 != 0 }

func (set nodeSet) size() int { return bits.OnesCount8(uint8(set)) }

func (set nodeSet) majority() int { return set.size()/2 + 1 }

// decidedBy reports whether the nodes in voters include a majority of the set.
func (set nodeSet) decidedBy(voters nodeSet) bool { return (set & voters).size() >= set.majority() }

// subsets yields the sets that are not empty and have no other nodes.
func (set nodeSet) subsets(yield func(nodeSet) bool) {
	for sub := nodeSet(1); sub <= set; sub++ {
		if sub&^set == 0 && !yield(sub) {
			return
		}
	}
}

func (set nodeSet) String() string {
	var names []string
	for n := range uint8(8) {
		if set.has(int(n)) {
			names = append(names, nodeName(n))
		}
	}
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// sortNodes sorts those nodes of a state that are alike, so that states that differ only in their order are one.
func sortNodes[N interface{ order() uint64 }](nodes []N, alike func(i, j int) bool) {
	for i := range nodes {
		for j := i + 1; j < len(nodes); j++ {
			if alike(i, j) && nodes[j].order() < nodes[i].order() {
				nodes[i], nodes[j] = nodes[j], nodes[i]
			}
		}
	}
}

func all(_, _ int) bool { return true }
