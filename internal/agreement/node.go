package agreement

import (
	"slices"
	"strings"
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

// node is what one node said last of lists, what it was told, and what it is asked.
type node struct {
	// Which node it is.
	id        string    // the node's; "": not known
	renames   int       // how often that has become another one, without ten minutes in between
	renamed   time.Time // when it last has
	stale     bool      // it has been away since then: see quorum.ListedNode
	candidate string    // an id for a node that has none

	// By what the node knows this client among those that have the same lists.
	member   string   // in the node's set of clients: see connected
	sent     bool     // it may be there
	members  []string // those of former connections that may be there still
	requests int      // how often it was to note or to forget the client, or the member has changed

	// What the node was told of this client's lists.
	noted     string    // the lists that it was told; "": none
	former    string    // the lists that it was told before the client was refused
	forgot    time.Time // when it was last found to have forgotten them; zero: never
	confirmed time.Time // when it confirmed them last

	// What the node said of the lists of all clients.
	heard   time.Time                // when it said this; zero: never
	refused error                    // why it does not answer, or nil
	digest  string                   // of the lists in use there; "": none are
	used    *usedLists               // those lists; nil: none are, or they have not been read
	counted bool                     // what it said last was a count of those that have what is in use
	counts  map[string]int           // clients by their lists, at the last count
	ages    map[string]time.Duration // by their lists: for how long others have used them, at the last count
	seen    map[string]time.Duration // by their lists: when clients that conflict were last seen, see seenWithin
	// doubts are lists that conflict unless a node has lost its data lately: when they were first heard of.
	doubts map[[20]byte]time.Time

	// What the node is being asked, and when it may be asked again.
	reading   bool      // the lists in use there are being read
	recounted time.Time // see recounts
}

// seenWithin are the ages that are told apart when clients were last seen: at most so long ago, or longAgo. Clients at
// work are seen every 30 to 45 s, so one that was seen longer ago than the last of these has ended without a word.
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

// count notes how many clients have the lists that the node was asked about, and for how many ms there have been some,
// if this is not the only one. A client of an older version may have any lists of which no client is known.
func (at *node) count(of []string, counts []int) {
	at.counts, at.ages = nil, nil
	sets := len(of) + 1
	if len(counts) != 2*sets {
		return
	}
	at.counts, at.ages = make(map[string]int), make(map[string]time.Duration)
	for i, text := range of {
		clients := counts[i]
		if clients == 0 {
			clients = counts[len(of)]
		}
		at.counts[text] = min(max(0, clients), maxCount)
		if counts[i] > 1 || counts[i] == 1 && text != at.noted {
			at.ages[text] = time.Duration(min(max(0, counts[sets+i]), maxCount)) * time.Millisecond
		}
	}
}

// A node may say anything. What no node of ours would say is no answer, and a number counts up to a limit.
const (
	maxID    = 40       // the length of an identity, or of a digest
	maxTexts = 1 << 17  // of all texts together: a hundred have 30 KiB where each has two lists of five nodes
	maxCount = 10000000 // clients, or ms
)

// rename reports whether the node's word counts that it has another identity: five times, and then once a minute. Each
// time this client registers anew, everywhere, and everybody else reads what it registered.
func (at *node) rename(now time.Time) bool {
	if now.Sub(at.renamed) >= 10*time.Minute {
		at.renames = 0
	}
	if at.renames >= 5 && now.Sub(at.renamed) < time.Minute {
		return false
	}
	at.renames, at.renamed = at.renames+1, now
	return true
}

// registration is a node's reply about lists.
type registration struct {
	id, digest string
	texts      []string // if they were read
	of         []string // the texts to which counts belongs
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
	length := 0
	switch mode {
	case modeRead:
		r.texts, err = redis.Strings(parts[2], nil)
		for _, text := range r.texts {
			length += len(text)
		}
	case modeCount:
		r.counts, err = redis.Ints(parts[2], nil)
	}
	// An identity becomes a word of this client's lists, which others read.
	if err != nil || max(len(r.id), len(r.digest)) > maxID || strings.ContainsAny(r.id, "?@| \n\r") ||
		len(r.texts) > maxTold || length > maxTexts {
		return r, resp.Unexpected(reply)
	}
	return r, nil
}
