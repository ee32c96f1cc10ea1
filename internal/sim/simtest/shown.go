package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// In some scenarios holds have values, which change, somebody watches the names, and workers look at them between their
// locks. What is shown is judged by what is known of the holds:
//
//   - not its value: a value is shown for the hold that it was set for, and for no other one.
//   - value lost: a look shows a value that was set before it ended, and not replaced before it began by one that was
//     confirmed. Where the nodes forget nothing: what a majority knows, a majority tells.
//   - value theft: on each node, the value of who has the lock is replaced by newer ones of its own alone, and nobody
//     else puts one there.
//   - not its term: the token that is shown for a hold is its own, or before it is granted a smaller one that it has
//     asked with, where it has a value or the nodes forget nothing.
//   - older term: nobody who watches is shown a smaller token than before, unless holds overlap; and where the nodes
//     forget nothing, no look shows a smaller one than was known when it began.
//   - checked: when Check has returned nil, there was a moment meanwhile at which a majority had the key for the hold.

type shown struct {
	mu     sync.Mutex // protects the following fields, and what they contain
	values map[string]*value
	holds  map[string]*valued // by owner
	terms  map[string][]term  // by name, in the order in which they became known
	tops   map[string][]term  // by name: those which are larger than all before
	told   map[string][]sight // by owner: what was shown before it was known to hold
	had    map[string]map[string][]had
}

func newShown() shown {
	return shown{
		values: map[string]*value{}, holds: map[string]*valued{}, terms: map[string][]term{}, tops: map[string][]term{},
		told: map[string][]sight{}, had: map[string]map[string][]had{},
	}
}

// value is one that somebody gives a hold. Each is given once, but for the empty one.
type value struct {
	text          string
	client, owner string // owner: "" while the lock is not granted
	asked         bool   // with the lock: a wait that is not confirmed goes on under another owner
	set, returned time.Time
	confirmed     bool
}

// valued is a hold, and the values that it was given.
type valued struct {
	token   int64
	granted time.Time
	// lock is nil when the hold is over: from its handle one gets here, so that otherwise nothing is ever collected.
	lock   *redlock.Lock
	values []*value
}

// term is a token, and since when somebody knows whose it is.
type term struct {
	token int64
	owner string
	at    time.Time
}

// sight is a token that was shown for an owner.
type sight struct {
	token int64
	text  string
}

// proposal is a token that an owner asked with.
type proposal struct {
	owner string
	token int64
}

func (w *world) asksWith(owner, token string) {
	if number, err := strconv.ParseFloat(token, 64); err == nil {
		w.proposed.Store(proposal{owner, int64(number)}, true)
	}
}

// had is since when a node has a key for an owner.
type had struct {
	owner string
	since time.Time
}

// newValue is about to be given to a hold of the owner; "": of the one that is granted what the client asks for.
func (c *client) newValue(owner string, empty bool) *value {
	w := c.world
	v := &value{client: c.name, owner: owner, asked: owner == "", set: time.Now()}
	w.shown.mu.Lock()
	defer w.shown.mu.Unlock()
	if !empty {
		v.text = fmt.Sprintf("%s/%d", c.name, len(w.shown.values))
		w.shown.values[v.text] = v
	}
	if h := w.shown.holds[owner]; h != nil {
		h.values = append(h.values, v)
	}
	return v
}

// showsFrom notes a hold and the value that it was granted with.
func (w *world) showsFrom(wanted []string, lock held) {
	v := lock.said
	w.shown.mu.Lock()
	defer w.shown.mu.Unlock()
	now := time.Now()
	none := &value{set: now, returned: now}
	h := &valued{lock.Token(), now, lock.Lock, []*value{none}}
	if v != nil {
		none.set, none.returned = v.set, v.set.Add(-1)
		v.owner, v.returned, v.confirmed = lock.Owner(), now, true
		h.values = append(h.values, v)
	}
	w.shown.holds[lock.Owner()] = h
	for _, t := range w.shown.told[lock.Owner()] {
		if _, own := w.proposed.Load(proposal{lock.Owner(), t.token}); t.token != h.token && !(own && t.token < h.token) {
			w.blame("not its term", "%s, which has %d", t.text, h.token)
		}
	}
	delete(w.shown.told, lock.Owner())
	for _, name := range wanted {
		w.knownTerm(name, term{lock.Token(), lock.Owner(), now})
	}
}

