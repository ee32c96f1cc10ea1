package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/runs"
	"github.com/quorumlock/redlock/internal/sim"
)

// jobRuns is how many runs of a job may begin.
const jobRuns = 3

// book is what is known of the jobs of a run, in true time.
type book struct {
	mu      sync.Mutex // protects the following fields
	calls   []*jobCall
	forgets map[string][]forgetting // by job: calls of Forget that may have changed something
}

type forgetting struct {
	asked, returned time.Time
	certain         bool // it returned nil
}

func (f forgetting) String() string {
	return fmt.Sprintf("%v to %v, nil: %t", since(f.asked), since(f.returned), f.certain)
}

type jobCall struct {
	name, who string
	client    string
	token     int64 // of its run
	asked     time.Time
	begun     time.Time // when its function was called; zero: it was not
	ended     time.Time // when that had returned
	worked    bool      // and had done its work
	uncounted bool      // for sure: no run was begun, or it was taken back
	returned  time.Time // zero: it never has
	told      told
}

// told is what a call of Once was told.
type told uint8

const (
	toldNothing told = iota // of the job: it was taken, for example
	toldFailed              // or lost
	toldUnclear
	toldSucceeded
	toldDone
	toldExhausted
)

func (t told) String() string {
	return [...]string{
		"nothing", "that it failed", "that nobody knows", "that it succeeded", "that it is done", "that it is exhausted",
	}[t]
}

func (c *jobCall) String() string {
	text := fmt.Sprintf("%s asked at %v", c.who, since(c.asked))
	if !c.begun.IsZero() {
		text += fmt.Sprintf(", ran from %v to %v", since(c.begun), since(c.ended))
		if c.worked {
			text += " and did the work"
		}
	}
	return fmt.Sprintf("%s, and was told %v at %v", text, c.told, since(c.returned))
}

func (b *book) add(c *jobCall) { b.note(func() { b.calls = append(b.calls, c) }) }

func (b *book) note(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}

// byName returns the calls of each job, in the order in which they were made.
func (b *book) byName() map[string][]*jobCall {
	b.mu.Lock()
	defer b.mu.Unlock()
	jobs := map[string][]*jobCall{}
	for _, c := range b.calls {
		jobs[c.name] = append(jobs[c.name], c)
	}
	return jobs
}

// check judges what does not rest on clocks: it must be so as long as nodes keep their data and remember jobs for
// longer than the run lasts. Nobody is told that a job is done or exhausted but by what was not forgotten before; and
// without a call of Forget between them that may have changed something, no two runs succeed, and no more begin than
// may. After what is never forgotten, none begins.
func (b *book) check(blame func(invariant, format string, args ...any)) {
	for name, calls := range b.byName() {
		forgets := b.forgets[name]
		checkRuns(name, calls, forgets, blame)
		if len(forgets) > 0 {
			continue
		}
		var over *jobCall // who was told that first
		for _, c := range calls {
			if c.told >= toldSucceeded && (over == nil || c.returned.Before(over.returned)) {
				over = c
			}
		}
		for _, c := range calls {
			both := c.told >= toldSucceeded && (c.told == toldExhausted) != (over.told == toldExhausted)
			if both || over != nil && c.begun.After(over.returned) {
				blame("runs", "%s: %v; then %v", name, over, c)
			}
		}
	}
}

func checkRuns(name string, calls []*jobCall, forgets []forgetting, blame func(invariant, format string, args ...any)) {
	for _, c := range calls {
		counts := 0 // calls that c may have been told of
		for _, r := range calls {
			forgotten := slices.ContainsFunc(forgets, func(f forgetting) bool {
				return f.certain && !r.returned.After(f.asked) && !f.returned.After(c.asked)
			})
			told := c.told == toldExhausted || c.told == toldDone && r.worked && r.told != toldFailed
			if told && r != c && !forgotten && !r.uncounted && r.asked.Before(c.returned) {
				counts++
			}
		}
		if c.told == toldDone && counts == 0 || c.told == toldExhausted && counts < jobRuns {
			blame("forgotten", "%s: %v, which was forgotten before: %v", name, c, forgets)
		}
	}
	runs := slices.DeleteFunc(slices.Clone(calls), func(c *jobCall) bool { return c.begun.IsZero() })
	slices.SortFunc(runs, func(a, b *jobCall) int { return a.begun.Compare(b.begun) })
	between := func(from, to time.Time) bool { // a call of Forget may have changed something then
		return slices.ContainsFunc(forgets, func(f forgetting) bool { return f.asked.Before(to) && f.returned.After(from) })
	}
	for i, r := range runs {
		for n, later := range runs[i+1:] {
			if between(r.asked, later.begun) {
				break
			}
			if r.told == toldSucceeded || n+1 >= jobRuns {
				blame("runs", "%s: %v; then, with nothing forgotten between, %v", name, r, later)
			}
		}
	}
}

