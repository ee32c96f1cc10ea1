package simtest

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// What lets go of a lock is the last that is said about it. The lemmas of this file, checked at every command on every
// node:
//
//   - behind its undo: once a node has let go of a name for an owner, nothing that comes down the same connection asks
//     for the name for that owner. An owner is for one hold or one wait, and requests keep their order on a connection:
//     so it is what somebody has sent again, and nobody would ever undo it.
//   - brought back: nor does an extension that was under way on another connection set the key again, where the node
//     knew the hold's token when it let go. It blocks a lock that nobody has.
//   - not its own: nobody lets go of what another client has asked for, unless it was handed over.
//   - handed on: whose hold was handed over with a ticket keeps what it has on the nodes, and what they still give it,
//     until it is adopted or has run out: nobody lets go of it.
//
// A node that forgot what it was told is excused, and so is one that has dropped the token since, as it drops all that
// are older than the retention.

// undone is what the nodes have let go of.
type undone struct {
	mu   sync.Mutex // protects the field below
	seen map[part]*letGo
}

// part is what one owner has of one lock on one node.
type part struct{ node, owner, key string }

// letGo is how a part was let go of.
type letGo struct {
	conns []int64 // on which connections
	known float64 // the largest token that the node knew behind it
}

// forget is called when a node has lost what it was told.
func (u *undone) forget(n *sim.Node) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for p, at := range u.seen {
		if p.node == n.Addr() {
			at.known = 0
		}
	}
}

// asks are the scripts that may give a lock to the owner who asks.
var asks = []string{"acquire", "acquire_all", "adopt", "enqueue", "extend", "read", "keep_reading"}

// inOrder judges what a script was asked to do, by what was let go of before.
func (w *world) inOrder(c sim.Command, s shape, before []string, after sim.Data) {
	keys, argv := keysAndArguments(c)
	if _, failed := c.Reply.(sim.Error); failed || len(keys) == 0 {
		return // and nothing was done
	}
	tokens := c.Args[3+len(keys)]
	if s.undo {
		owners := ownersIn(argv)
		if len(owners) != len(keys) {
			w.blame("lemma", "%s lets go of %d locks for %d owners: bring its shape up to date: %s",
				s.name, len(keys), len(owners), request(c.Args))
			return
		}
		for i, key := range keys {
			known, _ := after.Score(tokens, key)
			w.letsGo(c, part{c.Node, owners[i], key}, known)
		}
		return
	}
	if s.name == "raise" {
		for _, own := range s.each(argv, len(keys)) {
			w.asksWith(own[s.owner], own[s.token])
		}
	}
	if !slices.Contains(asks, s.name) {
		return
	}
	w.undone.mu.Lock()
	defer w.undone.mu.Unlock()
	for i, own := range s.each(argv, len(keys)) {
		w.askedBy.LoadOrStore(own[s.owner], c.Client)
		if s.token >= 0 {
			w.asksWith(own[s.owner], own[s.token])
		}
		at := w.undone.seen[part{c.Node, own[s.owner], keys[i]}]
		if at == nil {
			continue
		}
		if slices.Contains(at.conns, c.Conn) {
			w.blame("behind its undo", "%v on %s: %s of %s asks for %s for %s on the connection on which that was let go of",
				since(c.At), c.Node, s.name, c.Client, keys[i], own[s.owner])
		}
		if s.name != "extend" || own[extendsToken] == "" {
			continue
		}
		token, _ := strconv.ParseFloat(own[extendsToken], 64)
		known, _ := after.Score(tokens, keys[i]) // smaller than it was: dropped since, when older than the retention
		if was := slices.Index(w.keys, keys[i]); was >= 0 && before[was] == "" && after.Text(keys[i]) == own[s.owner] &&
			at.known >= token && known >= at.known {
			w.blame("brought back",
				"%v on %s: extend of %s sets %s to %s again, token %.0f, where that was let go of and %.0f known",
				since(c.At), c.Node, c.Client, keys[i], own[s.owner], token, at.known)
		}
	}
}

// extendsToken is where the token stands in the arguments of an extension.
const extendsToken = 2

func (w *world) letsGo(c sim.Command, p part, known float64) {
	ticket, handed := w.tickets.Load(p.owner)
	if handed {
		if until := ticket.(time.Time); c.At.Before(until) {
			w.blame("handed on", "%v on %s: %s lets go of %s for %s, whose hold was handed over, until %v",
				since(c.At), c.Node, c.Client, p.key, p.owner, since(until))
		}
		known = 0 // who lets go in the end, its adopter, does not know whether it was extended
	}
	if by, asked := w.askedBy.Load(p.owner); asked && !handed && by != c.Client {
		w.blame("not its own", "%v on %s: %s lets go of %s for %s, for which %s has asked",
			since(c.At), c.Node, c.Client, p.key, p.owner, by)
	}
	w.undone.mu.Lock()
	defer w.undone.mu.Unlock()
	at := w.undone.seen[p]
	if at == nil {
		at = &letGo{}
		w.undone.seen[p] = at
	}
	at.known = known
	if !slices.Contains(at.conns, c.Conn) {
		at.conns = append(at.conns, c.Conn)
	}
}

// keysAndArguments takes the call of a script apart.
func keysAndArguments(c sim.Command) (keys, argv []string) {
	n, err := strconv.Atoi(c.Args[2])
	if err != nil || n < 2 || n+3 > len(c.Args) {
		return nil, nil
	}
	return c.Args[3 : 3+n-1], c.Args[3+n:]
}

// ownersIn returns the owners that are let go of, one for each lock. Places in queues, which have an owner in them and
// a channel, are none.
func ownersIn(argv []string) (owners []string) {
	for _, arg := range argv {
		for word := range strings.FieldsSeq(arg) {
			if !wholeUUID.MatchString(word) {
				break
			}
			owners = append(owners, word)
			if strings.Contains(arg, ":wake:") {
				owners = owners[:len(owners)-1]
				break
			}
		}
	}
	return owners
}

var wholeUUID = regexp.MustCompile("^" + uuids.String() + "$")
