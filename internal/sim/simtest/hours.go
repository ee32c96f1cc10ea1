package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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
	Done     int            // calls of Once that returned nil
	Told     map[string]int // what others were told
	Restarts int            // of nodes, while any process of the hour lived

	living int
}

// Hours is a run of many hours.
type Hours struct {
	*world
	List     []*Hour
	Restarts int
}

// RunHours runs so many hours. It must be called in a synctest bubble.
func RunHours(seed uint64, hours int) (*Hours, *Result) {
	w := &Hours{world: newWorld(Scenario{Seed: seed, Nodes: 5, Delay: sim.LAN})}
	defer w.close()
	stop := make(chan struct{})
	var breaking, processes sync.WaitGroup
	breaking.Go(func() { w.breakNodes(stop) })
	for h := range hours {
		hour := &Hour{Name: fmt.Sprintf("report-%02dT%02d", 1+h/24, h%24), Told: map[string]int{}}
		w.note(func() { w.List = append(w.List, hour) })
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
	for _, h := range w.List {
		h.judge(w.world)
	}
	return w, w.result
}

// note changes the hours, which several processes do.
func (w *Hours) note(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	what()
}

// breakNodes kills a node now and then. It comes back empty, and the next one has to wait until its vote counts again.
func (w *Hours) breakNodes(stop <-chan struct{}) {
	r := rand.New(rand.NewPCG(w.scenario.Seed, 0xdead))
	for {
		select {
		case <-stop:
			return
		case <-time.After(40*time.Second + time.Duration(r.ExpFloat64()*float64(3*time.Minute))):
		}
		n := w.nodes[r.IntN(len(w.nodes))]
		n.Crash(false)
		w.note(func() {
			w.Restarts++
			for _, h := range w.List {
				if h.living > 0 {
					h.Restarts++
				}
			}
		})
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
	p.note(func() { p.hour.living++ })
	defer p.note(func() { p.hour.living-- })
	for lives := 1; p.once(lives) && p.r.IntN(3) == 0; lives++ {
		time.Sleep(time.Minute) // somebody starts it again by hand
	}
}

// once is one life of the process. It reports whether that ended in a crash.
func (p *process) once(life int) (crashed bool) {
	client := fmt.Sprintf("%s.%d@%s", p.label, life, p.hour.Name)
	reached := redlock.NodeConfig{Dial: p.net.Dialer(client)}
	locker, err := redlock.New(urls(p.nodes), redlock.WithNodeConfig(reached), redlock.WithMaxRuns(hourRuns))
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
	err = locker.Once(context.Background(), p.hour.Name, func(ctx context.Context, _ *redlock.Lock) error {
		run := HourRun{Process: fmt.Sprintf("%s.%d", p.label, life), Begun: time.Now()}
		defer func() {
			run.Ended = time.Now()
			p.note(func() { p.hour.Runs = append(p.hour.Runs, run) })
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
	}, redlock.WithPollInterval(2*time.Second, 8*time.Second))
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
	what := ""
	switch {
	case crashed:
		if err == nil {
			p.blame("jobs", "%s: Once returned nil to a process that had crashed", p.hour.Name)
		}
	case err == nil:
		p.note(func() { p.hour.Done++ })
	case errors.Is(err, redlock.ErrAlreadyRun):
		what = "done"
	case errors.Is(err, redlock.ErrRunsExhausted):
		what = "exhausted"
	case errors.Is(err, redlock.ErrLost):
		what = "lost" // as the run was, or judge blames it
	case err.Error() != "the report could not be made":
		p.blame("jobs", "%s: %s got %v", p.hour.Name, p.label, err)
	}
	if what != "" {
		p.note(func() { p.hour.Told[what]++ })
	}
}

// judge checks what is promised: one success, or exactly as many runs as may be; never two at once; nobody was told
// what is not so.
func (h *Hour) judge(w *world) {
	blame := func(format string, args ...any) { w.blame("jobs", h.Name+": "+format, args...) }
	slices.SortFunc(h.Runs, func(a, b HourRun) int { return a.Begun.Compare(b.Begun) })
	count := map[string]int{}
	for i, r := range h.Runs {
		count[r.How]++
		if i > 0 && r.Begun.Before(h.Runs[i-1].Ended) {
			blame("%s began before %s had ended", r.Process, h.Runs[i-1].Process)
		}
		if i > 0 && h.Runs[i-1].How == ranOK {
			blame("%s began after a success", r.Process)
		}
	}
	switch {
	case len(h.Runs) > hourRuns:
		blame("%d runs", len(h.Runs))
	case h.Done > 1 || h.Done != count[ranOK]:
		blame("%d runs went well, %d were told so", count[ranOK], h.Done)
	case h.Told["lost"] != count[ranLost]:
		blame("%d runs lost their holds, %d were told so", count[ranLost], h.Told["lost"])
	case h.Done == 0 && len(h.Runs) != hourRuns:
		blame("neither done nor exhausted after %d runs", len(h.Runs))
	case h.Done == 0 && (h.Told["done"] > 0 || h.Told["exhausted"] == 0), h.Done == 1 && h.Told["exhausted"] > 0:
		blame("done %d times, and others were told %v", h.Done, h.Told)
	}
}

// String tells what became of the job.
func (h *Hour) String() string {
	var runs []string
	for _, r := range h.Runs {
		runs = append(runs, fmt.Sprintf("%s %s (%s)", r.Process, r.How, r.Ended.Sub(r.Begun).Truncate(time.Second)))
	}
	return fmt.Sprintf("%s: %d done, others were told %v, %d nodes restarted; runs: %s",
		h.Name, h.Done, h.Told, h.Restarts, strings.Join(runs, ", "))
}
