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
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

var names = []string{"stock:4711", "stock:4712", "stock:4714"}

// Result is what came of a run.
type Result struct {
	Scenario   Scenario
	Calls      atomic.Int64 // of Lock, TryLock and LockAll, and for readers
	Reads      atomic.Int64 // holds that readers got
	Several    atomic.Int64 // holds of several names
	Revoked    atomic.Int64 // locks that were taken from their owners
	Overtime   atomic.Int64 // works that went on after the maximum of their holds
	Again      atomic.Int64 // second questions that nodes got, to break ties
	Commands   int64        // that the nodes executed
	Attempts   int64        // executions of acquire, on the node that had most
	Grants     int
	Faults     int
	Runs, Over int // of jobs
	Rollout    Rollout
	Back       time.Duration // until each client of a crowd had a lock of its own, after the last fault
	// Connections that a crowd made, and as many as it had to.
	Connections, Wanted int
	Violations          []sim.Violation
	events              []event
}

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

// line is one line of the trace.
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

// world is a run under way.
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
	accepted sync.Map // acceptance: the tokens that stood on a node after some script
	tickets  tickets
	revoked  revocations
	kinds    []*kind // of clients: one, but for where the nodes are changed
	rollout  rollout
	crowd    *crowd

	mu sync.Mutex // protects result.events and result.Violations
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

func newWorld(s Scenario) *world {
	return &world{
		scenario: s, net: sim.NewNetwork(s.Seed), history: &sim.History{}, result: &Result{Scenario: s},
		revoked: newRevocations(),
	}
}

// Run runs a scenario. It must be called in a synctest bubble.
func Run(s Scenario) *Result {
	w := newWorld(s)
	r := rand.New(rand.NewPCG(s.Seed, 0x77011d))
	for i := range s.Nodes {
		n := sim.NewNode(fmt.Sprintf("n%d:6379", i), s.Seed)
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
		w.watch(n)
		w.nodes = append(w.nodes, n)
	}
	w.net.Attach(w.nodes...)
	w.net.SetDelay(sim.Link{}, sim.Both, s.Delay)
	w.kinds = []*kind{{lists: [][]*sim.Node{w.nodes}}}
	if s.Change != nil {
		w.kinds = s.Change.kinds(w.nodes)
	}
	if s.Rivals != nil {
		w.kinds = (&Change{Old: s.Rivals.Old, New: s.Rivals.New}).kinds(w.nodes)
		w.kinds = []*kind{w.kinds[withOld], w.kinds[withNew]}
		w.rivals()
		for _, n := range w.nodes {
			n.Close()
		}
		return w.result
	}
	for i := range s.Clients {
		c := &client{world: w, name: fmt.Sprintf("c%d", i), changing: make(chan struct{}, 1)}
		w.clients = append(w.clients, c)
		if s.Crowd == nil {
			c.locker.Store(w.connect(c.name, w.kinds[0]))
		}
	}
	if s.Crowd != nil {
		w.startCrowd()
	}
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
	w.aftermath(f.back)
	return w.result
}

// connect makes a Locker. Several clients may do so at once.
func (w *world) connect(name string, k *kind) *instance {
	opts := []redlock.Option{
		redlock.WithTTL(w.scenario.TTL), redlock.WithNodeTimeout(w.scenario.Timeout),
		redlock.WithRestartGuard(w.scenario.Guard),
	}
	if w.scenario.Trusted {
		opts = append(opts, redlock.WithDurableNodes())
	}
	if w.crowd != nil {
		return w.connectCrowd(name, k, opts)
	}
	opts = append(opts, redlock.WithDialer(w.net.Dialer(name)))
	opts = append(opts, w.login(name)...)
	if len(k.lists) > 1 {
		opts = append(opts, redlock.WithMigration(urls(k.lists[1])))
	}
	locker, err := redlock.New(urls(k.lists[0]), opts...)
	for try := 0; errors.Is(err, redlock.ErrListConflict) && try < 100; try++ {
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
	return &instance{Locker: locker, kind: k}
}

func urls(nodes []*sim.Node) (all []string) {
	for _, n := range nodes {
		all = append(all, "redis://"+n.Addr())
	}
	return all
}
