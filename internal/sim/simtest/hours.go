package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// The job of the hour: cron starts it on every machine, each hour has a name of its own, and Locker.Once is to have it
// carried out once. Processes crash in the middle of it, or fail; nodes die and come back empty, one at a time.
const (
	machines = 5
	hourRuns = 3
)

// HourRun is one call of the job, as whoever carried it out saw it.
type HourRun struct {
	Process      string
	Begun, Ended time.Time
	How          string // one of the below
}

// How a run ends.
const (
	ranOK      = "ok"
	ranFailed  = "failed"
	ranCrashed = "crashed"
	// The work was done, and the process died before anybody was told: nobody can know, so it counts as a crash, and the
	// job is run again.
	ranGap  = "crashed after its work"
	ranLost = "lost its hold"
)

// Hour is what became of one hour's job.
type Hour struct {
	Name     string
	Runs     []HourRun
	Done     int // calls of Once that returned nil
	Told     map[string]int
	Restarts int // of nodes, while any process of the hour lived

	living int
}

// Hours is a run of many hours.
type Hours struct {
	Seed       uint64
	List       []*Hour
	Restarts   int
	Violations []string

	mu    sync.Mutex // protects all of the above, and the hours
	net   *sim.Network
	nodes []*sim.Node
}

// RunHours runs so many hours. It must be called in a synctest bubble.
func RunHours(seed uint64, hours int) *Hours {
	w := &Hours{Seed: seed, net: sim.NewNetwork(seed)}
	for i := range 5 {
		n := sim.NewNode(fmt.Sprintf("n%d:6379", i), seed)
		w.nodes = append(w.nodes, n)
	}
	w.net.Attach(w.nodes...)
	w.net.SetDelay(sim.Link{}, sim.Both, sim.LAN)
	stop := make(chan struct{})
	var breaking, processes sync.WaitGroup
	breaking.Go(func() { w.breakNodes(stop) })
	for h := range hours {
		hour := &Hour{Name: fmt.Sprintf("report-%02dT%02d", 1+h/24, h%24), Told: map[string]int{}}
		w.mu.Lock()
		w.List = append(w.List, hour)
		w.mu.Unlock()
		r := rand.New(rand.NewPCG(seed, uint64(h)))
		doomed := r.IntN(8) == 0 // whoever tries fails
		for m := range machines {
			p := &process{
				Hours: w, hour: hour, label: fmt.Sprintf("m%d", m), doomed: doomed,
				r: rand.New(rand.NewPCG(seed, uint64(1000+10*h+m))),
			}
			processes.Go(p.live)
		}
		time.Sleep(time.Hour)
	}
	processes.Wait()
	close(stop)
	breaking.Wait()
	for _, n := range w.nodes {
		n.Close()
	}
	for _, h := range w.List {
		h.judge(w.blame)
	}
	return w
}

func (w *Hours) blame(format string, args ...any) {
	w.Violations = append(w.Violations, fmt.Sprintf(format, args...))
}

// breakNodes kills a node now and then. It comes back empty, and the next one has to wait until its vote counts again.
func (w *Hours) breakNodes(stop <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.Seed, 0xdead))
	for {
		select {
		case <-stop:
			return
		case <-time.After(40*time.Second + time.Duration(r.ExpFloat64()*float64(3*time.Minute))):
		}
		n := w.nodes[r.IntN(len(w.nodes))]
		n.Crash(false)
		w.mu.Lock()
		w.Restarts++
		for _, h := range w.List {
			if h.living > 0 {
				h.Restarts++
			}
		}
		w.mu.Unlock()
		time.Sleep(time.Duration(1 + r.Int64N(int64(time.Minute))))
		n.Restart()
	}
}

// process is what cron has started on one machine.
type process struct {
	*Hours
	hour   *Hour
	label  string
	doomed bool
	r      *rand.Rand
}

func (p *process) live() {
	time.Sleep(time.Duration(p.r.Int64N(int64(10 * time.Second)))) // machines do not start at one instant
	p.count(+1)
	defer p.count(-1)
	for lives := 1; p.once(lives) && p.r.IntN(3) == 0; lives++ {
		time.Sleep(time.Minute) // somebody starts it again by hand
	}
}

func (p *process) count(by int) {
	p.mu.Lock()
	p.hour.living += by
	p.mu.Unlock()
}

// once is one life of the process. It reports whether that ended in a crash.
func (p *process) once(life int) (crashed bool) {
	client := fmt.Sprintf("%s.%d@%s", p.label, life, p.hour.Name)
	var urls []string
	for _, n := range p.nodes {
		urls = append(urls, "redis://"+n.Addr())
	}
	locker, err := redlock.New(urls, redlock.WithDialer(p.net.Dialer(client)), redlock.WithMaxRuns(hourRuns))
	if err != nil {
		panic(err)
	}
	defer locker.Close()
	die := func() {
		crashed = true
		for _, n := range p.nodes {
			p.net.Cut(sim.Link{Client: client, Node: n.Addr()})
		}
		_ = locker.Close()
	}
	err = locker.Once(context.Background(), p.hour.Name, func(ctx context.Context) error {
		run := HourRun{Process: fmt.Sprintf("%s.%d", p.label, life), Begun: time.Now()}
		defer func() {
			run.Ended = time.Now()
			p.mu.Lock()
			p.hour.Runs = append(p.hour.Runs, run)
			p.mu.Unlock()
		}()
		length := 20*time.Second + time.Duration(p.r.Int64N(int64(3*time.Minute)))
		how := p.draw()
		if how == ranCrashed {
			length = time.Duration(p.r.Int64N(int64(length)))
		}
		select {
		case <-time.After(length):
			run.How = how
		case <-ctx.Done():
			run.How = ranLost
		}
		switch run.How {
		case ranCrashed, ranGap:
			die()
		case ranFailed:
			return errors.New("the report could not be made")
		}
		return nil
	}, redlock.WithBackoff(redlock.Jitter(2*time.Second, 8*time.Second)))
	p.told(err, crashed)
	return crashed
}

func (p *process) draw() string {
	switch n := p.r.IntN(100); {
	case n < 25, p.doomed && n < 60:
		return ranCrashed
	case n < 40, p.doomed:
		return ranFailed
	case n < 47:
		return ranGap
	default:
		return ranOK
	}
}

func (p *process) told(err error, crashed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case crashed:
		if err == nil {
			p.blame("%s: Once returned nil to a process that had crashed", p.hour.Name)
		}
	case err == nil:
		p.hour.Done++
	case errors.Is(err, redlock.ErrDone):
		p.hour.Told["done"]++
	case errors.Is(err, redlock.ErrExhausted):
		p.hour.Told["exhausted"]++
	case errors.Is(err, redlock.ErrLost):
		p.hour.Told["lost"]++ // as the run was, or judge blames it
	case err.Error() != "the report could not be made":
		p.blame("%s: %s got %v", p.hour.Name, p.label, err)
	}
}
