// Package finding has what an administrator should know about a node: see redlock.NodeStatus. [This page] explains
// each code.
//
// [This page]: https://github.com/quorumlock/redlock/blob/main/docs/operations.md
package finding

import "fmt"

// Finding is something to know about a node, or about all nodes together.
type Finding struct {
	Code     Code
	Severity Severity
	Text     string // what was found
	Remedy   string // what to change; "": Text says it
}

// Severity says how much a finding matters.
type Severity int

// The severities.
const (
	Note        Severity = iota // as intended, but good to know
	Degraded                    // locks are safe, with less to spare
	Unavailable                 // no lock can be granted: no majority votes, or other clients' lists conflict
	Unsafe                      // a lock may be granted twice
)

// String returns the word: "note", "degraded", "unavailable" or "unsafe".
func (s Severity) String() string {
	if words := [...]string{"note", "degraded", "unavailable", "unsafe"}; s >= 0 && int(s) < len(words) {
		return words[s]
	}
	return fmt.Sprintf("Severity(%d)", int(s))
}

// Code says what was found. A reply with which a node refuses requests has a code of its own, such as "reply-oom".
type Code string

// The codes. What keeps a node from voting comes first.
const (
	NotRedis    Code = "not-redis"
	Certificate Code = "certificate"
	TLS         Code = "tls"
	Unreachable Code = "unreachable"
	Silent      Code = "silent"
	Clock       Code = "clock"
	Abstains    Code = "abstains"
	Twice       Code = "twice"
	Refused     Code = "refused"
	Credentials Code = "credentials"

	InfoRefused    Code = "info-refused"
	ConfigRefused  Code = "config-refused"
	Record         Code = "record"
	Evicts         Code = "evicts"
	EvictionPolicy Code = "eviction-policy"
	Memory         Code = "memory"
	Rewrite        Code = "rewrite"
	Fsync          Code = "fsync"
	Timeout        Code = "timeout"
	Settings       Code = "settings"
	UndeclaredKeys Code = "undeclared-keys"
	Lists          Code = "lists"
	ListsRefused   Code = "lists-refused"
	Uptime         Code = "uptime"
	TokenAhead     Code = "token-ahead"
	Promoted       Code = "promoted"
)
