package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/quorum"
)

// What a node contributed to a call, as error texts have it.
const (
	outcomeGranted   = "granted"
	outcomeOutbid    = "granted, but knows a larger token"
	outcomeAbsent    = "not held here"
	outcomeTaken     = "taken"
	outcomeAbstained = "abstained"
	outcomeFailed    = "failed"
	outcomeAnswered  = "answered"      // of a request that asks for no grant, such as that of Inspect
	outcomeVotes     = "votes"         // of Ready: the node's vote counts
	outcomeLate      = "no answer yet" // the outcome of the call was certain before the node answered
	outcomeUnasked   = "not asked"     // other callers in this process were ahead
)

// NodeError is one node's part in a QuorumError.
type NodeError struct {
	Addr string // the node's address, without user and password
	List string // "old list", "new list" or "both lists", in which the node is; "" without [WithNewNodes]
	// Outcome is what the node said, in words: "granted", "granted, but knows a larger token", "taken", "not held here",
	// "abstained", "failed"; where no grant was asked for, "answered" or "votes"; "no answer yet" if the outcome of the
	// call was certain before, and "not asked" if too many callers of this process were ahead.
	Outcome string
	Err     error // why, if the Outcome does not say it all

	// Of what is taken.
	Name      string        // of LockAll: the first of the names that is taken
	Owner     string        // that holds the lock there, if known
	Label     string        // what that owner's client calls itself, if known: see [WithOwnerLabel]
	Remaining time.Duration // for how long at most, unless the hold is extended; 0: not known
	Ahead     int           // of a call that waits: how many waiters are ahead of it in the node's queue

	AbstainsUntil time.Time // of a node that abstains: when its vote counts; zero: not known

	ours bool // the owner is one of the Locker's
}

// because sets why the node has no vote.
func (e *NodeError) because(err error) {
	e.Err = err
	var abstention *abstainError
	if errors.As(err, &abstention) {
		e.AbstainsUntil = abstention.until
	}
}

// by returns who has the lock, in words; "": unknown.
func (e *NodeError) by() string {
	if e.ours {
		return "this process"
	}
	return shown(cmp.Or(e.Label, e.Owner))
}

// Error returns the node's address and its part in a few words.
func (e NodeError) Error() string {
	var b strings.Builder
	b.WriteString(e.Addr + " ")
	if e.List != "" {
		b.WriteString("(" + e.List + ") ")
	}
	if e.Name != "" {
		b.WriteString(shown(e.Name) + " ")
	}
	b.WriteString(e.Outcome)
	if e.Owner != "" {
		b.WriteString(" by " + e.by())
		if e.Label != "" || e.ours {
			b.WriteString(" (" + shown(e.Owner) + ")")
		}
	}
	if e.Remaining > 0 {
		b.WriteString(", " + brief(e.Remaining) + " left")
	}
	if e.Err != nil {
		b.WriteString(": " + inner(e.Err))
	}
	return b.String()
}

// Unwrap returns Err.
func (e NodeError) Unwrap() error { return e.Err }

// short says in a word why the node has no vote; "": it has voted. more is what else fits into a line, or "".
func (e NodeError) short() (word, more string) {
	switch {
	case e.Outcome == outcomeUnasked, e.Outcome == outcomeLate && e.Err == nil:
		return e.Outcome, ""
	case slices.Contains([]string{outcomeLate, outcomeAbstained, outcomeFailed}, e.Outcome):
		return e.trouble()
	default:
		return "", ""
	}
}

// trouble is short for what keeps the node from voting.
func (e NodeError) trouble() (word, more string) {
	switch kind, text, code := troubleOf(e.Err); kind {
	case "":
		return "no answer", ""
	case "abstains":
		var why *abstainError
		errors.As(e.Err, &why)
		return "abstaining for " + guard.Seconds(why.remaining), ""
	case "clock":
		return "abstaining", text
	case "credentials":
		_, why, _ := strings.Cut(inline(text), "credentials: ")
		return "without credentials", why
	case "login", "reply":
		return code, strings.TrimPrefix(text, code+" ")
	case "twice", "refused":
		return "refused", inline(strings.TrimPrefix(text, ErrNodeRefused.Error()+": "))
	case "odd":
		return outcomeFailed, inline(text)
	case "late":
		return "not heard in time (this process was late)", ""
	case "silent", "no connection":
		return "silent", ""
	case "busy":
		return "busy", ""
	case "name": // with the word: the other nodes may be unreachable for other reasons
		return "unreachable: " + lookedUp(e.Err), ""
	case "local":
		var errno syscall.Errno
		errors.As(e.Err, &errno)
		return "unreachable: " + errno.Error(), ""
	case "down", "no redis", "tls", "hangs up", "certificate", "own certificate":
		if strings.HasPrefix(text, "dial ") { // and then address and reason, of which %+v has more
			return "unreachable", ""
		}
		return "unreachable", inline(text)
	default:
		return e.Outcome, inner(e.Err)
	}
}