// checkForgotten judges the same where jobs are remembered for a short time, the done TTL: nobody is told that a job is
// done unless by a run that may have succeeded, and that is not longer ago; and nobody begins another before.
func (b *book) checkForgotten(doneTTL time.Duration, blame func(invariant, format string, args ...any)) {
	// The text of a run that was sent at its end may live longer by what clocks differ by, and be gone earlier by what
	// they drift.
	const apart = 2 * time.Second
	drift := doneTTL/50 + 20*time.Millisecond
	for name, calls := range b.byName() {
		for _, c := range calls {
			var known []*jobCall // which c was told of, one of them
			for _, r := range calls {
				if r == c && c.told == toldSucceeded || c.told == toldDone && r.worked && r.told != toldFailed &&
					!r.ended.After(c.returned) && !c.asked.After(r.returned.Add(doneTTL+apart)) {
					known = append(known, r)
				}
			}
			if len(known) == 0 {
				if c.told == toldDone {
					blame("forgotten", "%s: %v, and no run can have succeeded for so long", name, c)
				}
				continue
			}
			first := slices.MinFunc(known, func(a, b *jobCall) int { return a.ended.Compare(b.ended) }).ended
			for _, r := range calls {
				if r.begun.After(c.returned) && r.begun.Before(first.Add(doneTTL-drift)) {
					blame("runs", "%s: %v; then %v", name, c, r)
				}
				if r != c && c.told == toldSucceeded && r.told == toldSucceeded && r.ended.Sub(c.ended).Abs() < doneTTL-drift {
					blame("runs", "%s: %v, and %v", name, c, r)
				}
			}
		}
	}
}

// checkRead judges what the rest is proved with: whoever begins a run has read what earlier ones left from a majority
// of nodes that knew its token by then, so that nothing comes after that which it would have had to know.
func (w *world) checkRead() {
	type look struct {
		at                time.Time
		node, client, key string
		token             int64
	}
	var looks []look
	for _, e := range w.result.events {
		if c := e.command; c != nil && strings.HasPrefix(c.Args[0], "eval") {
			for i, of := range inspected(c) {
				looks = append(looks, look{c.At, c.Node, c.Client, c.Args[3+i], of})
			}
		}
	}
	for name, calls := range w.jobs.byName() {
		for _, c := range calls {
			if c.begun.IsZero() {
				continue
			}
			read := map[string]bool{}
			for _, l := range looks {
				if l.key == name && l.client == c.client && l.token >= c.token && l.at.After(c.asked) && l.at.Before(c.begun) {
					read[l.node] = true
				}
			}
			if _, need := w.bearing(w.nodes); len(read) < need {
				w.blame("unread", "%s: %v, token %d, after it had read from %d nodes that knew of this token",
					name, c, c.token, len(read))
			}
		}
	}
}

// inspected returns the tokens that the answer to the script inspect tells of, one for each key, or nothing for other
// answers.
func inspected(c *sim.Command) (tokens []int64) {
	all, _ := c.Reply.([]any)
	for _, one := range all {
		parts, _ := one.([]any)
		if len(parts) != 10 {
			return nil
		}
		text, _ := parts[2].(string)
		token, _ := strconv.ParseFloat(text, 64)
		tokens = append(tokens, int64(token))
	}
	return tokens
}

// count returns how many runs there were, and how many jobs were over in the end.
func (b *book) count() (runs, over int) {
	for _, calls := range b.byName() {
		for _, c := range calls {
			if !c.begun.IsZero() {
				runs++
			}
		}
		if slices.ContainsFunc(calls, func(c *jobCall) bool { return c.told >= toldSucceeded }) {
			over++
		}
	}
	return runs, over
}

