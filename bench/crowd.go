package main

import (
	"flag"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/quorumlock/redlock"
)

// A crowd is many processes that lock on the same masters. Here each is a Locker of its own in one process, so that
// they share nothing but the CPU: no connection, and no batch.
//
// What it does, and what happens to it, are rows of the results under these names, with the figures of
// the second part of the list in figures.go. CPU is in % of a core, and what is of a master is the mean of five.
const (
	crowdScenario = "crowd"

	allOpen    = "all open, in one process"
	allRestart = "all masters are killed, and come back"

	nobody   = "nobody is there"
	atRest   = "at rest"
	allHold  = "each keeps a hold, TTL 10 s" // an event is a renewal
	allCycle = "each locks and unlocks at a pace"
	allWait  = "all wait for one name"

	masterReturns = "a master returns, TTL 10 s"
	oneName       = "one name at once, TTL 10 s"
)

const (
	served   = "served"     // had a lock before the deadline
	took     = "took ms"    // until all had had it, or until the deadline; without the restart guard
	failures = "failed"     // calls meanwhile
	guarded  = "guarded"    // calls within the restart guard, which has to make them fail
	accepted = "made"       // connections that the masters accepted, for each that the clients want
	events   = "events/s"   // renewals or cycles
	commands = "commands/s" // those within scripts included

	// Of each client: heap and stacks in use after a collection.
	memoryOfEach     = "KiB"
	goroutinesOfEach = "goroutines"

	clientShare  = "client %"
	masterShare  = "master %"
	busiestShare = "busiest %"
	usedMemory   = "memory KiB"
	connections  = "connections" // without the bench's own
)

// crowdPlan says how long the parts of the scenario take.
type crowdPlan struct {
	idle     time.Duration // measured at rest, after a quarter of it to settle
	load     time.Duration // measured in each other state, and after a master's return
	guard    time.Duration // the restart guard, waited for before anything is asked of a master that was started
	deadline time.Duration // of a rush, and of a first lock
	rate     int           // cycles per second of the whole crowd
	patience time.Duration // of a node; 0: the library's node timeout
}

// crowdFlags fill the plan. The full probes of a client are a minute apart: rest is measured for as long.
func crowdFlags() *crowdPlan {
	p := &crowdPlan{deadline: time.Minute, rate: 500}
	flag.DurationVar(&p.idle, "crowd-idle", time.Minute, "crowd: how long rest is measured")
	flag.DurationVar(&p.load, "crowd-load", 12*time.Second, "crowd: how long each other state is measured")
	flag.DurationVar(&p.guard, "crowd-guard", 30*time.Second, "crowd: the restart guard; 0: off")
	return p
}

// away is how long a dead master stays away.
func (p *crowdPlan) away() time.Duration { return min(3*time.Second, p.load/4) }

// A gathering is the crowd of one round, and an outsider: a client that is no part of what is measured.
type gathering struct {
	*bench
	crowdPlan
	clients  int
	lockers  []*redlock.Locker
	complete bool // each Locker has had a lock
	outsider *redlock.Locker
	prefix   string
	names    int // that have been given out
	shown    []sample

	// In use before the crowd came.
	memory     int64
	goroutines int
}

// show records what was measured of the crowd.
func (g *gathering) show(what string, figures map[string]float64) {
	if figures != nil {
		g.shown = append(g.shown, sample{who: what, figures: figures})
	}
}

// crowd measures so many clients, each a Locker.
func (b *bench) crowd(_ scenario, c contestant, clients int, _ time.Duration) ([]sample, error) {
	g := &gathering{bench: b, crowdPlan: *b.plan, prefix: b.prefix(), clients: clients}
	empty, err := g.watch(g.idle/2, nil)
	if err == nil {
		g.show(nobody, empty)
		err = g.awaitGuard()
	}
	if err != nil {
		return nil, err
	}
	all := sample{who: c.name, figures: map[string]float64{failed: 0}}
	for _, p := range []part{
		{"open", g.gather},
		{"rest", g.rest},
		{"holds", g.holds},
		{"cycles", g.cycles},
		{"waiters", g.waiters},
		{"restart", g.restart},
	} {
		if !g.complete && p.name != "open" {
			continue
		}
		if err := g.measure(p); err != nil { // the other parts can still be measured
			all.figures[failed]++
			all.example = err
		}
	}
	closeAll(g.lockers)
	if g.outsider != nil {
		_ = g.outsider.Close()
	}
	left, err := b.orphans(false)
	all.figures[orphans] = float64(left)
	return append(g.shown, all), err
}

