package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/ports"
	"github.com/quorumlock/redlock/internal/process"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// A scenario is a state of the world in which the contestants are compared.
type scenario struct {
	name        string
	about       string
	contestants []contestant
	goroutines  []int // nil: those of the flag
	masters     int   // 0: five
	measure     measurement
	longer      int           // rounds are so many times as long; 0: not
	rounds      int           // 0: those of the flag
	fresh       bool          // no name comes twice
	apart       bool          // each goroutine has a client of its own, as another process would
	shared      int           // all goroutines use the same names, so many; 0: each its own
	hold        time.Duration // 0: locks are unlocked at once; else clients hold one name in turn for so long
	serverArgs  []string
	tls         bool             // the masters speak TLS only
	names       int              // of each goroutine, to use in turn; 0: 64
	warmup      time.Duration    // 0: the usual one
	delay       [5]time.Duration // of each node's answers
	refused     int              // so many of the last nodes refuse connections

	// What happens to the masters, and when.
	afterWarmup, midway func(*cluster)
	gaps                bool // the longest time without an acquisition is a figure
}

// A measurement lets one contestant work once. nil: goroutines cycle, each with names of its own. n is how many.
type measurement func(b *bench, sc scenario, c contestant, n int, duration time.Duration) []sample

var all = []contestant{
	limitTogether, redlockFenced5, redlockPlain5,
	redsyncRedigo5, redsyncGoRedis5, redsyncFailFast5, redsyncRueidis5, redsyncGoRedisFast5, redsyncRueidisFast5,
	bareSetNX1, bsmGoRedis1, rueidislock1,
}

// quorums are for scenarios with sick masters; the first shows what it would be without.
var quorums = []contestant{
	healthy(redlockFenced5), redlockFenced5, redlockPlain5, redsyncRedigo5, redsyncGoRedis5, redsyncFailFast5,
}

var durable = []contestant{redlockFenced5, redlockPlain5, redsyncRedigo5, bsmGoRedis1}

var (
	few     = []int{1, 16, 64}
	oneLate = [5]time.Duration{4: 50 * time.Millisecond}
)

var scenarios = []scenario{
	{
		name: "uncontended", contestants: all,
		about: "Each goroutine locks and unlocks 64 names of its own, in turn.",
	},
	{
		name: "lockall", goroutines: few, contestants: []contestant{redlockFenced5, redlockTen5, limitTokens, limitTen},
		about: "Ten names in one call, against one: each goroutine locks and unlocks names of its own.",
	},
	{
		name: "migration", goroutines: few, contestants: []contestant{redlockFenced5, redlockTwoLists}, masters: 6,
		about:  "Two lists that share four of five masters, against the first alone.",
		rounds: 15, // the difference is small
	},
	{
		name: "silent", goroutines: few, contestants: quorums, afterWarmup: silence,
		about: "One of the five masters is stopped (SIGSTOP) before the clock starts: " +
			"it accepts bytes and never answers.",
	},
	{
		name: "onset", goroutines: few, contestants: quorums, midway: silence,
		about: "One of the five masters falls silent when a third of the round is over.",
	},
	{
		name: "slow", goroutines: few, contestants: quorums, delay: oneLate,
		about: "One of the five masters answers 50 ms late, behind a proxy; " +
			"with all well it is behind one that does not wait.",
	},
	{
		name: "refused", goroutines: few, contestants: quorums, refused: 2,
		about: "Two of the five masters refuse connections.",
	},
	{
		name: "wan10", goroutines: []int{1, 64, 256}, contestants: append([]contestant{limitTogether}, quorums[1:]...),
		about: "All five masters are 10 ms away.",
		delay: [5]time.Duration{far, far, far, far, far},
	},
	{
		name: "aof-everysec", goroutines: []int{1, 64}, contestants: durable,
		about:      "The masters write an append-only file, synced every second.",
		serverArgs: []string{"--appendonly", "yes", "--appendfsync", "everysec"},
	},
	{
		name: "aof-always", goroutines: []int{1, 64}, contestants: durable,
		about:      "The masters write an append-only file and sync it before each answer.",
		serverArgs: []string{"--appendonly", "yes", "--appendfsync", "always"},
	},
	{
		name: "tls", goroutines: []int{1, 64, 256}, tls: true,
		about:       "The masters and their clients speak TLS.",
		contestants: []contestant{redlockTLS5, redlockPlainTLS5, redsyncRedigoTLS5},
	},
	{
		name: "contended", goroutines: []int{2, 8, 32, 128}, hold: time.Millisecond, longer: 3,
		about:       "Contenders, each with a client of its own, hold one name for 1 ms in turn.",
		contestants: []contestant{redlockFenced5, redsyncRedigo5, rueidislock1, bsmGoRedis1},
	},
	{
		name: "rw", goroutines: []int{8, 64}, contestants: []contestant{redlockReaders5, redlockFenced5}, shared: 16,
		about: "All goroutines lock names that they share, to read in 95 of 100 cycles and to write in 5.",
	},
	{
		name: "semaphore", goroutines: few,
		about:       "Each goroutine takes and gives back a permit of a semaphore of its own that has eight; against a lock.",
		contestants: []contestant{redlockFenced5, redlockPermit5, redlockLast5, redlockFind5},
	},
	{
		name: "once", goroutines: few, contestants: []contestant{redlockFenced5, redlockOnce5, redlockDone5}, fresh: true,
		about: "A run of a job that does nothing, each of another name, and a call that finds its job done; " +
			"against a lock.",
	},
	{
		name: "renewals", goroutines: []int{1000, 10000}, contestants: []contestant{redlockFenced5, redlockPlain5},
		about:   "So many holds with a TTL of 10 s are kept and renewed, each every third of it; a cycle is a renewal.",
		measure: (*bench).renew,
		longer:  10,
	},
	{
		name: crowdScenario, goroutines: []int{1, 10, 100, 1000}, contestants: []contestant{redlockFenced5},
		about: "So many clients, each a Locker of its own in one process: at rest, with a hold each, locking, waiting; " +
			"one of the five masters is killed and started again, then all; all want one name.",
		measure: (*bench).crowd, // goroutines are clients
		rounds:  1,
	},
	{
		name: "contended-slow", goroutines: []int{8, 32}, hold: time.Millisecond, longer: 3, delay: oneLate,
		about:       "As contended; one of the five masters answers 50 ms late.",
		contestants: []contestant{redlockFenced5, redsyncRedigo5},
	},
	{
		name: "contended-silent", goroutines: []int{8, 32}, hold: time.Millisecond, longer: 3, afterWarmup: silence,
		about:       "As contended; one of the five masters is silent.",
		contestants: []contestant{redlockFenced5, redsyncRedigo5},
	},
	{
		name: "consensus", goroutines: []int{1, 64, 256}, contestants: beside, names: 1, longer: 2,
		about:  "Beside consensus: each goroutine locks and unlocks a name of its own.",
		warmup: 2 * time.Second, // ZooKeeper makes a directory for each name, and Java gets quicker
	},
	{
		name: "consensus-contended", goroutines: []int{2, 32, 128}, hold: time.Millisecond, longer: 3,
		about:       "Beside consensus: contenders, each with a client of its own, hold one name for 1 ms in turn.",
		contestants: slices.Delete(slices.Clone(beside), 1, 2),
		warmup:      2 * time.Second,
	},
	outage("consensus-silent", "Beside consensus: clients with one goroutine each; when a third of the round is over one "+
		"node is stopped (SIGSTOP).", func(c *cluster) { _ = c.victim().Pause() }),
	outage("consensus-killed", "Beside consensus: as consensus-silent; the node is killed.",
		func(c *cluster) { _ = c.victim().Kill(context.Background()) }),
	lostUpdates,
}

