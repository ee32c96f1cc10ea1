package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

type config struct {
	length   time.Duration // of the faults
	calm     time.Duration // before and after them
	every    time.Duration // how often one strikes
	clients  int           // processes
	workers  int           // goroutines of each
	guard    time.Duration // 0: masters that forget are not kept out of the votes
	seed     uint64
	out      string        // where a wrong history goes
	patience time.Duration // how soon after the last fault the throughput must be back
	full     bool          // locks are taken away, and one node is replaced in the list
}

// leastGuard is the shortest restart guard under which holds with the clients' TTL exclude each other.
const leastGuard = 2 * time.Second

type running struct {
	config
	fleet     []*masters.Node
	processes []*process
	mending   errgroup.Group

	mu      sync.Mutex // guards the following fields
	claims  map[int]bool
	faults  map[string]int // how often each struck
	kinds   map[string]int // how many holds there were of each
	renewed int            // holds that lasted for more than a TTL
	history []record
	names   map[string]bool // of all holds
	failed  map[string]int
	forced  []act
	forgot  []act
	done    []act
	moved   int // how often a client got another list
}

func (r *running) count(fault string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults[fault]++
}

// lacks says of what there has been too little to prove anything so far.
func (r *running) lacks() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []error
	wants := func(what string, got, want int) {
		if got < want {
			missing = append(missing, fmt.Errorf("too little to prove anything: %d %s, want %d", got, what, want))
		}
	}
	seconds, total := int(r.length/time.Second), 0
	for _, kind := range menu {
		total += r.faults[kind.name]
		wants(kind.name, r.faults[kind.name], max(1, seconds/60))
	}
	wants(flushed, r.faults[flushed], max(1, seconds/60))
	wants("faults", total, 9*int(r.length/r.every)/10)
	wants("holds", len(r.history), 20*seconds)
	wants("holds that follow an earlier one", len(r.history)-len(r.names), 10*seconds)
	for _, kind := range []string{oneName, severalNames, permit, writing, reading} {
		wants("holds of the kind "+kind, r.kinds[kind], seconds/2)
	}
	wants("holds beyond a TTL", r.renewed, 1+seconds/10)
	if r.full {
		wants("locks taken away", succeeded(r.forced), seconds/30)
		wants("jobs forgotten", succeeded(r.forgot), seconds/30)
		wants("jobs done", len(r.done), seconds/2)
		wants("changes of a list", r.moved, 2*r.clients)
	}
	return errors.Join(missing...)
}

// claim marks a master or a client as broken, unless it is or too many are.
func (r *running) claim(i, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.claims[i] || len(r.claims) >= most {
		return false
	}
	r.claims[i] = true
	return true
}

func (r *running) release(i int) {
	r.mu.Lock()
	delete(r.claims, i)
	r.mu.Unlock()
}

// take keeps what a client prints.
func (r *running) take(l line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case l.Hold != nil:
		r.kinds[l.Hold.Kind]++
		if l.Hold.Ended-l.Hold.Granted > int64(ttl) {
			r.renewed++
		}
		for _, l.Hold.Name = range l.Names {
			r.history = append(r.history, *l.Hold)
			r.names[l.Hold.Name] = true
		}
	case l.Forced != nil:
		r.forced = append(r.forced, *l.Forced)
	case l.Forgot != nil:
		r.forgot = append(r.forgot, *l.Forgot)
	case l.Done != nil:
		r.done = append(r.done, *l.Done)
	default:
		r.failed[l.Failed]++
	}
}

// run runs and judges. The error is of the machinery; what was found stands in the report.
func (c config) run(ctx context.Context, provider masters.Provider, progress io.Writer) (_ report, err error) {
	r := &running{
		config: c, claims: map[int]bool{}, faults: map[string]int{}, kinds: map[string]int{},
		names: map[string]bool{}, failed: map[string]int{},
	}
	for _, kept := range []bool{true, false} {
		spec, n := masters.Spec{}, nodes-durable
		if c.full {
			n++ // which is to take the place of the first, a durable one
		}
		if kept {
			spec.Args, n = []string{"--appendonly", "yes", "--appendfsync", "always"}, durable
		}
		fleet, err := masters.Launch(ctx, provider, n, spec)
		if err != nil {
			return report{}, errors.Join(err, masters.Remove(r.fleet))
		}
		r.fleet = append(r.fleet, fleet...)
	}
	defer func() { err = errors.Join(err, masters.Remove(r.fleet)) }()
	fmt.Fprintf(progress, "masters: %d %s, %d of them durable; seed %d\n", len(r.fleet), provider, durable, c.seed)

	for i := range c.clients {
		p, err := r.process(i)
		if err != nil {
			return report{}, err
		}
		r.processes = append(r.processes, p)
		if err := p.start(ctx); err != nil {
			return report{}, err
		}
	}
	if err := rest(ctx, c.guard+2*time.Second); err != nil { // the masters are new and abstain
		return report{}, err
	}
	began := time.Now()
	if err := rest(ctx, c.calm); err != nil {
		return report{}, err
	}
	first := time.Now()
	b := &breaking{running: r, ctx: ctx, random: rand.New(rand.NewPCG(c.seed, 0))}
	var changing errgroup.Group
	if c.full {
		changing.Go(func() error { return r.changeList(ctx) })
	}
	err = errors.Join(b.run(c.every, c.length), changing.Wait())
	last := time.Now()
	err = errors.Join(err, rest(ctx, c.calm))
	for _, p := range r.processes {
		err = errors.Join(err, p.end())
		for _, proxy := range p.network {
			proxy.Close()
		}
	}
	if err != nil {
		return report{}, err
	}
	return r.report(began, first, last)
}

// process makes a client with a network of its own. Every third one has little patience, so that what it asks for often
// comes when it no longer waits for it.
func (r *running) process(i int) (*process, error) {
	p := &process{take: r.take, told: settings{
		Name: fmt.Sprint("c", i), Guard: r.guard, NodeTimeout: 250 * time.Millisecond, Forces: r.full, Goroutines: r.workers,
	}}
	if i%3 == 2 {
		p.told.NodeTimeout = 50 * time.Millisecond
	}
	for _, n := range r.fleet {
		proxy, err := faultproxy.New(n.Addr())
		if err != nil {
			return nil, err
		}
		p.network = append(p.network, proxy)
	}
	p.told.Nodes = r.urls(p)[:nodes]
	return p, nil
}

// urls are those of all masters, as a client reaches them.
func (r *running) urls(p *process) (all []string) {
	for i, n := range r.fleet {
		all = append(all, n.URLAt(p.network[i].Addr()))
	}
	return all
}

// changeList replaces the first master by the last in the list of each client, in two steps.
func (r *running) changeList(ctx context.Context) error {
	for step := range 2 {
		if err := rest(ctx, r.length/4); err != nil {
			return err
		}
		for i, p := range r.processes {
			for !r.claim(len(r.fleet)+i, len(r.fleet)+i) { // else it may be stopped, or be started by others
				if err := rest(ctx, 10*time.Millisecond); err != nil {
					return err
				}
			}
			urls := r.urls(p)
			from, to := urls[1:], []string(nil)
			if step == 0 {
				from, to = urls[:nodes], urls[1:]
			}
			err := p.move(ctx, from, to)
			r.release(len(r.fleet) + i)
			if err != nil {
				return err
			}
			r.mu.Lock()
			r.moved++
			r.mu.Unlock()
		}
	}
	return nil
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
