package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// This file has worlds in which the nodes are changed while clients work, as a rolling deployment does it: one process
// after the other is stopped or crashes, and another one with other lists of nodes takes its place.

// Change is a change of nodes.
type Change struct {
	Shape    string
	Old, New []int // nodes by index
	Plan     string
	Steps    []Step
	Fresh    bool          // nodes of the new list alone are started, empty, while all clients have the old one
	Clocks   int           // 1: nodes of the old list alone are ahead of the others, -1: behind them; else neither
	First    time.Duration // how long all clients have the old list, before the steps
	Span     time.Duration // within which the clients of a step are changed
	Pause    time.Duration // between the steps
}

// Step changes clients to one kind: one after the other, in random order.
type Step struct {
	To   int
	Most int // how many clients; the others stay what they are
}

// The kinds of clients, in the order in which they are rolled out: neighbours may be out at once, the first and the
// last may not.
const (
	withOld = iota
	withBoth
	withNew
)

var kindNames = []string{withOld: "old", withBoth: "both", withNew: "new"}

// Shapes are what changes of nodes look like: how many nodes are in the old list alone, in both, in the new one alone.
var Shapes = []Shape{
	{"replace one of five", 1, 4, 1},
	{"replace one of three", 1, 2, 1},
	{"three to five", 0, 3, 2},
	{"five to three", 2, 3, 0},
	{"move all three", 3, 0, 3},
}

// Shape is one of the Shapes.
type Shape struct {
	Name           string
	Old, Both, New int
}

// ChangeScenario derives a change of nodes from a seed, under the faults that keep the assumptions of exclusion. Jobs
// are left out: their registers must be looked at while clients have both lists.
func ChangeScenario(seed uint64) Scenario {
	r := rand.New(rand.NewPCG(seed, 0xc4a96e))
	return changeScenario(seed, Shapes[r.IntN(len(Shapes))], r)
}

// WithoutMiddle is a change of this shape in which half of the clients are changed from the old list to the new one,
// without both in between.
func WithoutMiddle(seed uint64, shape Shape) Scenario {
	s := changeScenario(seed, shape, rand.New(rand.NewPCG(seed, 0xb1ade)))
	s.Change.Plan, s.Change.Steps = "no middle", []Step{{withNew, s.Clients / 2}}
	s.Change.Pause = 5 * s.Change.Span
	s.Names, s.Habits.Part[LockAll], s.Habits.Long = 1, 0, 0.1 // all want the same, and it changes hands often
	s.Length = s.Change.length()
	return s
}

func changeScenario(seed uint64, shape Shape, r *rand.Rand) Scenario {
	s := ordinary(seed)
	s.Faults = slices.DeleteFunc(s.Faults, func(f fault) bool { return f.class == unsound })
	s.Sound = true
	// A step must be short in comparison with what a hold can last, and long in comparison with what clocks differ by.
	if least := 300 * time.Millisecond; s.TTL < least {
		s.stretch(1 + int(least/s.TTL))
	}
	s.Guard = max(s.TTL, 2*time.Second)
	s.Clients, s.Names = 3+r.IntN(3), 2+r.IntN(2)
	if s.Workers = 1 + r.IntN(2); s.Clients > 3 {
		s.Workers = 1
	}
	s.Habits.Long = 0.3 + 0.5*r.Float64()
	if r.IntN(5) == 0 {
		s.Permits, s.Habits.Part[RLock] = 1+r.IntN(2), 0
		if s.Habits.Share { // there is no line in a process of fewer
			s.Workers = s.Permits + 1
		}
	}
	s.Change = newChange(shape, s, r)
	s.Nodes, s.Length = shape.Old+shape.Both+shape.New, s.Change.length()
	return s
}

// stretch makes everything that scales with the TTL so many times as long.
func (s *Scenario) stretch(times int) {
	for _, d := range []*time.Duration{&s.TTL, &s.Timeout, &s.Pace, &s.Strain, &s.Habits.Stay, &s.Habits.Rest} {
		*d *= time.Duration(times)
	}
}

func newChange(shape Shape, s Scenario, r *rand.Rand) *Change {
	nodes := r.Perm(shape.Old + shape.Both + shape.New)
	c := &Change{
		Shape: shape.Name, Old: nodes[:shape.Old+shape.Both], New: slices.Clone(nodes[shape.Old:]),
		Fresh: r.IntN(2) == 0, Clocks: r.IntN(4) - 1,
		First: 2*s.TTL + 500*time.Millisecond,
		Span:  max(2*time.Second, 3*s.TTL),
		// Between a hold of the old list and one of the new list alone, only the nodes' clocks order the tokens.
		Pause: 3*time.Second + time.Duration(r.Int64N(int64(2*time.Second))),
	}
	r.Shuffle(len(c.New), func(i, j int) { c.New[i], c.New[j] = c.New[j], c.New[i] })
	if c.Fresh || s.Forgets() { // a new node is out of the vote for the guard's period
		c.First += s.Guard
	}
	some, all := 1+r.IntN(s.Clients), s.Clients
	switch r.IntN(6) {
	case 0:
		c.Plan, c.Steps = "back from both", []Step{{withBoth, some}, {withOld, all}}
	case 1:
		c.Plan, c.Steps = "back from new", []Step{{withBoth, all}, {withNew, some}, {withBoth, all}, {withOld, all}}
	default:
		c.Plan, c.Steps = "through", []Step{{withBoth, all}, {withNew, all}}
	}
	return c
}

