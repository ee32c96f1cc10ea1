package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/integration/tokens"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

const nodes = 5

// config is the size of a run.
type config struct {
	acquisitions int           // at least so many
	length       time.Duration // and for at least so long
	ttl          time.Duration
	guard        time.Duration // the clients' restart guard; 0: none
	down         time.Duration // how long a killed master stays down at least
	seed         uint64
	lockers      int           // clients, each with a network of its own
	workers      int           // goroutines of each
	hot, warm    int           // names that all want, and names that are wanted now and then
	every        time.Duration // how often to tell of the progress
}

// excludes reports whether holds exclude each other in spite of masters that
// forget: those must be out of the vote for one TTL, by the guard or by the
// outage. Else they overlap now and then, and the tokens must be in order all the same.
func (c config) excludes() bool { return c.guard >= c.ttl || c.down >= c.ttl }

// soaking is a run.
type soaking struct {
	config
	fleet    []*masters.Node
	networks [][]*faultproxy.Proxy // by locker, by node
	start    time.Time
	next     atomic.Int64 // attempts begun: what the pace is kept with
	granted  atomic.Int64
	counts   counts
}

// soak runs and judges. The error is of the machinery; what was found stands in the report.
func soak(ctx context.Context, c config, provider masters.Provider, progress io.Writer) (_ report, err error) {
	s := &soaking{config: c}
	if s.fleet, err = masters.Launch(ctx, provider, nodes, masters.Spec{}); err != nil {
		return report{}, err
	}
	defer func() { err = errors.Join(err, masters.Remove(s.fleet)) }()
	fmt.Fprintf(progress, "masters: %d %s; seed %d\n", nodes, provider, c.seed)

	var lockers []*redlock.Locker
	for range c.lockers {
		l, err := s.locker()
		if err != nil {
			return report{}, err
		}
		lockers = append(lockers, l)
	}
	s.start = time.Now()
	working, stopWork := context.WithCancel(ctx)
	defer stopWork()
	histories := make([][]tokens.Hold, c.lockers*c.workers)
	var workers, others sync.WaitGroup
	for i := range histories {
		random := rand.New(rand.NewPCG(c.seed, uint64(i)))
		workers.Go(func() { histories[i] = s.work(working, lockers[i/c.workers], random) })
	}
	breaking, stopFaults := context.WithCancel(ctx)
	defer stopFaults()
	var faults [3]error
	for i, cause := range []func(context.Context, *rand.Rand) error{s.breakNodes, s.breakNetworks, s.flushScripts} {
		random := rand.New(rand.NewPCG(c.seed, uint64(1<<32+i)))
		others.Go(func() { faults[i] = cause(breaking, random) })
	}

	s.watch(ctx, progress)
	stopFaults() // each fault is ended first
	others.Wait()
	stopWork()
	workers.Wait()
	took := time.Since(s.start)
	for _, l := range lockers {
		err = errors.Join(err, l.Close())
	}
	for _, network := range s.networks {
		for _, p := range network {
			p.Close()
		}
	}
	if err := errors.Join(append(faults[:], err, ctx.Err())...); err != nil {
		return report{}, err
	}
	return s.report(histories, took)
}

// locker makes a client with a network of its own.
func (s *soaking) locker() (*redlock.Locker, error) {
	var network []*faultproxy.Proxy
	var urls []string
	for _, n := range s.fleet {
		p, err := faultproxy.New(n.Addr())
		if err != nil {
			return nil, err
		}
		network, urls = append(network, p), append(urls, n.URLAt(p.Addr()))
	}
	s.networks = append(s.networks, network)
	return redlock.New(urls, redlock.WithTTL(s.ttl), redlock.WithRestartGuard(s.guard))
}

// watch returns when there is enough of everything, or far too late.
func (s *soaking) watch(ctx context.Context, progress io.Writer) {
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	check := time.NewTicker(100 * time.Millisecond)
	defer check.Stop()
	for {
		select {
		case <-tick.C:
			fmt.Fprintf(progress, "%6.0fs %9d acquired; %s\n",
				time.Since(s.start).Seconds(), s.granted.Load(), s.counts.faults())
		case <-check.C:
			ran := time.Since(s.start)
			if ran >= s.length && s.granted.Load() >= int64(s.acquisitions) && s.lacks() == nil || ran > 3*s.length+time.Minute {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// now is the time of the history.
func (s *soaking) now() time.Duration { return time.Since(s.start) }

// pace spreads the acquisitions over the length of the run: a fault that comes
// when all is over proves nothing.
func (s *soaking) pace() {
	rate := 1.1 * float64(s.acquisitions) / s.length.Seconds()
	due := time.Duration(float64(s.next.Add(1)) / rate * float64(time.Second))
	time.Sleep(due - s.now())
}

// work acquires one lock after the other until ctx is done.
func (s *soaking) work(ctx context.Context, l *redlock.Locker, random *rand.Rand) (history []tokens.Hold) {
	for {
		s.pace()
		if ctx.Err() != nil {
			return history
		}
		name := int32(s.hot + random.IntN(s.warm))
		if random.IntN(6) == 0 {
			name = int32(random.IntN(s.hot))
		}
		if h, ok := s.acquire(ctx, l, random, name); ok {
			history = append(history, h)
			s.granted.Add(1)
		}
	}
}

// acquire acquires, holds and unlocks once.
func (s *soaking) acquire(ctx context.Context, l *redlock.Locker, random *rand.Rand, name int32) (tokens.Hold, bool) {
	var opts []redlock.Option
	rest := time.Duration(0)
	switch dice := random.IntN(1000); {
	case dice < 2 && name >= int32(s.hot): // renewed a few times, through faults
		rest = time.Duration(float64(s.ttl) * (1 + random.Float64()))
	case dice < 12 && name >= int32(s.hot): // outlived
		opts = append(opts, redlock.WithTTL(s.ttl/4), redlock.WithoutRenewal())
		rest = s.ttl / 3
	case dice < 300 && name < int32(s.hot): // competitors find it taken
		rest = time.Duration(random.IntN(10000)) * time.Microsecond
	case dice < 300:
		rest = time.Duration(random.IntN(1000)) * time.Microsecond
	}
	waiting, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	lock, oneIn := l.Lock, 10
	if name < int32(s.hot) {
		oneIn = 3 // where a competitor is found often enough for some to be refused
	}
	if random.IntN(oneIn) == 0 {
		lock = l.TryLock
	}
	h := tokens.Hold{Name: name, Asked: s.now()}
	k, err := lock(waiting, fmt.Sprintf("name %d", name), opts...)
	h.Granted = s.now()
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return h, false
	case errors.Is(err, redlock.ErrTaken):
		s.counts.taken.Add(1)
		return h, false
	default:
		s.counts.noQuorum.Add(1)
		return h, false
	}
	h.Token = k.Token()
	if rest > 0 {
		// A hold may also end early, by a majority's word. Its holder is told, and
		// the next one may come.
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-k.Done():
		}
		timer.Stop()
	}
	h.Ended = min(s.now(), k.Until().Sub(s.start))
	if k.Err() != nil && h.Ended < k.Until().Sub(s.start) {
		s.counts.early.Add(1)
	}
	switch err := k.Unlock(ctx); {
	case errors.Is(err, redlock.ErrLost):
		s.counts.lost.Add(1)
	case err != nil:
		s.counts.unconfirmed.Add(1)
	}
	return h, true
}
