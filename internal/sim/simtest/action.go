package simtest

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Action is what a node did with the first name, or what a client concluded: the model in docs/spec must be able to do
// the same. Actions are kept where Scenario.Actions says so; see ActionsScenario.
type Action struct {
	// What is the name of a script that tells who has a lock, or: "release and leave" the queue; "hand over" by a release
	// or to an older waiter, which stands behind it; "pass over" of a waiter that is gone; "trim", of the name's token;
	// "lose", of the node's data; "restart"; "hold", where a client was granted the lock.
	What  string
	Node  int           // in the order of the addresses
	At    time.Duration // since the run began
	Clock int64         // the node's, in ms
	Owner string        // who asks, or has been granted the lock
	To    string        // to whom the lock is handed over
	Token float64       // what is proposed, what a release makes known, or the hold's; 0: none
	TTL   int64         // in ms
	Said  Answer
	// What the node has for the name behind the step, and the floor, if the step looks at that.
	Has   string
	Entry float64
	Floor float64
}

// Answer is what a script answered about the name.
type Answer struct {
	Code   int64 // the first number, or the only one
	Known  float64
	Holder string
}

// ActionsScenario returns a scenario of locks alone, in an ordinary world, whose actions are kept.
func ActionsScenario(seed uint64) Scenario {
	s := ordinary(seed)
	s.Actions, s.Nodes, s.Names, s.Copied = true, 3, 1, false
	s.Habits.Long, s.Habits.Watchers = 0, 0
	s.Habits.without(RLock, ForceUnlock, Adopt, WithValue, SetValue, Inspect, Check, Status, WithoutFencing)
	known := []string{
		"delay", "hold", "drop", "cut", "reset", "refuse", "pause", "crash", "script flush", "slow drift", "amnesia",
		"strand",
	}
	s.Faults = slices.DeleteFunc(s.Faults, func(f fault) bool { return !slices.Contains(known, f.name) })
	s.Sound = true
	return s
}

func (w *world) keepAction(a Action) {
	a.At = since(time.Now())
	w.mu.Lock()
	w.result.Actions = append(w.result.Actions, a)
	w.mu.Unlock()
}

func (w *world) number(addr string) int {
	return slices.IndexFunc(w.nodes, func(n *sim.Node) bool { return n.Addr() == addr })
}

// forgot and restarted are called by faults.
func (w *world) forgot(n *sim.Node) {
	w.at(n, "lose")
	if w.scenario.Actions {
		w.queues[w.number(n.Addr())] = queue{first: map[string]float64{}}
	}
}

func (w *world) restarted(n *sim.Node) { w.at(n, "restart") }

func (w *world) at(n *sim.Node, what string) {
	if w.scenario.Actions {
		w.keepAction(Action{What: what, Node: w.number(n.Addr())})
	}
}

// holdsFrom is called by a client that was granted a lock.
func (w *world) holdsFrom(wanted []string, lock held) {
	if w.scenario.Actions && slices.Contains(wanted, names[0]) {
		w.keepAction(Action{What: "hold", Owner: lock.Owner(), Token: float64(lock.Token())})
	}
}

// act keeps what a command did with the first name.
func (w *world) act(c sim.Command, s shape, before []string, after sim.Data) {
	if !w.scenario.Actions {
		return
	}
	is := w.asked(c, s, after)
	was, had := before[slices.Index(w.keys, names[0])], w.queues[is.Node].entry
	w.queues[is.Node].entry = is.Entry
	again := is.What != "" && !s.undo && s.name != "extend" && is.Said.Code == 1 && is.Token <= had
	if is.Entry < had || again { // dropped by trim.lua, or with the whole set, at its end
		w.keepAction(Action{What: "trim", Node: is.Node, Clock: is.Clock, Has: was})
		had = 0
	}
	free := was == "" || s.undo && was == is.Owner
	switch {
	case is.What == "":
	case free && (s.name == "release" || s.name == "enqueue"):
		w.handsOver(is, s.undo, had, after)
	default:
		w.keepAction(is)
	}
}

