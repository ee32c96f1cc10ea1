package simtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// jobRuns is how many runs of a job may begin.
const jobRuns = 3

// book is what is known of the jobs of a run, in true time.
type book struct {
	mu   sync.Mutex // protects the following fields
	jobs map[string]*jobHistory
}

// jobHistory is what became of one job.
type jobHistory struct {
	begun     []time.Time // when its function was called
	worked    time.Time   // when a call of it had first done its work
	over      time.Time   // when somebody was first told that it is done, or exhausted
	succeeded int         // how many were told that their own run had
	done      int         // how many were told that another's had
	exhausted int
}

func (b *book) note(name string, f func(j *jobHistory)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.jobs == nil {
		b.jobs = map[string]*jobHistory{}
	}
	if b.jobs[name] == nil {
		b.jobs[name] = &jobHistory{}
	}
	f(b.jobs[name])
}

// check judges what does not rest on clocks: it must be so as long as nodes keep their data.
func (b *book) check(blame func(invariant, format string, args ...any)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, j := range b.jobs {
		late := 0
		for _, t := range j.begun {
			if !j.over.IsZero() && t.After(j.over) {
				late++
			}
		}
		said := fmt.Sprintf("%s: %d runs, %d succeeded; others were told %d times that it is done, %d times that it is exhausted", name, len(j.begun), j.succeeded, j.done, j.exhausted)
		switch {
		case len(j.begun) > jobRuns:
			blame("runs", "%s: more than may be", said)
		case j.succeeded > 1:
			blame("runs", "%s: more than one", said)
		case late > 0:
			blame("runs", "%s: %d began after that was known", said, late)
		case j.done > 0 && j.worked.IsZero():
			blame("runs", "%s: nobody has done it", said)
		case j.exhausted > 0 && j.succeeded+j.done > 0:
			blame("runs", "%s: both", said)
		}
	}
}

// count returns how many runs there were, and how many jobs were over in the end.
func (b *book) count() (runs, over int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, j := range b.jobs {
		runs += len(j.begun)
		if !j.over.IsZero() {
			over++
		}
	}
	return runs, over
}

// job carries out the job of the time, if nobody else has.
func (w *worker) job() {
	name := fmt.Sprintf("job-%d", since(time.Now())/(4*w.scenario.TTL))
	opts := []redlock.Option{redlock.WithBackoff(w.backoff), redlock.WithMaxRuns(jobRuns), redlock.WithDoneTTL(time.Hour)}
	if !w.inclined(w.scenario.Habits.Renew) {
		opts = append(opts, redlock.WithoutRenewal())
	}
	if w.inclined(w.scenario.Habits.Try) {
		opts = append(opts, redlock.WithMaxAttempts(1))
	}
	ctx, cancel := context.Background(), func() {}
	if patience := w.r.IntN(4); patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+w.r.Int64N(int64(w.scenario.TTL)<<patience)))
	}
	defer cancel()
	var watching sync.WaitGroup
	asked := time.Now()
	err := w.locker.Load().Once(ctx, name, func(ctx context.Context) error {
		lock, _ := redlock.FromContext(ctx)
		hold := w.history.Granted("run of "+name, w.label, lock.Token(), asked, lock.Until())
		w.jobs.note(name, func(j *jobHistory) { j.begun = append(j.begun, time.Now()) })
		w.log(w.label, "begins %s: token %d", name, lock.Token())
		watching.Go(func() { w.watch(lock, holds{hold}) })
		err := w.work(ctx, name, lock, hold)
		w.history.Renewed(hold, lock.Until())
		w.history.Releasing(hold)
		return err
	}, opts...)
	watching.Wait()
	w.result.Calls.Add(1)
	w.log(w.label, "Once %s: %s", name, kindOf(err))
	w.jobs.note(name, func(j *jobHistory) {
		switch {
		case err == nil:
			j.succeeded++
		case errors.Is(err, redlock.ErrDone):
			j.done++
		case errors.Is(err, redlock.ErrExhausted):
			j.exhausted++
		default:
			return
		}
		if j.over.IsZero() {
			j.over = time.Now()
		}
	})
}

var errWork = errors.New("failed")

// work is a run. It may ignore that its hold has ended, may fail, and its client may be killed under it.
func (w *worker) work(ctx context.Context, name string, lock *redlock.Lock, hold *sim.Hold) error {
	stay := time.NewTimer(min(time.Duration(w.r.ExpFloat64()*float64(w.scenario.Habits.Stay)), 4*w.scenario.TTL) + time.Duration(w.r.IntN(1000)))
	defer stay.Stop()
	ended := ctx.Done()
	if w.r.IntN(3) == 0 {
		ended = nil
	}
	select {
	case <-ended:
		return ctx.Err()
	case <-stay.C:
	}
	if lock.Err() == nil {
		w.history.Renewed(hold, lock.Until())
	}
	switch w.r.IntN(6) {
	case 0:
		return errWork
	case 1:
		w.restart() //nolint:contextcheck // a new process inherits nothing
		return errWork
	}
	w.jobs.note(name, func(j *jobHistory) {
		if j.worked.IsZero() {
			j.worked = time.Now()
		}
	})
	if w.r.IntN(6) == 0 {
		w.restart() //nolint:contextcheck // after the work, and before anybody was told; see above
	}
	return nil
}
