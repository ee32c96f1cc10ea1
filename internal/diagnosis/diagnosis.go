// Package diagnosis says what an administrator should know about a node: facts about it in, findings out.
//
// It knows what each fact means for locks, how bad that is, and what to change. It must not know how the facts were
// gathered: it has no connections and no clocks, and asks nobody.
//
// findings.go is a table with a row for each finding; testdata/findings.txt shows what each says. A new finding is a
// row, a scenario there and a line in docs/operations.md, and a field of Facts if it goes by something new.
package diagnosis

import "time"

// Facts is what is known about a node. Of what was not asked, or no longer holds, it has zero values.
type Facts struct {
	// What keeps the node from voting.
	Trouble string // its kind, a word of the table in findings.go; "": the node votes
	Error   string // in words
	Reply   string // the code of the error reply, if it is one
	Odd     string // the last reply that was not of the kind that its command has; "": none

	// What the client was told to put up with.
	MayRefuseInfo, MayEvict bool

	// What the node says of itself. A refusal is in words; "": there is none.
	InfoRefused, ConfigRefused string
	Role                       string
	Promoted                   bool          // has been a replica, or has had one
	Uptime                     time.Duration // negative if its clock was set back by more
	AppendOnly                 bool
	Fsync, NoFsyncOnRewrite    string // appendfsync and no-appendfsync-on-rewrite; "": unknown
	UsedMemory, MaxMemory      int64  // bytes; 0: unknown, no limit
	Policy                     string // maxmemory-policy; "": unknown
	IdleTimeout, ProbePause    int64  // in s: when it closes an idle connection, 0: never; the longest between two probes
	RecordKey, Unkept          string // of the node record, and why that cannot be kept; "": it is

	// What scripts may not do there, as the node's error reply says; "": they may do all.
	ScriptRefused, ScriptReply string // the reply in words, and its code
	Undeclared                 bool   // the reason is that they use keys that they do not declare
	Strange                    string // keys of ours that another program has written over; "": none
	Barred                     bool   // like this one, so many nodes refuse what each lock needs that no majority is left

	// The settings of other clients: how they differ; "": they do not.
	Settings, SameSettings string // the difference, and what to make the same
	SettingsUnsafe         bool   // two can hold one lock

	// The lists of nodes with which clients vote.
	Own          [][]string        // the addresses in this client's: one list, or the old and the new one
	OwnInWords   string            // the same, for a text
	Down         map[string]string // why nodes in them cannot be reached, by address
	Registered   bool              // this client works
	Clients      []Clients         // by their lists, this client's own among them
	Clash        bool              // two of those lists do not exclude each other
	ListsRefused string            // why the node does not tell lists; "": it does

	// The node's largest token, or its floor, if it is far ahead of the nodes' clocks; 0: it is not.
	Token      int64
	TokenAhead time.Duration
	TokenAlone bool   // certainly too few nodes have such a token for a lock to have had it
	TokenLast  bool   // there is no larger one
	FloorKey   string // where a token is written, on all nodes, so that those up to it count no more
}

// Clients are clients that have the same lists of nodes.
type Clients struct {
	Lists     [][]string // the addresses: one list, or the old and the new one
	InWords   string     // the same, for a text
	Conflict  bool       // their lists and this client's do not exclude each other
	Elsewhere bool       // some address leads them to another node than it leads this client to
	Gone      bool       // none has been seen for so long that they are not at work any more
	Seen      int        // in s, how long ago one was last seen: at most, or at least if they are gone; 0: just now
}
