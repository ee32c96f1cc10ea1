package simtest

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// The lemmas are what exclusion and order are derived from. They are checked at every command on every node and at
// every hold, so that a run finds a broken one even where nothing comes of it. They know what a lock's key and the set
// of tokens are, and what a script's reply says; nothing of how scripts or Lockers come to their decisions.
//
//   - theft: what stands under a lock's key is taken away by its end or by a command that names it, and by nothing
//     else; what stands there for readers, by one of them that stops or is revoked.
//   - false yes: whoever is told yes has the key there at that moment, and the token it proposed stands there; or is
//     among the readers who have the key.
//   - support: as long as a holder trusts its hold, a majority of its nodes has its key, or has it among the readers;
//     and when it is granted, a majority has accepted its token as the largest, so that whoever was granted earlier,
//     and had its own accepted on one of these nodes, has a smaller one. The two majorities need not be the same: on a
//     node that accepted the token the key may have expired since, and another may have taken it, with a larger token.
//     That one is not granted meanwhile, for want of a majority of keys.

// shape says where in a script's arguments for each lock the owner and the token stand, and how many there are.
type shape struct {
	name                string
	width, owner, token int // -1 for none
	// They are for all locks of one who asks; behind them stands how many locks, and how many more arguments.
	once    bool
	columns bool // all owners first, then for each lock the token and the key, then TTLs
	undo    bool // lets go: see undo.go
}

// shapes are the scripts that tell who has a lock.
var shapes = []shape{
	{name: "acquire", width: 2, token: 1, columns: true},
	{name: "acquire_all", width: 3, token: 2, once: true},
	{name: "raise", width: 3, token: 2},
	{name: "adopt", width: 4, token: 2},
	{name: "enqueue", width: 4, token: 2},
	{name: "extend", width: 3, token: -1},
	{name: "read", width: 3, token: -1},
	{name: "keep_reading", width: 2, token: -1},
	{name: "revoke", width: 2, token: -1},
	{name: "stop_reading", undo: true},
	{name: "release", undo: true},
}

// heads are the beginnings of scripts' comments: their names.
var heads = regexp.MustCompile(`(?m)^-- ([a-z_]+): `)

// known are the shapes of scripts by their sources, and by what EVALSHA calls them: worked out once for all runs.
var known struct{ bySource, bySHA sync.Map }

// recognise finds a script's shape by its comment.
func recognise(source string) shape {
	if s, ok := known.bySource.Load(source); ok {
		return s.(shape)
	}
	var is shape
	if found := heads.FindStringSubmatch(source); found != nil {
		for _, s := range shapes {
			if s.name == found[1] || s.undo && strings.HasPrefix(found[1], s.name+"_") {
				is = s
			}
		}
	}
	sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
	known.bySHA.Store(hex.EncodeToString(sum[:]), is)
	known.bySource.Store(source, is)
	return is
}

// watch has the lemmas checked for each name, or for each of its slots.
func (w *world) watch(n *sim.Node) {
	w.keys = append([]string{contested, slotOf(contested, 0)}, names...)
	for _, name := range names {
		for slot := range w.scenario.Permits {
			w.keys = append(w.keys, slotOf(name, slot))
		}
	}
	watched := slices.Clip(w.keys)
	if part := w.scenario.Habits.Part; part[WithValue]+part[SetValue] > 0 {
		for _, key := range w.keys {
			watched = append(watched, valueOf(key))
		}
	}
	n.Watch(watched, w.check)
}

func slotOf(name string, number int) string { return fmt.Sprintf("redlock:permit:%s:%d", name, number) }

// check judges one command by what the keys held before it and what is there after it.
func (w *world) check(c sim.Command, before []string, after sim.Data) {
	s := scriptOf(c)
	w.act(c, s, before, after)
	w.noteHolders(c, before, after)
	w.checkValues(c, before, after)
	for i, key := range w.keys {
		reader := s.name == "stop_reading" || s.name == "revoke"
		if was := before[i]; was != "" && after.Text(key) != was && !(was == marker && reader) &&
			!slices.ContainsFunc(c.Args, func(arg string) bool { return strings.Contains(arg, was) }) {
			w.blame("theft", "%v on %s: %q became %q by a command of %s that does not name it: %s",
				since(c.At), c.Node, was, after.Text(key), c.Client, request(c.Args))
		}
	}
	if len(c.Args) == 3 && c.Args[0] == "script" {
		recognise(c.Args[2]) // SCRIPT LOAD
	} else if s.name != "" && len(c.Args) > 3 {
		keys, argv := keysAndArguments(c)
		for _, key := range keys {
			if token, stands := after.Score("redlock:tokens", key); stands {
				w.accepted.Store(acceptance{c.Node, key, int64(token)}, true)
			}
		}
		if s.name == "acquire_all" && len(keys) == 1 && argv[0] == argv[len(argv)-1] {
			w.count("second questions", 1)
		}
		w.inOrder(c, s, before, after)
		if !s.undo && s.name != "revoke" {
			w.answers(c, s, after)
		}
	}
	w.checkRevoked(c, s, after)
}

// acceptance is a token that has stood on a node for a key.
type acceptance struct {
	node, key string
	token     int64
}

