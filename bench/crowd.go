package main

import (
	"cmp"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// A crowd is many processes that lock on the same masters. Here each is a Locker of its own in one process, so that
// they share nothing but the CPU: no connection, and no batch.
type crowd struct {
	Parts string `json:"parts,omitempty"` // what alone was measured; empty: all

	Open      *arrival `json:"open,omitempty"`      // all open at the same time
	Processes *arrival `json:"processes,omitempty"` // so do as many clients in ten processes
	Restart   *arrival `json:"restart,omitempty"`   // all masters are killed and started again

	Memory     float64 `json:"memory_kib"` // of a Locker at rest: heap and stacks in use after a collection
	Goroutines float64 `json:"goroutines"` // of a Locker at rest

	// Of a Locker that has waited once.
	MemoryWaited     float64 `json:"memory_waited_kib"`
	GoroutinesWaited float64 `json:"goroutines_waited"`

	// What the process and the masters are busy with. Rest is in each state that follows it.
	Empty   cost `json:"empty"`   // before the crowd comes
	Rest    cost `json:"rest"`    // connected, and nothing else
	Holds   cost `json:"holds"`   // each has a hold with a TTL of 10 s; an event is a renewal
	Cycles  cost `json:"cycles"`  // each locks and unlocks a name of its own, at a pace; an event is a cycle
	Waiters cost `json:"waiters"` // all wait for a name that an outsider holds

	Returns [2]comeback `json:"returns"` // of a master, for each TTL
	Hot     [2]rush     `json:"hot"`     // all want one name at once, for each TTL
	Starts  start       `json:"starts"`  // of newcomers
	Late    start       `json:"late"`    // of eight newcomers while a master is 50 ms late
}

// cost is what a state of the crowd costs: CPU in % of a core, the other figures of one master (the mean of five).
type cost struct {
	Client      float64 `json:"client_pct"`
	Master      float64 `json:"master_pct"`
	Busiest     float64 `json:"busiest_pct"`
	Events      float64 `json:"events_per_s"`
	Commands    float64 `json:"commands_per_s"` // those within scripts included
	In          float64 `json:"in_kib_per_s"`
	Out         float64 `json:"out_kib_per_s"`
	Memory      float64 `json:"used_memory_kib"`
	Connections float64 `json:"connections"` // without the bench's own
}

// comeback is what a master's death and its return a few seconds later did.
type comeback struct {
	TTL    float64 `json:"ttl_s"`
	Lost   int     `json:"lost"`   // of one hold each
	Failed int     `json:"failed"` // calls of an outsider that locks and unlocks a name of its own all the time
	Calls  int     `json:"calls"`
	Before float64 `json:"worst_before_ms"` // lock and unlock of the outsider, while all masters were well
	Worst  float64 `json:"worst_ms"`        // from the master's death on
}

// rush is what became of a crowd that wanted one name.
type rush struct {
	TTL      float64 `json:"ttl_s"`
	Served   int     `json:"served"` // had it before the deadline
	Took     float64 `json:"took_s"` // until all had had it, or until the deadline
	Overlaps int     `json:"overlaps"`
	Failed   int     `json:"failed"` // calls that ended with another error than the deadline's
}

// start is how long newcomers that begin at one moment wait for their first turn: the longest of each start, and the
// shortest, after which it goes in turn.
type start struct {
	Clients     int     `json:"clients"`
	Starts      int     `json:"starts"`
	Median      float64 `json:"median_ms"`
	Worst       float64 `json:"worst_ms"`
	FirstMedian float64 `json:"first_median_ms"`
	FirstWorst  float64 `json:"first_worst_ms"`
	Failed      int     `json:"failed"`
}

// crowdPlan says how long the parts of the scenario take.
type crowdPlan struct {
	idle     time.Duration // measured at rest, after a quarter of it to settle
	load     time.Duration // measured in each other state, and after a master's return
	guard    time.Duration // the restart guard, waited for before anything is asked of a master that was started
	deadline time.Duration // of a rush, and of a first lock
	rate     int           // cycles per second of the whole crowd
	starts   int           // of newcomers
	together int           // newcomers at one moment
	parts    string        // separated by commas; empty: all
	patience time.Duration // of a node; 0: the library's node timeout
}

// crowdFlags fill the plan. The full probes of a client are a minute apart: rest is measured for as long.
func crowdFlags() *crowdPlan {
	p := &crowdPlan{}
	flag.DurationVar(&p.idle, "crowd-idle", time.Minute, "crowd: how long rest is measured")
	flag.DurationVar(&p.load, "crowd-load", 12*time.Second, "crowd: how long each other state is measured")
	flag.DurationVar(&p.guard, "crowd-guard", 30*time.Second, "crowd: the restart guard; 0: off")
	flag.DurationVar(&p.deadline, "crowd-deadline", time.Minute,
		"crowd: of all clients that want one name, or a first lock each")
	flag.IntVar(&p.rate, "crowd-rate", 500, "crowd: cycles per second, of all clients together")
	flag.IntVar(&p.starts, "crowd-starts", 10, "crowd: how often newcomers start")
	flag.IntVar(&p.together, "crowd-newcomers", 64, "crowd: how many newcomers start together")
	flag.StringVar(&p.parts, "crowd-parts", "",
		"crowd: only these, separated by commas: "+strings.Join(crowdParts, ", "))
	return p
}

// crowdParts are the parts of the scenario, in their order. All but processes need an open crowd.
var crowdParts = []string{"open", "rest", "holds", "cycles", "waiters", "newcomers", "restart", "processes"}

// wants says whether a part is to be measured.
func (p *crowdPlan) wants(part string) bool {
	chosen := strings.Split(p.parts, ",")
	if part == "open" {
		return p.parts != "processes"
	}
	return p.parts == "" || slices.Contains(chosen, part)
}

// away is how long a dead master stays away.
func (p *crowdPlan) away() time.Duration { return min(3*time.Second, p.load/4) }

var crowdTTLs = [2]time.Duration{10 * time.Second, 2 * time.Second}

// A gathering is the crowd of one round, and an outsider: a client that is no part of what is measured.
type gathering struct {
	*bench
	crowdPlan
	clients  int
	lockers  []*redlock.Locker
	outsider *redlock.Locker
	prefix   string
	names    int // that have been given out

	// In use before the crowd came.
	memory     int64
	goroutines int
}

// crowd measures so many clients, each a Locker.
func (b *bench) crowd(_ scenario, _ contestant, clients int, _ time.Duration) (s sample, err error) {
	g := &gathering{bench: b, crowdPlan: *b.plan, prefix: b.prefix(), clients: clients}
	for part := range strings.SplitSeq(cmp.Or(g.parts, crowdParts[0]), ",") {
		if !slices.Contains(crowdParts, part) {
			return s, fmt.Errorf("-crowd-parts: no part %q, but %s", part, strings.Join(crowdParts, ", "))
		}
	}
	c := &crowd{Parts: g.parts}
	s.Crowd = c
	if g.wants("rest") {
		if c.Empty, err = g.watch(g.idle/2, nil); err != nil {
			return s, err
		}
	}
	if err = g.awaitGuard(); err != nil {
		return s, err
	}
	measure := map[string]func(*crowd) error{
		"open": g.gather, "rest": g.rest, "holds": g.holds, "cycles": g.cycles, "waiters": g.waiters,
		"newcomers": g.newcomers, "restart": g.restart, "processes": g.processes,
	}
	for _, part := range crowdParts {
		open := c.Open != nil && c.Open.Served == clients
		if !g.wants(part) || !open && part != "open" && part != "processes" {
			continue
		}
		err := g.cluster.check()
		if err == nil {
			err = measure[part](c)
		}
		if err != nil { // the other parts can still be measured
			s.Errors, s.Example = s.Errors+1, part+": "+err.Error()
		}
	}
	closeAll(g.lockers)
	if g.outsider != nil {
		_ = g.outsider.Close()
	}
	s.Orphans, err = b.orphans(false)
	return s, err
}

// gather opens the Lockers.
func (g *gathering) gather(c *crowd) error {
	outsiders, _, err := g.open(1, g.cluster.nodes)
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
	g.lockers, c.Open, err = g.open(g.clients, g.cluster.nodes)
	return g.made(c.Open, before, err)
}

// rest measures a crowd that has been open for a while.
func (g *gathering) rest(c *crowd) (err error) {
	time.Sleep(g.idle / 4)
	c.Memory, c.Goroutines = g.ofEach()
	c.Rest, err = g.watch(g.idle, nil)
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
	for _, s := range g.cluster.servers {
		fields, err := redisserver.Info(s.ctl, "server")
		if err != nil {
			return err
		}
		uptime, err := strconv.Atoi(fields["uptime_in_seconds"])
		if err != nil {
			return err
		}
		// The uptime may be a second too much; the client's own count begins when it learns of it.
		time.Sleep(g.guard + 2*time.Second - time.Duration(uptime)*time.Second)
	}
	return nil
}

// mark is what has been used up to a moment.
type mark struct {
	at       time.Time
	client   time.Duration
	masters  []time.Duration
	told     []map[string]int64
	commands []int64
}

// What a master tells about itself. The CPU times are read nearest to what is measured, so that telling costs nothing.
var told = map[string][]string{
	"clients": {"connected_clients"},
	"memory":  {"used_memory"},
	"stats":   {"total_net_input_bytes", "total_net_output_bytes"},
}

func (g *gathering) tell(m *mark) error {
	m.told, m.commands = nil, nil
	for _, s := range g.cluster.servers {
		values := map[string]int64{}
		for section, names := range told {
			fields, err := redisserver.Info(s.ctl, section)
			if err != nil {
				return err
			}
			for _, name := range names {
				if values[name], err = strconv.ParseInt(fields[name], 10, 64); err != nil {
					return err
				}
			}
		}
		_, commands := s.calls(nil)
		m.told, m.commands = append(m.told, values), append(m.commands, commands)
	}
	return nil
}

func (g *gathering) spent(m *mark) {
	m.masters = nil
	for _, s := range g.cluster.servers {
		m.masters = append(m.masters, s.cpu())
	}
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	m.client, m.at = time.Duration(r.Utime.Nano()+r.Stime.Nano()), time.Now()
}

// watch measures what goes on for a while. events, if it is not nil, counts what has happened so far.
func (g *gathering) watch(d time.Duration, events func() int) (l cost, err error) {
	var a, b mark
	if err = g.tell(&a); err != nil {
		return l, err
	}
	happened := 0
	if events != nil {
		happened = events()
	}
	g.spent(&a)
	time.Sleep(d)
	g.spent(&b)
	if events != nil {
		happened = events() - happened
	}
	if err = g.tell(&b); err != nil {
		return l, err
	}
	seconds, masters := b.at.Sub(a.at).Seconds(), float64(len(b.masters))
	l.Client = 100 * (b.client - a.client).Seconds() / seconds
	l.Events = float64(happened) / seconds
	for i := range b.masters {
		busy := 100 * (b.masters[i] - a.masters[i]).Seconds() / seconds
		l.Master += busy / masters
		l.Busiest = max(l.Busiest, busy)
		l.Commands += float64(b.commands[i]-a.commands[i]) / seconds / masters
		grown := func(name string) float64 { return float64(b.told[i][name]-a.told[i][name]) / 1024 / seconds / masters }
		l.In += grown("total_net_input_bytes")
		l.Out += grown("total_net_output_bytes")
		l.Memory += float64(b.told[i]["used_memory"]) / 1024 / masters
		l.Connections += float64(b.told[i]["connected_clients"]-1) / masters
	}
	return l, nil
}