func (w *world) showsNoMore(lock held) {
	w.shown.mu.Lock()
	defer w.shown.mu.Unlock()
	w.shown.holds[lock.Owner()].lock = nil
}

// knownTerm is called with mu held.
func (w *world) knownTerm(name string, t term) {
	if t.token == 0 {
		return
	}
	if _, holds := w.shown.holds[t.owner]; holds {
		w.shown.terms[name] = append(w.shown.terms[name], t)
	}
	if tops := w.shown.tops[name]; len(tops) == 0 || tops[len(tops)-1].token < t.token {
		w.shown.tops[name] = append(tops, t)
	}
}

// setValue changes the value of a hold, which may be over, or end meanwhile.
func (w *worker) setValue(lock held) {
	if lock.reads || !w.minded(w.scenario.Habits.Part[SetValue]) {
		return
	}
	w.meetings.does(lock.use, SetValue)
	w.setValueOf(lock, w.apart.IntN(8) == 0)
}

func (w *worker) setValueOf(lock held, empty bool) {
	over, v := lock.Err(), w.newValue(lock.Owner(), empty)
	err := lock.SetValue(context.Background(), v.text)
	w.shown.mu.Lock()
	v.returned, v.confirmed = time.Now(), err == nil
	w.shown.mu.Unlock()
	w.count("values", 1)
	w.log(w.label, "SetValue %s token %d %q: %s", lock.Name(), lock.Token(), v.text, kindOf(err))
	w.bounded("SetValue", v.set, lock.of.timeout)
	if over != nil && err == nil {
		w.blame("honesty", "%s: SetValue of token %d, which is over (%v), reported success", w.label, lock.Token(), over)
	}
}

// setLate has a value under way while the hold ends, and returns what waits for it.
func (w *worker) setLate(lock held) (wait func()) {
	var late sync.WaitGroup
	if !lock.reads && w.minded(w.scenario.Habits.Part[SetValue]) {
		late.Go(func() { w.setValueOf(lock, false) })
		if w.apart.IntN(2) == 0 {
			time.Sleep(time.Duration(w.apart.Int64N(int64(w.scenario.Delay.Max))))
		}
	}
	return late.Wait
}

// looks has somebody look at a name.
func (w *world) looks(who string, by *redlock.Inspector, r *rand.Rand) {
	name, began := w.someKey(r), time.Now()
	use := w.meetings.begin(Inspect)
	defer w.meetings.end(use)
	if r.IntN(2) == 0 {
		found, err := by.Inspect(context.Background(), name)
		w.looked(who, "Inspect", found, err, began)
		return
	}
	for found, err := range by.List(context.Background(), name) {
		w.looked(who, "List", found, err, began)
	}
}

// someKey returns a name, or the key of one of its permits.
func (w *world) someKey(r *rand.Rand) string {
	name := names[r.IntN(w.scenario.Names)]
	if part := w.scenario.permits(); part > 0 && r.Float64() < part {
		return slotOf(name, r.IntN(w.scenario.Permits))
	}
	return name
}

// status has a worker ask what the nodes are like: that takes the node timeout at most.
func (w *worker) status() {
	use, asked := w.meetings.begin(Status), time.Now()
	defer w.meetings.end(use)
	w.locker.Load().Status(context.Background())
	w.bounded("Status", asked, w.set.timeout)
}