// apart returns by how much a node's clock is wrong, given that of a node anywhere. Clients with different lists may
// then have different ideas of the time, and so of tokens.
func (c *Change) apart(node int, d time.Duration) time.Duration {
	if c.Clocks != 1 && c.Clocks != -1 {
		return d
	}
	if slices.Contains(c.New, node) {
		return -d.Abs() * time.Duration(c.Clocks)
	}
	return d.Abs() * time.Duration(c.Clocks)
}

// length is how long the change takes, with what comes before and after it.
func (c *Change) length() time.Duration {
	return c.First + time.Duration(len(c.Steps))*(c.Span+c.Pause)
}

func (c *Change) String() string { return fmt.Sprintf("%+v", *c) }

func (c *Change) kinds(nodes []*sim.Node) (all []*kind) {
	pick := func(list []int) (some []*sim.Node) {
		for _, i := range list {
			some = append(some, nodes[i])
		}
		return some
	}
	before, after := pick(c.Old), pick(c.New)
	for i, lists := range [][][]*sim.Node{withOld: {before}, withBoth: {before, after}, withNew: {after}} {
		all = append(all, &kind{kindNames[i], lists})
	}
	return all
}

type stepTaken struct {
	to           string
	begun, first time.Time // first: when a client that it changed was first granted something; zero: none was
}

// heldBy notes a hold, and whether it is the first of a client that a step has changed.
func (w *world) heldBy(lock held) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if lock.kind.name != "" {
		w.result.Counts["holds with "+lock.kind.name]++
	}
	if len(w.steps) > 0 {
		if last := w.steps[len(w.steps)-1]; last.to == lock.kind.name && last.first.IsZero() {
			last.first = time.Now()
			w.result.Counts["steps"]++
		}
	}
}

// extendedThrough notes whether a hold of a client that was yet to be changed was granted before a step began, and
// extended after a changed client had got a lock.
func (w *world) extendedThrough(lock held, granted time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	extended := startOf(lock) // the last extension that succeeded was begun then
	if slices.ContainsFunc(w.steps, func(s *stepTaken) bool {
		return s.to != lock.kind.name && granted.Before(s.begun) && !s.first.IsZero() && extended.After(s.first)
	}) {
		w.result.Counts["extended through a step"]++
	}
}

func (w *world) roll() {
	c, r := w.scenario.Change, rand.New(rand.NewPCG(w.scenario.Seed, 0x5011))
	time.Sleep(c.First)
	for _, step := range c.Steps {
		to, begun := w.kinds[step.To], time.Now()
		w.log("rollout", "to the %s list", to.name)
		w.mu.Lock()
		w.steps = append(w.steps, &stepTaken{to: to.name, begun: begun})
		w.mu.Unlock()
		var order []*client
		for _, i := range r.Perm(len(w.clients)) {
			if w.clients[i].locker.Load().kind != to && len(order) < step.Most {
				order = append(order, w.clients[i])
			}
		}
		var at []time.Time
		for range order {
			at = append(at, begun.Add(time.Duration(r.Int64N(int64(c.Span)))))
		}
		slices.SortFunc(at, time.Time.Compare)
		for i, client := range order {
			sleepUntil(at[i])
			w.change(client, to, r)
		}
		sleepUntil(begun.Add(c.Span))
		time.Sleep(c.Pause)
	}
}

func (w *world) change(c *client, to *kind, r *rand.Rand) {
	c.changing <- struct{}{}
	defer func() { <-c.changing }()
	old := c.locker.Load()
	how := []string{"stops, then starts", "starts, then stops", "crashes, loses what it sent", "crashes"}[r.IntN(4)]
	w.log(c.name, "%s: from %s to %s", how, old.kind.name, to.name)
	all := sim.Link{Client: c.name}
	switch how {
	case "starts, then stops":
		c.locker.Store(w.connect(c.name, to))
		w.shut(c.name, old)
	case "stops, then starts":
		w.shut(c.name, old)
		c.locker.Store(w.connect(c.name, to))
	default: // nothing that the old process does from now on reaches a node
		w.net.Refuse(all)
		if how == "crashes" {
			w.net.Cut(all)
		} else {
			w.net.Reset(all)
		}
		_ = old.Close()
		w.net.Accept(all)
		c.locker.Store(w.connect(c.name, to))
	}
	w.log(c.name, "is changed to %s", to.name)
	w.count("changed", 1)
	if strings.HasPrefix(how, "crashes") {
		w.count("crashed", 1)
	}
}

// startNewNodes has nodes that only the new list has begin late, if that is so: without data, and out of the vote for
// the guard's period, like any node that has just started.
func (w *world) startNewNodes(wg *sync.WaitGroup) {
	c, r := w.scenario.Change, rand.New(rand.NewPCG(w.scenario.Seed, 0xf4e54))
	if !c.Fresh {
		return
	}
	for _, i := range c.New {
		if slices.Contains(c.Old, i) {
			continue
		}
		late := time.Duration(r.Int64N(int64(c.First - w.scenario.Guard)))
		w.nodes[i].Crash(false)
		wg.Go(func() {
			time.Sleep(late)
			w.nodes[i].Restart()
		})
	}
}