// membershipOf says in which lists a node is; "" if there is only one list.
func membershipOf(e *quorum.Electorate, node int) string {
	switch {
	case e.List(1) == 0:
		return ""
	case !e.List(1).Has(node):
		return inOldList
	case !e.List(0).Has(node):
		return inNewList
	default:
		return inBothLists
	}
}

// In which list a node is, while the nodes are being changed: see WithNewNodes.
const (
	inBothLists = "both lists"
	inOldList   = "old list" // the nodes that New got
	inNewList   = "new list" // those of WithNewNodes
)

// lists returns in which lists a node is: the old or only one, the new one.
func (e *NodeError) lists() [2]bool {
	return [...]bool{e.List != inNewList, e.List == inNewList || e.List == inBothLists}
}

// QuorumError says that no majority of nodes granted a request, and what each node answered. It satisfies errors.Is for
// [ErrTaken], [ErrNoQuorum] or [ErrLost], and for the error of the caller's context or [ErrMaxWait] if that ended a
// wait; never for an error of a single node, since one node's timeout is not the caller's.
//
// Its text is one line. With %+v, a line for each node follows. A structured log gets a group: the line as text, those
// of the nodes as nodes.
type QuorumError struct {
	Op      string // "lock", "read-lock", "acquire", "adopt", "extend", "unlock", "once" …: what was called
	Name    string // of the lock; of several locks: as Lock.Name returns it; of a semaphore or of its slot; "": of none
	Need    int    // how many nodes must grant the request; with WithNewNodes, of the list that lacks the most
	Granted int    // how many did; of the same list
	Nodes   []NodeError

	reason  error  // ErrTaken, ErrNoQuorum or ErrLost
	refused bool   // the reason is that a majority refused
	late    bool   // it is none, and may have been one if all had answered in time: this is no verdict
	detail  string // added to the text, or ""
	ctx     error  // what ended the wait, or nil: the error of the caller's context, ErrMaxWait or ErrClosed
}

// verdict is why the last request of this process for a name failed; nil: it did not.
type verdict struct {
	failure *QuorumError
	at      time.Time
}

// verdictAtHead is the last verdict of the callers in a local queue, mostly that of the one at the head.
type verdictAtHead = atomic.Pointer[verdict]

// measure notes how many nodes are needed, and how many of them the given ones are.
func (e *QuorumError) measure(by *quorum.Electorate, granted quorum.Set) {
	_, e.Need, e.Granted = by.Worst(granted)
}

// Error says in one line who holds the lock, or how many voted and why others did not, and what ended the wait.
func (e *QuorumError) Error() string {
	text := "redlock: " + strings.TrimSpace(e.Op+" "+shown(e.Name)) + ": " + inner(e.why())
	words := ": " + e.votesInWords()
	switch {
	case errors.Is(e.why(), ErrTaken):
		words = e.takenInWords()
	case errors.Is(e.why(), ErrLost):
		words = fmt.Sprintf(": %d of %d do not have it", e.count(outcomeTaken, outcomeAbsent), len(e.Nodes))
	}
	switch {
	case e.detail != "" && words == "":
		words = ": " + e.detail
	case e.detail != "":
		words += "; " + e.detail
	}
	text += words
	if e.ctx != nil {
		text += "; " + inner(e.ctx)
	}
	return text
}

// Format implements fmt.Formatter: %+v adds a line for each node.
func (e *QuorumError) Format(f fmt.State, verb rune) {
	text := e.Error()
	switch {
	case verb == 'q':
		text = fmt.Sprintf("%q", text)
	case verb == 'v' && f.Flag('+'):
		for _, n := range e.Nodes {
			text += "\n  " + n.Error()
		}
	}
	_, _ = io.WriteString(f, text) // a fmt.State keeps the error
}