// visits are of somebody who looks at names or nodes with an Inspector, and goes: with the settings of the command, or
// with those of a small program that nobody has told of the others.
func (w *world) visits(end time.Time) {
	r := rand.New(rand.NewPCG(w.scenario.Seed, 0x715175))
	for time.Now().Before(end) {
		time.Sleep(scaled(w.scenario.TTL, r, 1./2, 8))
		opts := append(w.dials("visitor"), redlock.WithTTL(10*time.Second), redlock.WithMaxTTL(30*time.Second))
		if r.IntN(3) > 0 {
			opts = append(opts, redlock.WithTTL(20*time.Millisecond), redlock.WithMaxTTL(20*time.Millisecond))
		}
		use := w.meetings.begin(Visit)
		visitor, err := redlock.NewInspector(urls(w.kinds[0].lists[0]), opts...)
		if err != nil {
			panic(err)
		}
		for range 1 + r.IntN(3) {
			switch r.IntN(3) {
			case 0:
				visitor.Status(context.Background())
			case 1:
				ctx, cancel := context.WithTimeout(context.Background(), scaled(w.scenario.TTL, r, 1./2, 4))
				w.watchOnce(ctx, "visitor", w.someKey(r), visitor)
				cancel()
			default:
				w.looks("visitor", visitor, r)
			}
		}
		_ = visitor.Close()
		w.meetings.end(use)
	}
}

// checks has a worker ask whether somebody has a lock who had it lately.
func (w *worker) checks(locker *redlock.Locker, name string) {
	w.shown.mu.Lock()
	terms := w.shown.terms[name]
	w.shown.mu.Unlock()
	if len(terms) == 0 {
		return
	}
	lately := terms[max(0, len(terms)-3):]
	use := w.meetings.begin(Check)
	defer w.meetings.end(use)
	t, began := lately[len(lately)-1], time.Now() // who has it, most likely
	if w.apart.IntN(2) == 0 {
		t = lately[w.apart.IntN(len(lately))]
	}
	err := locker.Check(context.Background(), name, t.token)
	w.count("checks", 1)
	w.log(w.label, "Check %s token %d: %s", name, t.token, kindOf(err))
	w.bounded("Check", began, 2*w.set.timeout)
	switch {
	case err == nil:
		w.checked(w.label, name, t, began)
	case !errors.Is(err, redlock.ErrLost) && !errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrClosed):
		w.blame("honesty", "%s: Check of token %d of %s says neither that it is lost nor why that is unknown: %v",
			w.label, t.token, name, err)
	}
}

// checked judges a Check of which nil has come.
func (w *world) checked(who, name string, t term, began time.Time) {
	w.count("checked", 1)
	w.shown.mu.Lock()
	defer w.shown.mu.Unlock()
	for _, k := range w.kinds {
		for _, list := range k.lists {
			if list, need := w.bearing(list); w.shown.hadMajority(list, need, name, t.owner, began) {
				return
			}
		}
	}
	w.blame("checked", "%s: Check of token %d of %s, begun at %v, returned nil at %v, when no majority had had it for %s",
		who, t.token, name, since(began), since(time.Now()), t.owner)
}

// hadMajority reports whether there was a moment since then at which a majority had the key for the owner. What a node
// has lost without a command is noticed at its next one: that errs on the side of Check. Caller holds mu.
func (s *shown) hadMajority(list []*sim.Node, need int, key, owner string, from time.Time) bool {
	moments := []time.Time{from}
	for _, n := range list {
		for _, h := range s.had[key][n.Addr()] {
			if h.since.After(from) {
				moments = append(moments, h.since)
			}
		}
	}
	return slices.ContainsFunc(moments, func(at time.Time) bool {
		has := 0
		for _, n := range list {
			all := s.had[key][n.Addr()]
			for i, h := range all {
				if h.owner == owner && !h.since.After(at) && (i+1 == len(all) || !all[i+1].since.Before(at)) {
					has++
					break
				}
			}
		}
		return has >= need
	})
}

