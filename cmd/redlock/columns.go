package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/printable"
)

// What stands in the columns that doctor, top and status have in common. A dash is what is not known or does not apply.

// voting counts the nodes that vote.
func voting(nodes []redlock.NodeStatus) int {
	count := 0
	for _, n := range nodes {
		if n.Err == nil {
			count++
		}
	}
	return count
}

// nodeList is one list of nodes: the only one, or the old or the new one while the nodes are being changed.
type nodeList struct {
	name  string // with a colon and a space behind it; "": there is only one
	nodes []redlock.NodeStatus
}

func (l nodeList) need() int      { return len(l.nodes)/2 + 1 }
func (l nodeList) majority() bool { return voting(l.nodes) >= l.need() }

// listsOf returns the lists in which the nodes are.
func listsOf(nodes []redlock.NodeStatus) []nodeList {
	lists := []nodeList{{name: "old list: "}, {name: "new list: "}}
	for _, n := range nodes {
		switch n.List {
		case "":
			return []nodeList{{"", nodes}}
		case "old list":
			lists[0].nodes = append(lists[0].nodes, n)
		case "new list":
			lists[1].nodes = append(lists[1].nodes, n)
		case "both lists":
			lists[0].nodes, lists[1].nodes = append(lists[0].nodes, n), append(lists[1].nodes, n)
		}
	}
	return lists
}

// votesInWords says how many nodes vote, of each list.
func votesInWords(nodes []redlock.NodeStatus) string {
	var parts []string
	for _, l := range listsOf(nodes) {
		parts = append(parts, l.inWords())
	}
	return strings.Join(parts, ", ")
}

func (l nodeList) inWords() string {
	verb := "nodes vote"
	if len(l.nodes) == 1 {
		verb = "node votes"
	}
	return fmt.Sprintf("%s%d of %d %s", l.name, voting(l.nodes), len(l.nodes), verb)
}

// withList is a node's address, and in which list it is where there are two.
func withList(n redlock.NodeStatus, addr string) string {
	if n.List == "" {
		return addr
	}
	return fmt.Sprintf("%s (%s)", addr, n.List)
}

func votes(n redlock.NodeStatus) string {
	switch {
	case n.Err == nil:
		return "yes"
	case !n.AbstainsUntil.IsZero():
		return "in " + span(time.Until(n.AbstainsUntil)+time.Second)
	default:
		return "no"
	}
}

// withScheme is a node's address and whether it is to speak TLS.
func withScheme(n redlock.NodeStatus) string {
	switch {
	case strings.Contains(n.Addr, "://"):
		return n.Addr
	case n.TLS:
		return "rediss://" + n.Addr
	default:
		return "redis://" + n.Addr
	}
}

// role calls a replica what everybody else calls it.
func role(n redlock.NodeStatus) string {
	if n.Role == "slave" {
		return "replica"
	}
	return cmp.Or(n.Role, "-")
}

func clock(n redlock.NodeStatus) string {
	if n.RoundTrip == 0 {
		return "-"
	}
	return fmt.Sprintf("%+.1fms", float64(n.ClockOffset.Microseconds())/1000)
}

func trip(n redlock.NodeStatus) string {
	if n.RoundTrip == 0 {
		return "-"
	}
	return n.RoundTrip.Round(10 * time.Microsecond).String()
}

// trouble is the code of the worst finding; docs/operations.md explains it.
func trouble(n redlock.NodeStatus) string {
	code, worst := finding.Code("-"), finding.Note
	for _, f := range n.Findings {
		if f.Severity > worst {
			code, worst = f.Code, f.Severity
		}
	}
	return string(code)
}

// brief is enough of an owner to tell it from others, and to see that the nodes agree.
func brief(owner string) string {
	const digits = 8 // the last ones are random
	if len(owner) <= digits+4 {
		return cmp.Or(owner, "-")
	}
	return "…" + owner[len(owner)-digits:]
}

// whole is all of an owner, or of a value, unless it is none of ours: whatever stands at a lock's key is taken for it.
func whole(text string) string { return cmp.Or(printable.Beginning(text, printable.Most), "-") }

func token(t int64) string {
	if t == 0 {
		return "-"
	}
	return strconv.FormatInt(t, 10)
}

// left is for how long a node keeps a lock.
func left(d time.Duration) string {
	switch {
	case d < 0:
		return "for ever"
	case d > 0 && d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return span(d)
}

// span is a time that nobody needs to know to the millisecond.
func span(d time.Duration) string {
	switch {
	case d <= 0:
		return "-"
	case d > 48*time.Hour:
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	return d.Truncate(time.Second).String()
}