func outage(name, about string, fault func(*cluster)) scenario {
	return scenario{
		name: name, about: about, contestants: outages, goroutines: []int{16}, names: 1, warmup: 2 * time.Second,
		longer: 30, rounds: 3, gaps: true, apart: true, midway: fault,
	}
}

// silence stops a master, which then accepts bytes and never answers.
func silence(c *cluster) { _ = c.servers[4].Pause() }

// beside are the contestants beside consensus.
var beside = []contestant{redlockFenced5, redlockPlain5, etcd3, etcdMemory3, zooKeeper3, zooKeeperMemory3}

// outages are for scenarios where one node fails: of consensus a follower or the leader.
var outages = []contestant{redlockFenced5, etcd3, led(etcd3), zooKeeper3, led(zooKeeper3)}

func led(c contestant) contestant {
	c.name, c.leader = c.name+" leader", true
	return c
}

const (
	usualNames = 64
	far        = 10 * time.Millisecond
)

// namesOfEach returns how many names each goroutine has, to use in turn.
func (sc scenario) namesOfEach(goroutines int) int {
	if sc.fresh {
		return max(usualNames, 400_000/goroutines)
	}
	return cmp.Or(sc.names, usualNames)
}

func healthy(c contestant) contestant {
	c.name, c.spared = c.name+", all masters well", true
	return c
}

// A cluster is the five masters of a scenario and what stands before them.
type cluster struct {
	servers   []*server
	ensembles map[*system]*ensemble
	turn      contestant // whose it is

	proxies []*child
	nodes   []string // where contestants connect
	well    []string // where spared ones do: a late node's proxy costs CPU time, so theirs has one that is not late
	trust   *tls.Config
}