// noteHolders notes what a command has found and left under the keys.
func (w *world) noteHolders(c sim.Command, before []string, after sim.Data) {
	if w.scenario.Habits.Part[Check] == 0 {
		return
	}
	w.shown.mu.Lock()
	defer w.shown.mu.Unlock()
	for i, key := range w.keys {
		nodes := w.shown.had[key]
		if nodes == nil {
			nodes = map[string][]had{}
			w.shown.had[key] = nodes
		}
		for _, owner := range []string{before[i], after.Text(key)} {
			if all := nodes[c.Node]; len(all) == 0 && owner != "" || len(all) > 0 && all[len(all)-1].owner != owner {
				nodes[c.Node] = append(all, had{owner, c.At})
			}
		}
	}
}

func valueOf(key string) string { return "redlock:value:" + key }

// checkValues judges what a command did to the values of those that have the keys.
func (w *world) checkValues(c sim.Command, before []string, after sim.Data) {
	if len(before) == len(w.keys) {
		return
	}
	for i, key := range w.keys {
		holder, was, is := after.Text(key), before[len(w.keys)+i], after.Text(valueOf(key))
		if is == was {
			continue
		}
		ours, wasOurs := strings.HasPrefix(is, holder), holder == before[i] && strings.HasPrefix(was, holder)
		names := func(arg string) bool { return strings.Contains(arg, holder) } // a release may fail half-way
		if is != "" && (holder == "" || !ours || wasOurs && is < was) ||
			is == "" && holder != "" && wasOurs && !slices.ContainsFunc(c.Args, names) {
			w.blame("value theft", "%v on %s: the value of %s, which %q has, was %q and became %q by a command of %s: %s",
				since(c.At), c.Node, key, holder, was, is, c.Client, request(c.Args))
		}
	}
}

// steady reports whether the nodes keep what they know, and are always the same.
func (w *world) steady() bool { return w.scenario.Sound && w.scenario.Remembers() && w.oneList() }

// oneList: else a majority of one of several lists is shown as the holder.
func (w *world) oneList() bool { return w.scenario.Change == nil && w.scenario.Rivals == nil }

// handed reports whether an owner's hold was handed over with a ticket: an Adopt that fails gives it back, with its
// older token.
func (w *world) handed(owner string) bool {
	_, is := w.tickets.Load(owner)
	return is
}

// looked judges what a look has shown that began then and ends now.
func (w *world) looked(who, what string, i redlock.Inspection, err error, began time.Time) {
	now := time.Now()
	w.count("looks", 1)
	if w.liar != nil {
		return // one node is enough for a wrong value, or for a majority with two others
	}
	w.shown.mu.Lock()
	defer w.shown.mu.Unlock()
	for _, n := range i.Nodes {
		w.hasValue(who, what, i.Name, n.Owner, n.Value)
	}
	w.hasValue(who, what, i.Name, i.Owner, i.Value)
	if err != nil || i.Owner == "" || !w.oneList() {
		return
	}
	h := w.shown.holds[i.Owner]
	// What was emptied may tell of a later attempt's token, and so may a node that took the key back for the giver of a
	// ticket, unless a value tells the hold's.
	sure := i.Value != "" || w.steady() && !w.handed(i.Owner)
	if i.Token != 0 && sure {
		text := fmt.Sprintf("%s: %s of %s, begun at %v, shows at %v token %d for %s",
			who, what, i.Name, since(began), since(now), i.Token, i.Owner)
		switch _, own := w.proposed.Load(proposal{i.Owner, i.Token}); {
		case h == nil:
			w.shown.told[i.Owner] = append(w.shown.told[i.Owner], sight{i.Token, text})
		case i.Token != h.token && (!own || i.Token > h.token || !h.granted.After(began)):
			w.blame("not its term", "%s, which has %d", text, h.token)
		}
	}
	if !w.steady() {
		return
	}
	if i.Token != 0 && !w.handed(i.Owner) {
		for _, t := range w.shown.tops[i.Name] {
			if t.token > i.Token && !t.at.After(began) {
				w.blame("older term", "%s: %s of %s, begun at %v, shows at %v token %d; at %v %d was known",
					who, what, i.Name, since(began), since(now), i.Token, since(t.at), t.token)
				break
			}
		}
		w.knownTerm(i.Name, term{i.Token, "", now})
	}
	if h == nil || i.Value == "" && (h.lock == nil || h.lock.Err() != nil || !now.Before(h.lock.Deadline())) {
		return // not granted yet, or over
	}
	if !h.mayShow(i.Value, began, now) {
		w.blame("value lost", "%s: %s of %s, begun at %v, shows at %v %q for token %d, after:%s",
			who, what, i.Name, since(began), since(now), i.Value, h.token, h.said())
	}
}