// LogValue implements slog.LogValuer.
func (e *QuorumError) LogValue() slog.Value {
	nodes := make([]string, len(e.Nodes)) // an address as a key would be taken apart at its dots
	for i, n := range e.Nodes {
		nodes[i] = n.Error()
	}
	return slog.GroupValue(slog.String("text", e.Error()), slog.Any("nodes", nodes))
}

// Unwrap returns the reason, and the context's error if that ended the wait.
func (e *QuorumError) Unwrap() []error {
	if e.ctx != nil {
		return []error{e.why(), e.ctx}
	}
	return []error{e.why()}
}

// why returns the reason. An error that a program's test has made has none.
func (e *QuorumError) why() error { return cmp.Or(e.reason, ErrNoQuorum) }

// waitEnded returns the error of a wait: the last attempt's *QuorumError with what ended the wait, or the latter alone.
func waitEnded(last, ended error) error {
	var q *QuorumError
	if !errors.As(last, &q) {
		return ended
	}
	with := *q
	with.ctx = ended
	return &with
}

// ofName returns what nodes said, where it is of one of several names.
func ofName(nodes []NodeError, name string) []NodeError {
	nodes = slices.Clone(nodes)
	for i := range nodes {
		if n := &nodes[i]; n.Outcome == outcomeTaken && n.Name == "" {
			n.Name = name
		}
	}
	return nodes
}

// lastFound returns the error of a call whose last attempt has failed: if that came to no verdict, the one before.
func lastFound(before, failure error) error {
	var last, earlier *QuorumError
	if errors.As(failure, &last) && last.late && errors.As(before, &earlier) && !earlier.late {
		return waitEnded(earlier, last.ctx)
	}
	return failure
}

// count returns how many nodes had one of the outcomes.
func (e *QuorumError) count(outcomes ...string) (n int) {
	for _, node := range e.Nodes {
		if slices.Contains(outcomes, node.Outcome) {
			n++
		}
	}
	return n
}

// holder is what nodes say of who has a lock, or has votes and cannot hold it.
type holder struct {
	name, who string // who: " by …", ": " and an error, or nothing
	nodes     int
	remaining time.Duration
	holds     bool
}

// holders returns those who can hold the lock, and then the others; the ones that most nodes name come first.
func (e *QuorumError) holders() (holders []*holder) {
	for _, n := range e.Nodes {
		if n.Outcome != outcomeTaken {
			continue
		}
		who, holds := "", e.mayHold(&n)
		switch by := n.by(); {
		case n.Err != nil:
			who = ": " + inner(n.Err)
		case by != "" && holds:
			who = " by " + by
		case by != "":
			who = ": votes for " + by
		}
		at := slices.IndexFunc(holders, func(h *holder) bool { return h.name == n.Name && h.who == who })
		if at < 0 {
			at, holders = len(holders), append(holders, &holder{name: n.Name, who: who, holds: holds})
		}
		h := holders[at]
		h.nodes++
		h.remaining = max(h.remaining, n.Remaining)
	}
	slices.SortStableFunc(holders, func(a, b *holder) int {
		switch {
		case a.holds == b.holds:
			return cmp.Compare(b.nodes, a.nodes)
		case a.holds:
			return -1
		default:
			return 1
		}
	})
	return holders
}

// takenInWords says who has the lock, " by web-3/812, 4.1 s left (3 of 5)", and who has votes and cannot hold it.
func (e *QuorumError) takenInWords() string {
	var all []string
	for _, h := range e.holders() {
		text := h.who
		if h.name != "" {
			text = ": " + shown(h.name) + text
		}
		if h.remaining > 0 && h.holds {
			text += ", " + brief(h.remaining) + " left"
		}
		all = append(all, fmt.Sprintf("%s (%d of %d)", text, h.nodes, len(e.Nodes)))
	}
	const most = 3
	if more := len(all) - most; more > 0 {
		all = append(all[:most], fmt.Sprintf("and %d more", more))
	}
	for i := 1; i < len(all); i++ {
		all[i] = " " + strings.TrimLeft(all[i], ": ")
	}
	text := strings.Join(all, ",")
	if absent := e.count(outcomeAbsent); text == "" && absent > 0 {
		text = fmt.Sprintf(": %d of %d do not have it", absent, len(e.Nodes))
	}
	return text
}