// asked returns what a command asked of a node about the first name, if anything, and what the node has for it then.
func (w *world) asked(c sim.Command, s shape, after sim.Data) Action {
	name := names[0]
	is := Action{Node: w.number(c.Node), Clock: after.Now(), Has: after.Text(name)}
	is.Entry, _ = after.Score("redlock:tokens", name)
	if _, failed := c.Reply.(sim.Error); failed || s.name == "" || len(c.Args) <= 3 {
		return is
	}
	keys, argv := keysAndArguments(c)
	i := slices.Index(keys, name)
	if i < 0 {
		return is
	}
	is.What, is.Said = s.name, answerAbout(c.Reply, i)
	if s.undo {
		is.Owner = ownersIn(argv)[i]
		if s.name == "release" && len(argv) > i+1 && argv[i+1] != "" {
			is.What = "release and leave"
		}
		if len(argv) > len(keys)+1 {
			is.Token, _ = strconv.ParseFloat(argv[len(keys)+1+i], 64) // of 'untold', nothing is known
		}
	} else {
		own, token := s.each(argv, len(keys))[i], s.token
		if s.name == "extend" {
			token = extendsToken
		}
		is.Owner = own[s.owner]
		is.Token, _ = strconv.ParseFloat(own[token], 64)
	}
	if is.Has == is.Owner {
		is.TTL = after.Expires(name) - is.Clock
	}
	first := w.queues[is.Node].first
	switch {
	case s.name == "acquire" && argv[len(argv)-1] != "":
		is.What = "acquire or join"
		first[is.Owner] = is.Token
	case s.name == "enqueue":
		first[is.Owner], _ = strconv.ParseFloat(argv[4*i+3][37:53], 64)
		is.Floor = floorOf(after)
	case s.name == "raise":
		is.Floor = floorOf(after)
	}
	return is
}

// accepts returns the largest token that a node knows behind a proposal: see propose.lua.
func accepts(entry, token, floor float64) float64 {
	switch {
	case token > max(entry, floor):
		return token
	case entry > 0 && token > 0:
		return math.Floor(entry) + 0.5
	}
	return entry
}

// handsOver keeps what a node did with the name when it was free, or released. It may have passed over waiters that are
// gone, and have handed the lock to one: a release after it was the caller's, enqueue before it looks whether it is.
// What has become of the name meanwhile follows from the proposals. had is the largest token before.
func (w *world) handsOver(is Action, undo bool, had float64, after sim.Data) {
	first, floor := w.queues[is.Node].first, floorOf(after)
	over := Action{Node: is.Node, Clock: is.Clock, Entry: had, Floor: floor}
	if undo {
		over.Entry = max(had, is.Token)
		freed := is
		freed.Has, freed.Entry = "", over.Entry
		w.keepAction(freed)
	}
	// To itself, if the token that it proposes was accepted a moment ago.
	handed := is.Has != "" && (is.Has != is.Owner || is.Said.Code == 2 && is.Said.Known == is.Token && had < is.Token)
	proposed := over.Entry
	if handed {
		proposed = accepts(proposed, first[is.Has], floor)
	}
	if !undo && is.Has == is.Owner {
		proposed = accepts(proposed, is.Token, floor)
	}
	if is.Entry > proposed {
		w.passesOver(&over, is.Entry)
	}
	if handed {
		over.What, over.To, over.Token = "hand over", is.Has, first[is.Has]
		over.TTL = after.Expires(names[0]) - is.Clock
		over.Has, over.Entry = is.Has, accepts(over.Entry, over.Token, floor)
		w.keepAction(over)
	}
	if !undo {
		w.keepAction(is)
	}
}

// passesOver keeps whom a node has passed over, so that the largest token became entry.
func (w *world) passesOver(over *Action, entry float64) {
	over.What = "pass over"
	first := w.queues[over.Node].first
	for _, owner := range slices.Sorted(maps.Keys(first)) {
		if token := first[owner]; token == math.Floor(entry) && token > over.Entry {
			over.To, over.Token, over.Entry = owner, token, token
			w.keepAction(*over)
		}
	}
	if entry != over.Entry && accepts(over.Entry, 1, over.Floor) == entry { // the token of another was not accepted
		over.To, over.Token, over.Entry = "", 0, entry
		w.keepAction(*over)
	}
}

// floorOf returns the floor that a node goes by: see propose.lua.
func floorOf(d sim.Data) (floor float64) {
	for i, word := range strings.Fields(d.Text("redlock:floor")) {
		if token, _ := strconv.ParseFloat(word, 64); i == 0 || i == 1 && d.Expires("redlock:tokens") == 0 {
			floor = max(floor, token)
		}
	}
	return floor
}

// queue is what a node knows about the first name: the largest token, and the tokens with which owners wait.
type queue struct {
	entry float64
	first map[string]float64
}

// answerAbout reads what the reply to a script says of one of its locks: there is an entry for each, or a number where
// all went as usual.
func answerAbout(reply any, i int) (a Answer) {
	each, ok := reply.([]any)
	if !ok || i >= len(each) {
		return Answer{Code: 1}
	}
	detail, ok := each[i].([]any)
	if !ok {
		a.Code, _ = each[i].(int64)
		return a
	}
	a.Code, _ = detail[0].(int64)
	if len(detail) > 1 {
		text, _ := detail[1].(string)
		if a.Code == 0 {
			a.Holder = text
		} else {
			a.Known, _ = strconv.ParseFloat(text, 64)
		}
	}
	return a
}