func newCluster(sc scenario) *cluster {
	config := redisserver.Config{Args: sc.serverArgs}
	if sc.tls {
		config.Args, config.Files = append(authority().Args(), config.Args...), authority().Files()
	}
	servers := startServers(cmp.Or(sc.masters, 5), config)
	c := &cluster{servers: servers, nodes: addrs(servers), well: addrs(servers), ensembles: map[*system]*ensemble{}}
	defer undo(c.stop)
	if sc.tls {
		c.trust = authority().ClientConfig()
	}
	for _, one := range sc.contestants {
		if one.system != nil && c.ensembles[one.system] == nil {
			c.ensembles[one.system] = startEnsemble(one.system, 3)
		}
	}
	for i, d := range sc.delay {
		if d == 0 {
			continue
		}
		for at, delay := range map[*string]time.Duration{&c.nodes[i]: d, &c.well[i]: 0} {
			p, addr := startProxy(distance{*at, delay})
			c.proxies, *at = append(c.proxies, p), addr
		}
	}
	for i := len(c.nodes) - sc.refused; i < len(c.nodes); i++ {
		c.nodes[i] = made(ports.Reserve()).Addr() // as long as this process lives: nobody will ever listen there
	}
	return c
}

// check fails unless all masters answer: figures of a fleet with a dead one would be taken for those of a whole one.
func (c *cluster) check() error {
	var errs []error
	for _, s := range c.servers {
		errs = append(errs, s.check(c.trust))
	}
	return errors.Join(errs...)
}

// versions are those of the systems beside the masters, each after a comma.
func (c *cluster) versions() (list string) {
	seen := map[string]bool{}
	for _, e := range c.ensembles {
		seen[", "+e.version] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), "")
}

// prepare leaves only the ensemble running on which a contestant locks: even idle, others would cost it CPU time.
func (c *cluster) prepare(next contestant) {
	c.turn = next
	for _, e := range c.ensembles {
		e.freeze()
	}
	if e := c.ensembles[next.system]; e != nil {
		e.heal()
	}
}

// heal ends what a scenario did to the servers.
func (c *cluster) heal() {
	for _, s := range c.servers {
		if s.PID() == 0 {
			_ = s.revive() // if it fails, check says so
		}
		_ = s.Resume()
	}
	if e := c.ensembles[c.turn.system]; e != nil {
		_ = attempt(func() { e.heal() }) // if it fails, prepare says so
	}
}

// victim is the process that a scenario's fault befalls.
func (c *cluster) victim() *process.Process {
	if e := c.ensembles[c.turn.system]; e != nil {
		return &e.victim(c.turn.leader).Process
	}
	return &c.servers[4].Process
}

// usage is what this process and the servers of the contestant have used so far.
func (c *cluster) usage() usage {
	if e := c.ensembles[c.turn.system]; e != nil {
		return snapshot(e.members)
	}
	return snapshot(c.servers)
}

func (c *cluster) stop() {
	for _, p := range c.proxies {
		p.kill()
	}
	for _, e := range c.ensembles {
		e.stop()
	}
	stopServers(c.servers)
}

func (b *bench) nodesFor(c contestant) []string {
	nodes := b.cluster.nodes
	if e := b.cluster.ensembles[c.system]; e != nil {
		nodes = addrs(e.members)
	}
	if c.spared {
		nodes = b.cluster.well
	}
	if c.nodes > len(nodes) {
		must(fmt.Errorf("%s wants %d nodes", c.name, c.nodes))
	}
	return nodes[:c.nodes]
}

// What every contestant is asked to do: the same TTL, and names of one shape.
const (
	lockTTL    = 10 * time.Second
	namePrefix = "bench:"
	// For clients that have no limit of their own (redigo: a frozen node would stop them for good).
	peerTimeout = time.Second
)

// A contestant is a lock under measurement.
type contestant struct {
	name   string
	nodes  int  // how many of the five masters, or of the system's members, it uses
	spared bool // from what the scenario does to the masters: what it would be without
	open   opener
	system *system // nil: the masters
	leader bool    // the fault of a scenario befalls the system's leader, not a follower
}

// An opener opens what one process would have.
type opener func(nodes []string, w wish) *client

// A wish is what is asked of a client.
type wish struct {
	ttl        time.Duration // 0: the library's own
	goroutines int           // that use it
	owner      string        // "": a random one
	unrenewed  bool          // where the library lets one choose
}

// A client is shared by the goroutines of a process.
type client struct {
	worker func() worker // called once for each goroutine, before the clock starts
	close  func()
	// run drives the client instead of goroutines that call workers (the limit); nil: they do.
	run func(ctx context.Context, inFlight int, names [][]string, rec *recorder) error
}

// A worker locks and unlocks for one goroutine: one lock at a time, which it keeps between the two calls, so that
// calling it allocates nothing. lock waits for a name that is taken, and try does not. What nobody asks of a library
// is nil.
type worker struct {
	lock, try      func(ctx context.Context, name string) error
	unlock, extend func(ctx context.Context) error
	until          func() time.Time // when the hold ends
	context        func(context.Context) (context.Context, context.CancelFunc)
	held           func() any // what the library calls its lock
	token          func() (int64, error)
	close          func()
}

// cycle locks and unlocks.
func (w worker) cycle(ctx context.Context, name string) error {
	if err := w.lock(ctx, name); err != nil {
		return err
	}
	return w.unlock(ctx)
}