// mayHold reports whether the owner that a node names can hold the lock: with the nodes that have not said who has it,
// its nodes are a majority of a list. The votes of a waiter may be fewer, or those of a caller in a tie.
func (e *QuorumError) mayHold(by *NodeError) bool {
	var size, has [2]int
	for _, n := range e.Nodes {
		another := n.Name == by.Name && n.Owner+n.Label != "" && (n.Owner != by.Owner || n.Label != by.Label)
		known := slices.Contains([]string{outcomeGranted, outcomeOutbid, outcomeAbsent}, n.Outcome) ||
			n.Outcome == outcomeTaken && another
		for l, isIn := range n.lists() {
			if isIn {
				size[l]++
			}
			if isIn && !known {
				has[l]++
			}
		}
	}
	return by.Owner+by.Label == "" || has[0] >= quorum.Majority(size[0]) || has[1] >= quorum.Majority(size[1])
}

// reason is why some nodes have not voted.
type reason struct {
	word, more string // more: "" if it is not the same for all nodes
	nodes      []string
}

// reasons returns why nodes have not voted, each reason once.
func (e *QuorumError) reasons() (reasons []*reason) {
	for _, n := range e.Nodes {
		word, more := n.short()
		if word == "" {
			continue
		}
		at := slices.IndexFunc(reasons, func(r *reason) bool { return r.word == word })
		if at < 0 {
			at, reasons = len(reasons), append(reasons, &reason{word: word, more: more})
		}
		why := reasons[at]
		why.nodes = append(why.nodes, n.Addr)
		if why.more != more {
			why.more = ""
		}
	}
	return reasons
}

// votesInWords says who has not voted, and why: "2 of 5 voted, r3:6379 r4:6379 unreachable, r5:6379 silent".
func (e *QuorumError) votesInWords() string {
	reasons, tallies := e.reasons(), e.tallies()
	late := func(r *reason) bool { return r.word == outcomeLate }
	tooFew := slices.ContainsFunc(tallies, func(l listTally) bool { return l.voted+l.late < l.need })
	if tooFew && slices.ContainsFunc(reasons, late) { // without the others, nobody waited for them
		for i := range tallies {
			tallies[i].voted, tallies[i].have = tallies[i].voted+tallies[i].late, "can vote"
		}
	}
	if tooFew || len(reasons) > 1 && e.ctx == nil { // those that have not answered were not needed: the others say why
		reasons = slices.DeleteFunc(reasons, late)
	}
	var parts []string
	for _, l := range tallies {
		parts = append(parts, fmt.Sprintf("%s%d of %d %s", l.name, l.voted, l.size, l.have))
	}
	if e.count(outcomeTaken) > 0 {
		parts = append(parts, strings.Replace("taken"+e.takenInWords(), "taken: votes", "votes", 1))
	}
	for _, why := range reasons {
		part := strings.Join(why.nodes, " ") + " " + why.word
		if why.more != "" && len(reasons) == 1 {
			part += ": " + why.more
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}

// listTally is how the nodes of one list voted.
type listTally struct {
	name       string // with a space behind it; "" if there is only one list
	size, need int
	voted      int
	refused    int // how many of those did not grant it
	late       int // nodes whose answers are still to come
	have       string
}

// tallies returns a tally for each list.
func (e *QuorumError) tallies() []listTally {
	all := []listTally{{have: "voted"}}
	if slices.ContainsFunc(e.Nodes, func(n NodeError) bool { return n.List != "" }) {
		all = []listTally{{name: "old list ", have: "voted"}, {name: "new list ", have: "voted"}}
	}
	for _, n := range e.Nodes {
		word, _ := n.short()
		for l, isIn := range n.lists() {
			if !isIn {
				continue
			}
			all[l].size++
			switch word {
			case "":
				all[l].voted++
				if slices.Contains([]string{outcomeTaken, outcomeOutbid, outcomeAbsent}, n.Outcome) {
					all[l].refused++
				}
			case outcomeLate:
				all[l].late++
			}
		}
	}
	for l := range all {
		t := &all[l]
		t.need = quorum.Majority(t.size)
		if len(all) == 1 {
			t.need = cmp.Or(e.Need, t.need)
		}
		if t.voted >= t.need && t.voted-t.refused < t.need { // enough have voted, so that is not what is wrong
			t.voted, t.have = t.voted-t.refused, "granted it"
		}
	}
	return all
}

// brief returns a duration as people say it: 4.1 s, 250 ms.
func brief(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", max(d, 0).Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
