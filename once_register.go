package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// The register of a name's runs: on each node a short entry at {prefix}redlock:once:name that says how many runs have
// begun, and in which state the last one is (see [Locker.Once]). It is read and written like this:
//
//   - Only the holder of the lock writes, and each entry begins with the hold's token. A node refuses a write if it has
//     accepted a larger token for the name, if it has a later entry, or if the writer does not have the lock there.
//   - A write counts once a majority has accepted it. If the entry ends a run, the other nodes get it, too, when they
//     can be reached: from its writer, and from every client that reads it later.
//   - A new holder reads from a majority and takes the latest entry. Only nodes count that know the holder's token or a
//     larger one. If only a minority had that entry, the holder's next write repeats it with the holder's own token.
//
// So every entry that counts is read by every later holder, since two majorities share a node. A write that an earlier
// holder has sent but not seen confirmed either was read, and counts from then on; or it comes too late, since the
// nodes that were read had accepted the reader's larger token by then, and refuse it. This is a register of the Paxos
// family: acquiring the lock is the first phase. A node that has not accepted the reader's token has promised nothing:
// it may accept the earlier holder's entry right after it has replied that there is none.
//
// Nodes forget: a token after the retention, an entry at its end. No node would refuse a write that is on its way for
// longer than that. So each write says when its entry ends, by the nodes' time, and is refused after that: no entry
// outlives those of the runs that came after it.

// RunState is the state of the last run of a job.
type RunState string

// The states of a run. A run in the state [RunBegun] whose name has no holder has crashed, or lost its hold.
const (
	RunNone   RunState = ""       // no run has begun, or its entry has ended
	RunBegun  RunState = "begun"  // has begun and not ended, as far as is known
	RunDone   RunState = "done"   // has succeeded
	RunFailed RunState = "failed" // has returned an error, or has panicked
)

// runsForgotten is the state in an entry that was written in place of all runs before it, by [Locker.Forget]. It says
// what a missing entry says; but a missing one would let an older one, on a node that was out of reach, count again.
const runsForgotten RunState = "forgotten"

// Runs is what is known about a name's runs; see [Locker.Once].
type Runs struct {
	Begun     int           // how many have begun, the last one included
	Last      RunState      // the state of the last one
	Token     int64         // the token of the hold that wrote this last
	Remaining time.Duration // for how long the nodes keep this
}

// entry is one node's register. A later entry has a greater text: entries of the same token have the same number of
// runs, and the name of a state sorts before those of the states that may follow it.
type entry struct {
	text  string // "": no entry
	token int64
	runs  int
	state RunState
	left  time.Duration // how long the node still keeps it
}

func entryText(token int64, runs int, state RunState) string {
	return fmt.Sprintf("%0*d %d %s", tokenLen, token, runs, state)
}

// parseEntry returns the zero entry for an empty text, and false for a text that is not a register's.
func parseEntry(text string, left time.Duration) (entry, bool) {
	if text == "" {
		return entry{}, true
	}
	parts := strings.Split(text, " ")
	if len(parts) != 3 || len(parts[0]) != tokenLen {
		return entry{}, false
	}
	token, err1 := strconv.ParseInt(parts[0], 10, 64)
	runs, err2 := strconv.Atoi(parts[1])
	state := RunState(parts[2])
	if err1 != nil || err2 != nil {
		return entry{}, false
	}
	switch state {
	case RunBegun, RunDone, RunFailed:
		return entry{text, token, runs, state, left}, runs >= 1
	case runsForgotten:
		return entry{text: text, token: token, left: left}, runs == 0
	default:
		return entry{}, false
	}
}

// known returns what the entry says of runs.
func (e *entry) known() Runs {
	if e.runs == 0 {
		return Runs{}
	}
	return Runs{e.runs, e.state, e.token, e.left}
}

// reading is the result of reading the registers of a majority.
type reading struct {
	entry            // the latest
	have  quorum.Set // the nodes that have exactly this entry
	lack  quorum.Set // the other nodes that were read
	at    instant    // just before the read
}

// latest combines the registers that count: one for each node, nil for a node that does not count.
func latest(of []*entry) (r reading) {
	for _, e := range of {
		if e != nil && e.text > r.text {
			r.entry = *e
		}
	}
	for i, e := range of {
		switch {
		case e == nil:
		case e.text == r.text:
			r.have = r.have.With(i)
			r.left = max(r.left, e.left)
		default:
			r.lack = r.lack.With(i)
		}
	}
	return r
}

// judgement says whether another run may begin.
type judgement uint8

// The judgements.
const (
	mayRun       judgement = iota
	isDone                 // a run has succeeded
	hasExhausted           // all runs that are allowed have begun, and none has succeeded
	unclear                // only a read under the lock can tell
)

// judge returns whether another run may begin. held: the registers were read under the lock, so no run is in progress.
// limit is the maximum number of runs, 0 for no limit.
func (r *reading) judge(held bool, e *quorum.Electorate, limit int) judgement {
	switch {
	case r.state == RunNone:
		return mayRun
	case !held && (!e.Suffice(r.have) || r.state == RunBegun):
		return unclear
	case r.state == RunDone:
		return isDone
	case limit > 0 && r.runs >= limit:
		return hasExhausted
	default:
		return mayRun
	}
}
