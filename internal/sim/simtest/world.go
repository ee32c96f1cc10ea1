package simtest

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

var names = []string{"stock:4711", "stock:4712", "stock:4714"}

// Result is what came of a run.
type Result struct {
	Scenario   Scenario
	Counts     Counts
	Pairs      *Pairs
	Violations []sim.Violation
	Actions    []Action
	events     []event
}

// Counts say how often something happened, for a simulation in which nothing happens proves nothing. Among them: calls
// of Lock, TryLock, LockAll and Once and for readers; holds; second questions that nodes got, to break ties; works that
// went on beyond the maximum of their holds; faults; commands that the nodes executed.
type Counts map[string]int64

// event is one line of the trace: text, or a command.
type event struct {
	at      time.Time
	who     string
	text    string
	command *sim.Command
}

// Trace returns the run as text, a line for each event, in the order of virtual time.
func (r *Result) Trace() []string {
	// What happened at one instant stands in the order of its text, since the scheduler must not show. Owners are random:
	// they are named in a first pass that does not see them, and the names then decide between lines that differ in
	// nothing else.
	lines := sorted(r.events, &owners{})
	named := newOwners()
	for _, l := range lines {
		l.event.write(named)
	}
	lines = sorted(r.events, named)
	text := make([]string, len(lines))
	for i, l := range lines {
		text[i] = fmt.Sprintf("%14v %-9s %s", since(l.event.at), l.event.who, l.text)
	}
	return text
}

type line struct {
	event event
	text  string
}

func sorted(events []event, o *owners) []line {
	var lines []line
	for _, e := range events {
		for _, text := range e.write(o) {
			lines = append(lines, line{e, text})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(a.event.at.Compare(b.event.at), strings.Compare(a.event.who, b.event.who),
			strings.Compare(a.text, b.text))
	})
	return lines
}

// Digest is a hash of the trace.
func (r *Result) Digest() uint64 {
	h := fnv.New64a()
	for _, l := range r.Trace() {
		_, _ = h.Write([]byte(l + "\n"))
	}
	return h.Sum64()
}