// hasValue judges a value that is shown for an owner. Caller holds mu of shown.
func (w *world) hasValue(who, what, name, owner, text string) {
	if text == "" {
		return
	}
	v := w.shown.values[text]
	by, _ := w.askedBy.Load(owner)
	switch {
	case v == nil:
		w.blame("not its value", "%s: %s of %s shows %q for %s, which nobody has set", who, what, name, text, owner)
	case v.asked && by == v.client && (v.owner == owner || w.shown.holds[owner] == nil):
	case v.owner != owner:
		w.blame("not its value", "%s: %s of %s shows %q for %s, set for %s by %s",
			who, what, name, text, owner, v.owner, v.client)
	}
}

// mayShow reports whether a look may show the value that began and ended then. Caller holds mu of shown.
func (h *valued) mayShow(text string, began, ended time.Time) bool {
	return slices.ContainsFunc(h.values, func(v *value) bool {
		return v.text == text && !v.set.After(ended) && !slices.ContainsFunc(h.values, func(next *value) bool {
			return next.confirmed && !v.returned.IsZero() && next.set.After(v.returned) && !next.returned.After(began)
		})
	})
}

// said is for messages. Caller holds mu of shown.
func (h *valued) said() (text string) {
	for _, v := range h.values {
		text += fmt.Sprintf(" %q from %v to %v (%t)", v.text, since(v.set), since(v.returned), v.confirmed)
	}
	return text
}

// watches watches names, one after the other, through the Lockers of the clients or an Inspector, until the end.
func (w *world) watches(number int, end time.Time) {
	var own *redlock.Inspector
	if number > 0 {
		var err error
		if own, err = redlock.NewInspector(urls(w.kinds[0].lists[0]), w.dials("v")...); err != nil {
			panic(err)
		}
		defer func() { _ = own.Close() }()
	}
	who, r := fmt.Sprintf("v%d", number), rand.New(rand.NewPCG(w.scenario.Seed, uint64(0x3a7c4+number)))
	for time.Now().Before(end) {
		time.Sleep(time.Duration(r.Int64N(int64(w.scenario.TTL))))
		name := w.someKey(r)
		long := min(scaled(w.scenario.TTL, r, 1./2, 16), time.Until(end))
		ctx, cancel := context.WithTimeout(context.Background(), long)
		by := own
		if by == nil {
			by = w.clients[r.IntN(len(w.clients))].locker.Load().Inspector()
		}
		w.watchOnce(ctx, who, name, by)
		cancel()
	}
}

// watchOnce judges what a watch shows.
func (w *world) watchOnce(ctx context.Context, who, name string, by *redlock.Inspector) {
	use := w.meetings.begin(Watch)
	defer w.meetings.end(use)
	began, largest := time.Now(), int64(0)
	for found, err := range by.Watch(ctx, name) {
		w.log(who, "is shown %s: token %d, %q, %s", name, found.Token, found.Value, kindOf(err))
		w.looked(who, "Watch", found, err, began)
		if found.Token != 0 && found.Token < largest && w.scenario.Sound && w.oneList() && !w.handed(found.Owner) &&
			w.liar == nil {
			w.blame("older term", "%s: Watch of %s shows at %v token %d, after %d",
				who, name, since(time.Now()), found.Token, largest)
		}
		largest = max(largest, found.Token)
		began = time.Now()
	}
	w.count("watches", 1)
}
