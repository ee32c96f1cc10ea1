package redlock

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// The register of a name's runs: on each node a short text at {prefix}redlock:once:name that says how many runs have
// begun, and how the last one stands (see [Locker.Once]). It is read and written like this:
//
//   - Only who holds the lock writes, and only beginning with its token. A node refuses a write where it has accepted a
//     larger token for the name, or has a later text, or where the lock is not the writer's.
//   - A write counts once a majority has accepted it. The nodes that have not are given a text that ends a run all the
//     same, when they can be reached: by who wrote it, and by whoever reads it later.
//   - Who has got the lock reads from a majority and takes the latest text. Only nodes count that know its token, or a
//     larger one. What a minority said last it says again in its own name, with the next write.
//
// So whatever counts is seen by every later holder, since two majorities share a node. And what an earlier holder has
// sent but not seen confirmed either was read, and counts from then on; or it comes too late, for the nodes that were
// read had accepted the larger token of who read by then, and refuse. This is a register of the Paxos family, in which
// acquiring the lock is the first phase. A node that has not accepted the reader's token has promised nothing: the
// earlier holder's text may come right after it has said that there is none.
//
// Nodes forget: a token after the retention, a text at its end. What is on its way for longer than that finds nothing
// that speaks against it. So each write says when its text ends, by the nodes' time, and is refused after that: no text
// outlives those of the runs that came after it.

// RunState says how the last run of a job stands.
type RunState string

// The states of a run. One that is begun and whose name nobody holds has crashed, or lost its hold.
const (
	RunNone   RunState = ""       // none has begun, or that is forgotten
	RunBegun  RunState = "begun"  // has begun and not ended, as far as is known
	RunDone   RunState = "done"   // has succeeded
	RunFailed RunState = "failed" // has returned an error, or has panicked
)

// entry is what one node's register says. Texts of the same token have the same number of runs; the
// states' names stand in the order in which they may follow each other.
type entry struct {
	text  string // "": nothing
	token int64
	runs  int
	state RunState
	left  time.Duration // how long the node keeps it
}

func entryText(token int64, runs int, state RunState) string {
	return fmt.Sprintf("%0*d %d %s", tokenLen, token, runs, state)
}

// parseEntry returns the zero entry for an empty text, and false for what no register holds.
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
	if err1 != nil || err2 != nil || runs < 1 || state != RunBegun && state != RunDone && state != RunFailed {
		return entry{}, false
	}
	return entry{text, token, runs, state, left}, true
}

// reading is what the registers of a majority say together.
type reading struct {
	entry         // the latest
	have  int     // how many nodes have just that
	lack  nodeSet // the other nodes that have been read
	at    instant // before that
}

// latest sums up the registers that count. There is one for each node, nil for a node that does not count.
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
			r.have++
			r.left = max(r.left, e.left)
		default:
			r.lack = r.lack.with(i)
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
	hasExhausted           // so many have begun as may, and none succeeded
	unclear                // it takes the lock to know
)

// judge decides by what was read. held says that it was read under the lock, so that no run is under way. limit is the
// most runs that there may be, 0 for no limit.
func (r *reading) judge(held bool, need, limit int) judgement {
	switch {
	case r.state == RunNone:
		return mayRun
	case !held && (r.have < need || r.state == RunBegun):
		return unclear
	case r.state == RunDone:
		return isDone
	case limit > 0 && r.runs >= limit:
		return hasExhausted
	default:
		return mayRun
	}
}