type world struct {
	scenario Scenario
	net      *sim.Network
	nodes    []*sim.Node
	clients  []*client
	history  *sim.History
	jobs     book
	result   *Result
	emptied  []time.Time // when a node lost its data under live connections; owned by the faults while they last
	ending   time.Time   // of faults, and of what workers begin
	keys     []string    // what the lemmas are checked for
	undone   undone
	askedBy  sync.Map // by owner: the client that asked for locks under it
	proposed sync.Map // proposal: the tokens that owners asked with
	accepted sync.Map // acceptance: the tokens that stood on a node after some script
	tickets  sync.Map // by owner: until when a hold that was handed over lasts; zero: it was adopted
	revoked  revocations
	meetings meetings
	shown    shown
	kinds    []*kind // of clients: one, but for where the nodes are changed
	crowd    *crowd
	liar     *liar    // nil: none
	open     []opened // guarded by mu of shown
	troubles troubles
	repaired sync.Map // part: an extension has set it anew
	queues   []queue  // by node: see act

	mu     sync.Mutex // protects steps, waited, and what is in the result
	steps  []*stepTaken
	waited map[string]int // by name: how many calls have waited for it
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func since(t time.Time) time.Duration { return t.Sub(epoch) }

func (w *world) log(who, format string, args ...any) {
	e := event{at: time.Now(), who: who, text: fmt.Sprintf(format, args...)}
	w.mu.Lock()
	w.result.events = append(w.result.events, e)
	w.mu.Unlock()
}

func (w *world) blame(invariant, format string, args ...any) {
	w.mu.Lock()
	w.result.Violations = append(w.result.Violations,
		sim.Violation{Invariant: invariant, Text: fmt.Sprintf(format, args...)})
	w.mu.Unlock()
}

func (w *world) count(what string, times int) {
	w.mu.Lock()
	w.result.Counts[what] += int64(times)
	w.mu.Unlock()
}

// newWorld has the scenario's nodes, which the lemmas watch, and nothing else yet.
func newWorld(s Scenario) *world {
	w := &world{
		scenario: s, net: sim.NewNetwork(s.Seed), history: &sim.History{}, revoked: newRevocations(), shown: newShown(),
		result: &Result{Scenario: s, Counts: Counts{}}, meetings: meetings{now: map[*use]bool{}},
		undone: undone{seen: map[part]*letGo{}}, jobs: book{forgets: map[string][]forgetting{}},
		waited: map[string]int{},
	}
	w.result.Pairs = &w.meetings.seen
	for i := range s.Nodes {
		n := sim.NewNode(fmt.Sprintf("n%d:6379", i), s.Seed)
		w.watch(n)
		w.nodes = append(w.nodes, n)
		w.queues = append(w.queues, queue{first: map[string]float64{}})
	}
	w.kinds = []*kind{{lists: [][]*sim.Node{w.nodes}}}
	w.net.Attach(w.nodes...)
	w.net.SetDelay(sim.Link{}, sim.Both, s.Delay)
	return w
}

func (w *world) close() {
	for _, n := range w.nodes {
		n.Close()
	}
}

// Run runs a scenario. It must be called in a synctest bubble.
func Run(s Scenario) *Result {
	w := newWorld(s)
	r := rand.New(rand.NewPCG(s.Seed, 0x77011d))
	for i, n := range w.nodes {
		apart := time.Duration(r.Int64N(int64(400*time.Millisecond))) - 200*time.Millisecond // clocks never agree
		if s.Change != nil {
			apart = s.Change.apart(i, apart)
		}
		n.Step(apart)
		if s.Durable {
			n.SetConfig("appendonly", "yes")
			n.SetConfig("appendfsync", "always")
		}
		if s.PlainNodes&(1<<i) != 0 {
			n.Disable("hello")
		}
		if s.Copied && s.Crowd == nil {
			n.Copy("c0", "c1")
		}
		n.Observe(w.observe)
	}
	w.corrupt()
	if s.Change != nil {
		w.kinds = s.Change.kinds(w.nodes)
	}
	if s.Rivals != nil {
		w.kinds = (&Change{Old: s.Rivals.Old, New: s.Rivals.New}).kinds(w.nodes)
		w.kinds = []*kind{w.kinds[withOld], w.kinds[withNew]}
		w.rivals()
		w.close()
		return w.result
	}
	var always []Feature
	for f, is := range map[Feature]bool{Plain: s.PlainNodes > 0, Login: s.Login > 0, Trusted: s.Trusted} {
		if is {
			always = append(always, f)
		}
	}
	for i := range s.Clients {
		c := &client{
			world: w, name: fmt.Sprintf("c%d", i), changing: make(chan struct{}, 1), permits: map[permits]*redlock.Semaphore{},
		}
		c.set = w.settingsOf(c.name)
		always = append(always, c.set.has...)
		w.clients = append(w.clients, c)
		if s.Crowd == nil {
			c.locker.Store(w.connect(c.name, w.kinds[0]))
		}
	}
	if s.Crowd != nil {
		w.startCrowd()
	}
	world := w.meetings.begin(always...)
	end := time.Now().Add(s.Length)
	w.ending = end
	var wg sync.WaitGroup
	for i, c := range w.clients {
		for j := range s.Workers {
			k := &worker{
				client: c, label: fmt.Sprintf("%s.%d", c.name, j), r: rand.New(rand.NewPCG(s.Seed, uint64(1000+10*i+j))),
				apart: rand.New(rand.NewPCG(s.Seed, uint64(0xa0000+10*i+j))),
			}
			wg.Go(func() { k.run(end) })
		}
	}
	for i := range s.Habits.Watchers {
		wg.Go(func() { w.watches(i, end) })
	}
	if s.Habits.Part[Visit] > 0 {
		wg.Go(func() { w.visits(end) })
	}
	if w.lies() {
		wg.Go(func() { w.bounds(end) })
	}
	if s.Change != nil {
		wg.Go(w.roll)
		w.startNewNodes(&wg)
	}
	f := &faults{world: w, r: rand.New(rand.NewPCG(s.Seed, 0xfa017)), forgets: time.Now().Add(-time.Hour)}
	if len(s.Faults) > 0 {
		f.run(end)
	}
	if s.Crowd != nil {
		w.disturb()
		w.comeBack()
	}
	wg.Wait()
	if w.lies() && w.liar.Goes {
		w.liar.silent.Store(true)
	}
	w.aftermath(f.back)
	w.meetings.end(world)
	return w.result
}

func (w *world) options(name string) []redlock.Option {
	return append(w.settingsOf(name).opts, redlock.WithNodeConfig(
		redlock.NodeConfig{TrustDisk: w.scenario.Trusted, NoRestartGuard: w.scenario.Guard == 0}))
}

// dials are what a client has, where it is not one of a crowd.
func (w *world) dials(name string) []redlock.Option {
	dial := redlock.WithNodeConfig(redlock.NodeConfig{Dial: w.net.Dialer(name)})
	return append(append(w.options(name), dial), w.login(name)...)
}

// connect makes a Locker. Several clients may do so at once.
func (w *world) connect(name string, k *kind) *instance {
	if w.crowd != nil {
		return w.connectCrowd(name, k, w.options(name))
	}
	opts := w.dials(name)
	if len(k.lists) > 1 {
		opts = append(opts, redlock.WithNewNodes(urls(k.lists[1])))
	}
	asked := time.Now()
	locker, err := redlock.New(urls(k.lists[0]), opts...)
	if w.liar != nil {
		w.admittedBy(name, asked, err)
	}
	for try := 0; errors.As(err, new(*redlock.ListConflictError)) && try < 100; try++ {
		// Crashed clients still count. Waiting until the nodes forget them takes longer than most scenarios. What such a
		// client has sent may yet arrive.
		for _, n := range w.nodes {
			for _, key := range n.Keys() {
				if key == "redlock:lists" || strings.HasPrefix(key, "redlock:clients:") {
					n.Do("DEL", key)
				}
			}
		}
		time.Sleep(time.Duration(try) * 100 * time.Millisecond)
		locker, err = redlock.New(urls(k.lists[0]), opts...)
	}
	if err != nil {
		panic(err)
	}
	return &instance{Locker: locker, kind: k, timeout: w.settingsOf(name).timeout, since: time.Now()}
}

func urls(nodes []*sim.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, "redis://"+n.Addr())
	}
	return all
}