// scriptOf returns the script that a command calls, or none.
func scriptOf(c sim.Command) shape {
	switch {
	case len(c.Args) > 1 && c.Args[0] == "eval":
		return recognise(c.Args[1])
	case len(c.Args) > 1 && c.Args[0] == "evalsha":
		if s, ok := known.bySHA.Load(c.Args[1]); ok {
			return s.(shape)
		}
	}
	return shape{}
}

// marker stands under a key that readers have; who they are stands in a set.
const marker = "readers"

func readersOf(key string) string { return "redlock:read:" + key }

// each returns the arguments about each of the locks.
func (s shape) each(argv []string, locks int) (own [][]string) {
	for i := range locks {
		switch {
		case s.columns:
			own = append(own, []string{argv[i], argv[locks+2*i]})
		case !s.once:
			own = append(own, argv[i*s.width:(i+1)*s.width])
		}
	}
	for s.once && len(own) < locks {
		n, _ := strconv.Atoi(argv[s.width])
		more, _ := strconv.Atoi(argv[s.width+1])
		for range n {
			own = append(own, argv[:s.width])
		}
		argv = argv[s.width+2+more:]
	}
	return own
}

// answers judges what a script said of each lock.
func (w *world) answers(c sim.Command, s shape, after sim.Data) {
	keys, argv := keysAndArguments(c)
	if len(keys) == 0 {
		return
	}
	tokens := c.Args[3+len(keys)]
	arguments := s.each(argv, len(keys))
	for i, key := range keys {
		own := arguments[i]
		if w.liar != nil && gives(c.Reply, i, len(keys)) == 1 && (s.name == "extend" || s.name == "keep_reading") {
			w.repaired.Store(part{c.Node, own[s.owner], key}, true)
		}
		if !slices.Contains(w.keys, key) || !saysYes(c.Reply, i, len(keys)) {
			continue
		}
		owner := own[s.owner]
		has := after.Text(key)
		if _, reads := after.Score(readersOf(key), owner); has == marker && reads &&
			(s.name == "read" || s.name == "keep_reading") {
			continue
		}
		if has != owner {
			w.blame("false yes", "%v on %s: %s told %s of %s that it has %s, which is %q's",
				since(c.At), c.Node, s.name, owner, c.Client, key, has)
		}
		if s.token < 0 || own[s.token] == "" {
			continue
		}
		token, _ := strconv.ParseFloat(own[s.token], 64)
		if stands, _ := after.Score(tokens, key); stands != token {
			w.blame("false yes", "%v on %s: %s told %s of %s that token %.0f is accepted for %s, where %.0f stands",
				since(c.At), c.Node, s.name, owner, c.Client, token, key, stands)
		}
	}
}

// saysYes reads the reply to a script about n locks: their number where all went as usual, else an entry for each.
func saysYes(reply any, i, n int) bool {
	switch r := reply.(type) {
	case int64:
		return r == int64(n)
	case []any:
		if i >= len(r) {
			return false
		}
		if detail, ok := r[i].([]any); ok && len(detail) > 0 {
			return detail[0] == int64(1)
		}
		return r[i] == int64(1)
	}
	return false
}

// supported is called by a holder that has trusted its hold up to this instant.
func (w *worker) supported(lock held, when moment) {
	if w.revokedOwner(lock, w.label) || !w.scenario.Sound || w.scenario.Forgets() {
		return
	}
	for _, list := range lock.kind.lists {
		w.supportedBy(list, lock, when)
	}
}

func (w *worker) supportedBy(list []*sim.Node, lock held, when moment) {
	has, known := 0, 0
	list, need := w.bearing(list)
	for _, n := range list {
		names := strings.Split(lock.Name(), ", ")
		if !slices.ContainsFunc(names, func(name string) bool { return !keeps(n, name, lock) }) {
			has++
		}
		if !slices.ContainsFunc(names, func(name string) bool { return !w.knows(n, name, lock) }) {
			known++
		}
	}
	if has < need {
		w.blame("support", "when %s's hold of %s, token %d, %s at %v, %d of %d nodes had its key",
			w.label, lock.Name(), lock.Token(), when, since(time.Now()), has, len(list))
	}
	if when == granted && known < need {
		w.blame("support", "when %s's hold of %s, token %d, %s at %v, %d of %d nodes had accepted the token",
			w.label, lock.Name(), lock.Token(), when, since(time.Now()), known, len(list))
	}
}

// moment is one in the life of a hold.
type moment string

const (
	granted   moment = "was granted"
	givenBack moment = "was given back"
	ended     moment = "ended"

	overlapped moment = "was overlapped"
	handedOver moment = "was handed over"
	notAdopted moment = "was to be adopted"
	workedOn   moment = "was to be kept for its work"
)

// keeps reports whether the node has the name for the hold.
func keeps(n *sim.Node, name string, lock held) bool {
	holder := n.Do("GET", name)
	return holder == lock.Owner() ||
		lock.Token() == 0 && holder == marker && n.Do("ZSCORE", readersOf(name), lock.Owner()) != nil
}

// knows reports whether the node has accepted the hold's token for the name.
func (w *world) knows(n *sim.Node, name string, lock held) bool {
	_, accepted := w.accepted.Load(acceptance{n.Addr(), name, lock.Token()})
	return lock.Token() == 0 || accepted
}
