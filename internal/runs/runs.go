// Package runs is about the register of a job's runs: on each node a short text that says how many runs have begun,
// and in which state the last one is. It reads these texts, and decides what those of several nodes amount to.
//
// It knows texts and which nodes count, as values. It must not know how they are read or written, what the time is, nor
// who has the lock. Its decisions rest on how its callers read and write (docs/adr/0008-register-of-runs.md):
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
// nodes that were read had accepted the reader's larger token by then, and refuse it. A node that has not accepted that
// has promised nothing: it may accept the earlier holder's entry right after it has replied that there is none.
//
// Nodes forget a token after the retention, and an entry at its end. So that a write which is on its way for longer is
// refused, too, each says when its entry ends: no entry outlives those of later runs.
package runs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// The states of the last run.
const (
	Begun  = "begun"
	Done   = "done"
	Failed = "failed"
	// Forgotten is in an entry that was written in place of all runs before it. It says what a missing entry says; but a
	// missing one would let an older one, on a node that was out of reach, count again.
	Forgotten = "forgotten"
	// NotBegun takes the last run back: what it should have carried out was never started. It is written in place of its
	// Begun, so with the same token and number, and says what an entry of the runs before says.
	NotBegun = "not-begun"
)

// ErrNotBegun is what a job's function returns when it has done nothing and never will: the run counts no more.
var ErrNotBegun = errors.New("not begun")

// Entry is what one node's register says. A later entry has a greater text: entries of the same token have the same
// number of runs, and the name of a state sorts before those of the states that may follow it.
type Entry struct {
	Text  string        // "": no entry
	Token int64         // of the hold that wrote it
	Runs  int           // how many have begun, the last one included, and were not taken back
	State string        // "": no run has begun, or all are forgotten
	Left  time.Duration // how long the node still keeps it
}

// tokenLen is how many digits a token has in a text, so that texts sort as their tokens do.
const tokenLen = 16

// Text returns the text of an entry.
func Text(token int64, runs int, state string) string {
	return fmt.Sprintf("%0*d %d %s", tokenLen, token, runs, state)
}

// Parse returns the zero Entry for an empty text, and false for a text that is not a register's.
func Parse(text string, left time.Duration) (Entry, bool) {
	if text == "" {
		return Entry{}, true
	}
	parts := strings.Split(text, " ")
	if len(parts) != 3 || len(parts[0]) != tokenLen {
		return Entry{}, false
	}
	token, err1 := strconv.ParseInt(parts[0], 10, 64)
	runs, err2 := strconv.Atoi(parts[1])
	if err1 != nil || err2 != nil || token < 0 || token >= 1<<53 || Text(token, runs, parts[2]) != text {
		return Entry{}, false // or another form of it, which does not sort as its token does
	}
	state := parts[2]
	if state == NotBegun && runs > 1 {
		runs, state = runs-1, Failed // or none had begun after it
	}
	switch state {
	case Begun, Done, Failed:
		return Entry{text, token, runs, state, left}, runs >= 1
	case Forgotten:
		return Entry{Text: text, Token: token, Left: left}, runs == 0
	case NotBegun:
		return Entry{Text: text, Token: token, Left: left}, runs == 1
	default:
		return Entry{}, false
	}
}

// Reading is the result of reading the registers of a majority.
type Reading struct {
	Entry            // the latest
	Have  quorum.Set // the nodes that have exactly this entry
	Lack  quorum.Set // the other nodes that were read
}

// Latest combines the registers that count: one for each node, nil for a node that does not count.
func Latest(of []*Entry) (r Reading) {
	for _, e := range of {
		if e != nil && e.Text > r.Text {
			r.Entry = *e
		}
	}
	for i, e := range of {
		switch {
		case e == nil:
		case e.Text == r.Text:
			r.Have = r.Have.With(i)
			r.Left = max(r.Left, e.Left)
		default:
			r.Lack = r.Lack.With(i)
		}
	}
	return r
}

// Settled reports whether a read under the lock would say the same: a majority says so, and no run is in progress.
func (r *Reading) Settled(e *quorum.Electorate) bool { return e.Suffice(r.Have) && r.State != Begun }

// Final returns the state in which the runs end, by a reading that is settled or made under the lock: Done if one has
// succeeded, Failed if limit of them have begun and none has succeeded (0: no limit), and "" if another may begin.
func (r *Reading) Final(limit int) string {
	switch {
	case r.State == Done:
		return Done
	case limit > 0 && r.Runs >= limit:
		return Failed
	default:
		return ""
	}
}