// A part of the scenario.
type part struct {
	name string
	run  func() error
}

// measure measures a part, unless a master is missing.
func (g *gathering) measure(p part) error {
	err := g.cluster.check()
	if err == nil {
		err = p.run()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	return err
}

// gather opens the Lockers.
func (g *gathering) gather() error {
	outsiders, _, err := g.open(1)
	if err != nil {
		return err
	}
	g.outsider = outsiders[0]
	if err := g.connected(1); err != nil {
		return err
	}
	g.memory, g.goroutines = inUse(), runtime.NumGoroutine()
	before, err := g.received()
	if err != nil {
		return err
	}
	lockers, arrival, err := g.open(g.clients)
	g.lockers, g.complete = lockers, err == nil
	return g.arrived(allOpen, arrival, before, err)
}

// rest measures a crowd that has been open for a while.
func (g *gathering) rest() error {
	time.Sleep(g.idle / 4)
	memory, goroutines := g.ofEach()
	rest, err := g.watch(g.idle, nil)
	if err == nil {
		rest[memoryOfEach], rest[goroutinesOfEach] = memory, goroutines
		g.show(atRest, rest)
	}
	return err
}

// ofEach is what a client uses: memory in KiB, and goroutines.
func (g *gathering) ofEach() (memory, goroutines float64) {
	n := float64(len(g.lockers))
	return float64(inUse()-g.memory) / 1024 / n, float64(runtime.NumGoroutine()-g.goroutines) / n
}

// inUse is the memory that the process has in use, in bytes. Fragments count.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // frees what the first has found unused in pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// nextName is a name that no other part of the round has.
func (g *gathering) nextName(part string) string {
	g.names++
	return fmt.Sprintf("%s%s:%d:", g.prefix, part, g.names)
}

// awaitGuard returns when the restart guard has passed on all masters.
func (g *gathering) awaitGuard() error {
	if g.guard == 0 {
		return nil
	}
	uptimes, err := g.asked("server", "uptime_in_seconds")
	if err != nil {
		return err
	}
	// The uptime may be a second too much; the client's own count begins when it learns of it.
	time.Sleep(g.guard + 2*time.Second - time.Duration(slices.Min(uptimes))*time.Second)
	return nil
}

// What a master tells about itself, and in which section.
var told = map[string]string{
	"connected_clients": "clients", "used_memory": "memory",
	"total_net_input_bytes": "stats", "total_net_output_bytes": "stats",
}

// tell returns what each master tells, and how many commands it has carried out.
func (g *gathering) tell() ([]map[string]float64, error) {
	var all []map[string]float64
	for _, s := range g.cluster.servers {
		n := 0.0
		for _, times := range s.commands() {
			n += float64(times)
		}
		all = append(all, map[string]float64{commands: n})
	}
	for field, section := range told {
		numbers, err := g.asked(section, field)
		if err != nil {
			return nil, err
		}
		for i, n := range numbers {
			all[i][field] = float64(n)
		}
	}
	return all, nil
}

// watch measures what goes on for a while. happened, if it is not nil, counts events so far. The CPU times are read
// nearest to what is measured, so that telling costs nothing.
func (g *gathering) watch(d time.Duration, happened func() int) (map[string]float64, error) {
	if happened == nil {
		happened = func() int { return 0 }
	}
	toldBefore, err := g.tell()
	if err != nil {
		return nil, err
	}
	n, before := happened(), snapshot(g.cluster.servers)
	time.Sleep(d)
	after := snapshot(g.cluster.servers)
	n = happened() - n
	toldAfter, err := g.tell()
	if err != nil {
		return nil, err
	}
	seconds, masters := after.at.Sub(before.at).Seconds(), float64(len(g.cluster.servers))
	cost := map[string]float64{
		clientShare: 100 * (after.client - before.client).Seconds() / seconds,
		masterShare: 100 * after.since(before).Seconds() / seconds / masters,
		events:      float64(n) / seconds,
	}
	for i, told := range toldAfter {
		cost[busiestShare] = max(cost[busiestShare], 100*(after.servers[i]-before.servers[i]).Seconds()/seconds)
		grown := func(name string) float64 { return (told[name] - toldBefore[i][name]) / seconds / masters }
		cost[commands] += grown(commands)
		cost["in KiB/s"] += grown("total_net_input_bytes") / 1024
		cost["out KiB/s"] += grown("total_net_output_bytes") / 1024
		cost[usedMemory] += told["used_memory"] / 1024 / masters
		cost[connections] += (told["connected_clients"] - 1) / masters
	}
	return cost, nil
}
