package agreement

import (
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/resp"
)

// What is asked of a node about lists: see internal/lua/lists.lua.
const (
	modeAsk   = "ask"
	modeRead  = "read"
	modeVote  = "vote"
	modeLeave = "leave"
	modeCount = "count"
)

// node is what one node said last of lists, and what it was told.
type node struct {
	id        string                   // the node's; "": not known
	stale     bool                     // it has been away since then: see quorum.ListedNode
	candidate string                   // an id for a node that has none
	member    string                   // in the node's set of clients: see connected
	sent      bool                     // it may be there
	members   []string                 // those of former connections that may be there still
	requests  int                      // how often it was to note or to forget the client, or the member has changed
	digest    string                   // of the lists in use there; "": none are
	used      *usedLists               // those lists; nil: none are, or they have not been read
	reading   bool                     // they are being read
	counts    map[string]int           // clients by their lists, at the last count
	seen      map[string]time.Duration // by their lists: when clients that conflict were last seen, see seenWithin
	heard     time.Time                // when it said this; zero: never
	noted     string                   // the lists that it was told; "": none
	former    string                   // the lists that it was told before the client was refused
	forgot    time.Time                // when it was last found to have forgotten them; zero: never
	confirmed time.Time                // when it confirmed them last
	refused   error                    // why it does not answer, or nil
}

// seenWithin are the ages that are told apart when clients were last seen: at most so long ago, or longAgo. Those that
// are at work are seen every 30 to 45 s, so longer ago than the last of these is a client that has ended without a
// word.
var seenWithin = []time.Duration{
	10 * time.Second, 20 * time.Second, 30 * time.Second, 40 * time.Second, 50 * time.Second,
}

const longAgo time.Duration = -1

// unread reports whether the lists that are in use at the node are not known.
func (at *node) unread() bool { return at.digest != "" && at.used == nil }

// maxTold is how many texts a node tells at most: see lists.lua.
const maxTold = 100

// lacks reports whether the node has forgotten a text: those in use there are known, and it is not among them.
func (at *node) lacks(text string) bool {
	return text != "" && at.used != nil && len(at.used.texts) < maxTold && !slices.Contains(at.used.texts, text)
}

// forget notes that the node has forgotten the lists that it was told.
func (at *node) forget(now time.Time) {
	if at.noted != "" {
		at.noted, at.forgot = "", now
	}
}

// count notes how many clients have the lists that the node was asked about.
func (at *node) count(counts []int) {
	at.counts = nil
	if at.used == nil || len(counts) != len(at.used.texts) {
		return // the lists have changed meanwhile
	}
	at.counts = make(map[string]int)
	for i, text := range at.used.texts {
		at.counts[text] = counts[i]
	}
}

// registration is a node's reply about lists.
type registration struct {
	id, digest string
	texts      []string // if they were read
	counts     []int    // if they were counted
}

func readRegistration(reply any, mode string) (r registration, err error) {
	parts, _ := reply.([]any)
	if len(parts) != 3 {
		return r, resp.Unexpected(reply)
	}
	said, err := redis.Strings(parts[:2], nil)
	if err != nil {
		return r, resp.Unexpected(reply)
	}
	r.id, r.digest = said[0], said[1]
	switch mode {
	case modeRead:
		r.texts, err = redis.Strings(parts[2], nil)
	case modeCount:
		r.counts, err = redis.Ints(parts[2], nil)
	}
	if err != nil {
		return r, resp.Unexpected(reply)
	}
	return r, nil
}
