package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
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
	code, worst := "-", redlock.SeverityNote
	for _, f := range n.Findings {
		if f.Severity > worst {
			code, worst = f.Code, f.Severity
		}
	}
	return code
}

// brief is enough of an owner to tell it from others, and to see that the nodes agree.
func brief(owner string) string {
	owner = printable(owner)
	const digits = 8 // the last ones are random
	if len(owner) <= digits+4 {
		return cmp.Or(owner, "-")
	}
	return "…" + owner[len(owner)-digits:]
}

// printable quotes what could garble the terminal: a holder of another library may call itself anything.
func printable(owner string) string {
	if quoted := strconv.Quote(owner); quoted != `"`+owner+`"` {
		return quoted
	}
	return owner
}

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