// JobScenario derives a scenario in which workers carry out jobs. In some of those in which nothing is forgotten and no
// clock is set, jobs are remembered for a short time, and what is on its way is at times stopped for longer than that.
// In others single links are slow or stopped, often and for about a TTL: then nodes differ in who has the lock, and in
// when they hear what became of a run.
func JobScenario(seed uint64) Scenario {
	s := ordinary(seed)
	s.Jobs, s.Habits.Part[Forget] = true, 0
	if r := rand.New(rand.NewPCG(seed, 0xf0e6e7)); s.Remembers() && r.IntN(3) == 0 {
		s.Habits.Part[Forget] = 0.3 * r.Float64()
	}
	if !s.Remembers() || !s.Sound {
		return s
	}
	switch r := rand.New(rand.NewPCG(seed, 0xd0e)); r.IntN(5) {
	case 0, 1:
		s.Habits.Part[Forget] = 0
		s.DoneTTL = max(2*s.TTL, 3*time.Second) + time.Duration(r.Int64N(int64(s.TTL)))
		s.Length = 5 * s.DoneTTL
		s.Strain = scaled(s.DoneTTL, r, 1./4, 2)
		s.Pace = max(s.Pace, s.DoneTTL/8)
		s.Habits.Rest = max(s.Habits.Rest, s.DoneTTL/16)
		s.Faults = append(s.Faults, repeated(r, "hold")...)
	case 2:
		s.Faults, s.Narrow = repeated(r, "delay", "hold", "pause"), 1
		s.Strain = scaled(s.TTL, r, 1./4, 2)
		s.Pace = scaled(s.TTL, r, 1./32, 1./4)
		s.Habits.Stay = scaled(s.TTL, r, 1./20, 1)
		s.Length = 48 * s.TTL
	default:
	}
	return s
}

// repeated returns each of the faults a few times, so that some strike more often than others.
func repeated(r *rand.Rand, names ...string) (list []fault) {
	for _, name := range names {
		f := menu[slices.IndexFunc(menu, func(f fault) bool { return f.name == name })]
		for range 1 + r.IntN(4) {
			list = append(list, f)
		}
	}
	return list
}

// job carries out the job of the time, if nobody else has.
func (w *worker) job() {
	name := fmt.Sprintf("job-%d", since(time.Now())/(4*w.scenario.TTL))
	if w.scenario.forgetsJobs() {
		name = "job"
	}
	opts := []redlock.OnceOption{redlock.WithMaxRuns(jobRuns), redlock.WithDoneTTL(w.scenario.DoneTTL)}
	instance := w.locker.Load()
	once, calls := instance.TryOnce, []Feature{Once, TryLock}
	if !w.inclined(w.scenario.Habits.Part[TryLock]) {
		once, calls[1] = instance.Once, Lock
	}
	if w.minded(w.scenario.Habits.Part[Forget]) {
		use := w.meetings.begin(Forget) // it lasts as long as the run that needs it: the call alone meets too little
		defer w.meetings.end(use)
		w.forget(name)
	}
	a := w.ask(scaled(w.scenario.TTL, w.apart, 1./4, 8), calls...)
	defer w.meetings.end(a.use)
	for _, o := range a.opts {
		opts = append(opts, o)
	}
	ctx, cancel := context.Background(), func() {}
	if patience := w.r.IntN(4); patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+w.r.Int64N(int64(w.scenario.TTL)<<patience)))
	}
	defer cancel()
	var watching sync.WaitGroup
	call := &jobCall{name: name, who: w.label, client: w.name, asked: time.Now()}
	w.jobs.add(call)
	a.outlasts(call.asked)
	err := once(ctx, name, func(ctx context.Context, running *redlock.Lock) error {
		lock := held{Lock: running, of: instance, kind: instance.kind, asking: a}
		hold := w.history.Granted("run of "+name, w.label, lock.Token(), call.asked, lock.Deadline())
		w.jobs.note(func() { call.begun, call.token = time.Now(), lock.Token() })
		w.log(w.label, "begins %s: token %d", name, lock.Token())
		watching.Go(func() { w.watch(lock, holds{hold}) })
		err := w.work(ctx, call, lock, hold)
		w.workOn(lock, holds{hold})
		w.jobs.note(func() { call.ended = time.Now() })
		w.history.Renewed(hold, lock.Deadline())
		w.history.Releasing(hold)
		return err
	}, opts...)
	watching.Wait()
	w.count("calls", 1)
	w.log(w.label, "Once %s: %s", name, kindOf(err))
	if called := !call.begun.IsZero(); called == errors.Is(err, redlock.ErrNotAcquired) {
		w.blame("outcome", "%s: its function was called: %t, and it was told %v", w.label, called, err)
	}
	notBegun := errors.Is(err, runs.ErrNotBegun)
	w.jobs.note(func() {
		if notBegun {
			call.begun = time.Time{}
		}
		call.returned, call.told = time.Now(), w.outcome(call, err)
		alone := err == runs.ErrNotBegun //nolint:errorlint // or it may have been counted
		call.uncounted = call.told >= toldDone || errors.Is(err, redlock.ErrTaken) || alone
	})
}

func (w *worker) forget(name string) {
	asked := time.Now()
	_, err := w.locker.Load().Forget(context.Background(), name, redlock.WithDoneTTL(w.scenario.DoneTTL))
	w.log(w.label, "Forget %s: %s", name, kindOf(err))
	if errors.Is(err, redlock.ErrTaken) {
		return
	}
	w.jobs.note(func() { w.jobs.forgets[name] = append(w.jobs.forgets[name], forgetting{asked, time.Now(), err == nil}) })
}

// outcome says what a call was told.
func (w *worker) outcome(c *jobCall, err error) told {
	lost, unclear := errors.Is(err, redlock.ErrLost), errors.Is(err, redlock.ErrNoQuorum)
	switch {
	case lost && unclear:
		w.blame("outcome", "%s: both lost and no quorum: %v", w.label, err)
		return toldFailed
	case err == nil:
		return toldSucceeded
	case errors.Is(err, redlock.ErrAlreadyRun):
		return toldDone
	case errors.Is(err, redlock.ErrRunsExhausted):
		return toldExhausted
	case c.begun.IsZero():
		return toldNothing
	case unclear:
		return toldUnclear
	default:
		return toldFailed
	}
}

var errWork = errors.New("failed")

// work is a run. It may ignore that its hold has ended, may fail, and its client may be killed under it.
func (w *worker) work(ctx context.Context, call *jobCall, lock held, hold *sim.Hold) error {
	stay := min(time.Duration(w.r.ExpFloat64()*float64(w.scenario.Habits.Stay)), 4*w.scenario.TTL) +
		time.Duration(w.r.IntN(1000))
	ended := ctx.Done()
	if w.r.IntN(3) == 0 {
		ended = nil
	}
	if !lasts(stay, ended) {
		return ctx.Err()
	}
	if lock.Err() == nil {
		w.history.Renewed(hold, lock.Deadline())
	}
	switch w.r.IntN(6) {
	case 0:
		if w.apart.IntN(2) == 0 {
			return runs.ErrNotBegun
		}
		return errWork
	case 1:
		w.restart() //nolint:contextcheck // a new process inherits nothing
		return errWork
	}
	w.jobs.note(func() { call.worked = true })
	if w.r.IntN(6) == 0 {
		w.restart() //nolint:contextcheck // after the work, and before anybody was told; see above
	}
	return nil
}

// endsJobs has the clients, one after the other, carry out two jobs on nodes that are in order: the one is done once,
// and the other, which fails, is tried as often as it may be.
func (w *world) endsJobs() {
	if !w.scenario.Jobs && w.scenario.Habits.Part[Once] == 0 {
		return
	}
	for _, of := range []struct {
		name      string
		run, over error
	}{{"to be done", nil, redlock.ErrAlreadyRun}, {"to be tried", errWork, redlock.ErrRunsExhausted}} {
		for i := range jobRuns + 1 {
			want := of.over
			if i == 0 || of.run != nil && i < jobRuns {
				want = of.run
			}
			err := w.clients[i%len(w.clients)].locker.Load().TryOnce(context.Background(), of.name,
				func(context.Context, *redlock.Lock) error { return of.run },
				redlock.WithMaxRuns(jobRuns), redlock.WithDoneTTL(w.scenario.DoneTTL))
			if !errors.Is(err, want) {
				w.blame("progress", "call %d of the job %s, all is in order: got %v, want %v", i+1, of.name, err, want)
			}
			w.quiet()
		}
	}
}
