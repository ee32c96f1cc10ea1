package simtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/sim"
)

// client is one Locker, used by several workers.
type client struct {
	*world
	name     string
	set      settings
	locker   atomic.Pointer[instance] // replaced when the client is restarted
	changing chan struct{}            // a mutex for that: a channel, since whoever has it waits in virtual time

	mu      sync.Mutex // protects the field below
	permits map[permits]*redlock.Semaphore
}

// instance is a Locker, and what kind of client it makes.
type instance struct {
	*redlock.Locker
	kind    *kind
	timeout time.Duration
	since   time.Time
	over    atomic.Bool // Shutdown has returned nil
	cut     atomic.Bool // a hold has ended because the Locker was closed
}

// shut closes a Locker at once or, as a deployment does it, in good order, as far as its patience goes: no hold ends by
// that, and nothing is acquired afterwards.
func (w *world) shut(who string, l *instance) {
	r := rand.New(rand.NewPCG(w.scenario.Seed, uint64(time.Now().UnixNano())))
	if r.IntN(2) == 0 {
		_ = l.Close()
		return
	}
	asked, patience := time.Now(), scaled(w.scenario.TTL, r, 1./32, 4)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := l.Shutdown(ctx)
	took := time.Since(asked)
	w.log(who, "Shutdown: %s", kindOf(err))
	w.count("shut down", 1)
	if most := patience + 2*w.scenario.slowest() + time.Millisecond; took > most {
		w.blame("bounded", "%s: Shutdown took %v, want %v at most", who, took, most)
	}
	l.over.Store(err == nil)
	w.cuts(who, l)
	if _, err = l.TryLock(context.Background(), "free"); !errors.Is(err, redlock.ErrClosed) {
		w.blame("honesty", "%s: TryLock after Shutdown: %v", who, err)
	}
}

// cuts judges whether Shutdown has ended a hold.
func (w *world) cuts(who string, l *instance) {
	if l.over.Load() && l.cut.Load() {
		w.blame("honesty", "%s: Shutdown has ended a hold, and returned nil", who)
	}
}

// kind is which lists of nodes a client votes with.
type kind struct {
	name  string
	lists [][]*sim.Node // one, or two while nodes are changed
}

// held is a lock, and what kind of client got it.
type held struct {
	*redlock.Lock
	of   *instance
	kind *kind
	*asking
	reads bool
	// ends ends a hold of Do, and returns what Unlock has returned there; nil: it is none.
	ends func() error
}

func (h held) Unlock() error {
	if h.ends != nil {
		return h.ends()
	}
	return h.Lock.Unlock()
}

// outlasts notes that the validity of a hold counts from an instant that is not before this one.
func (a *asking) outlasts(begun time.Time) {
	if until := begun.Add(a.validity()); until.After(a.valid) {
		a.valid = until
	}
}

// permits names a Semaphore of one of the client's Lockers.
type permits struct {
	locker *redlock.Locker
	name   string
}

// semaphore returns the Semaphore that all workers have together, or one of the caller's own.
func (c *client) semaphore(locker *redlock.Locker, name string) *redlock.Semaphore {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.scenario.Habits.Share {
		return locker.Semaphore(name, c.scenario.Permits)
	}
	key := permits{locker, name}
	if c.permits[key] == nil {
		c.permits[key] = locker.Semaphore(name, c.scenario.Permits)
	}
	return c.permits[key]
}

// restart closes the client's Locker under whatever the workers are doing with it, and makes another one: a process
// that was deployed anew. The new one knows nothing, and may at first reach other nodes than the old one did.
func (w *worker) restart() {
	w.changing <- struct{}{}
	defer func() { <-w.changing }()
	w.log(w.label, "restarts its client")
	use := w.meetings.begin(Restart)
	defer w.meetings.end(use)
	old := w.locker.Load()
	w.locker.Store(w.connect(w.name, old.kind))
	w.shut(w.label, old)
	if w.crowd != nil {
		w.crowd.closed()
	}
	w.log(w.label, "has restarted its client")
}

// worker locks and unlocks until the end.
type worker struct {
	*client
	label string
	eager bool // it does what it may do
	r     *rand.Rand
	apart *rand.Rand // decides what came later: the others of a seed's draws stay what they were
}

func (w *worker) run(end time.Time) {
	for {
		w.rest(0, w.scenario.Habits.Rest)
		switch {
		case time.Now().After(end):
			return
		case w.r.IntN(40) == 0:
			w.restart()
		case w.scenario.Jobs || w.minded(w.scenario.Habits.Part[Once]):
			w.job()
		case w.minded(w.scenario.Habits.Part[ForceUnlock]):
			w.revoke()
		case w.minded(w.scenario.Habits.Part[Inspect]):
			w.looks(w.label, w.locker.Load().Inspector(), w.apart)
		case w.minded(w.scenario.Habits.Part[Check]):
			w.checks(w.locker.Load().Locker, w.someKey(w.apart))
		case w.minded(w.scenario.Habits.Part[Status]):
			w.status()
		default:
			w.once()
		}
	}
}

// rest sleeps for a random time. Its nanoseconds keep the events of workers apart.
func (w *worker) rest(shortest, longest time.Duration) {
	time.Sleep(shortest + time.Duration(w.r.Int64N(int64(longest-shortest))) + 1)
}

// inclined draws what a habit says.
func (w *worker) inclined(part float64) bool { return w.r.Float64() < part }

// minded does, too, but draws nothing where the scenario does not have the habit.
func (w *worker) minded(part float64) bool { return part > 0 && (w.eager || w.apart.Float64() < part) }

// wish is what a worker asks for.
type wish struct {
	names         []string
	permit, reads bool
	tries, does   bool // by TryLock and its like, by Do
	patience      time.Duration
}

func (w *worker) wishes() wish {
	x := wish{names: []string{names[w.r.IntN(w.scenario.Names)]}}
	// Longer than anybody can have to wait: the others of the run end what they do when it is over, and the nodes are
	// well again soon after.
	x.patience = time.Until(w.ending) + w.scenario.settle() + 300*w.scenario.TTL
	if w.crowd != nil && w.apart.IntN(3) > 0 { // else hardly anybody would have a lock
		x.names[0] = fmt.Sprintf("mine:%s", w.name)
	}
	part := &w.scenario.Habits.Part
	x.permit = w.minded(w.scenario.permits())
	if n := w.scenario.Names; n > 1 && !x.permit && w.inclined(part[LockAll]) {
		x.names = nil
		for _, i := range w.r.Perm(n)[:2+w.r.IntN(n-1)] { // in any order, and overlapping
			x.names = append(x.names, names[i])
		}
	}
	if most := w.r.IntN(4); most > 0 {
		x.patience = time.Duration(1 + w.r.Int64N(int64(w.scenario.TTL)<<most>>2))
	}
	if w.minded(w.scenario.Habits.Hasty) {
		x.patience = scaled(w.scenario.TTL, w.apart, 1./32, 1./2)
	}
	x.tries = w.inclined(part[TryLock])
	x.reads = !x.permit && len(x.names) == 1 && w.minded(part[RLock])
	x.does = !x.tries && len(x.names) == 1 && w.minded(part[Do])
	return x
}

// calls are the features of the call for it.
func (x wish) calls() (calls []Feature) {
	for f, is := range map[Feature]bool{
		Lock: !x.tries, TryLock: x.tries, Acquire: x.permit, LockAll: len(x.names) > 1, RLock: x.reads, Do: x.does,
	} {
		if is {
			calls = append(calls, f)
		}
	}
	return calls
}

// once makes one attempt at one lock, or at several, and, if it succeeds, holds it for a while.
func (w *worker) once() {
	x := w.wishes()
	a := w.ask(x.patience, x.calls()...)
	defer w.meetings.end(a.use)
	if a.names = x.names; !x.tries {
		a.waits = 1
	}
	w.awaits(a.names, a.waits)
	ctx, cancel := context.WithCancel(context.Background())
	if !a.bounded {
		ctx, cancel = context.WithTimeout(context.Background(), x.patience)
	}
	defer cancel()
	instance := w.locker.Load()
	verb, acquire := w.call(instance.Locker, x.names, x.tries, x.reads, x.permit)
	var ends func() error
	if x.does {
		verb, acquire = verb+" by Do", w.toDo(instance.Locker, x.reads, x.permit, &ends)
	}
	asked := time.Now()
	lock, err := acquire(ctx, strings.Join(x.names, " "), a.opts...)
	w.count("calls", 1)
	switch {
	case x.tries && x.permit:
		w.bounded(verb, asked, 3*w.set.timeout)
	case x.tries:
		w.bounded(verb, asked, w.set.timeout)
	case time.Since(asked) > 2*w.roundTrip():
		w.meetings.does(a.use, Queued)
	}
	if err != nil {
		w.failed(verb, asked, a, err)
		w.unlucky(verb, x, asked, ctx.Err() != nil || errors.Is(err, redlock.ErrMaxWait), err)
		return
	}
	if x.permit {
		x.names = []string{lock.Name()} // the slot's: it excludes like any lock, so no more have one than there are slots
	}
	a.outlasts(asked)
	w.has(verb, x.names, held{lock, instance, instance.kind, a, x.reads, ends})
}

// unlucky judges that a worker got nothing: with its patience at an end, it must not have waited since long after the
// last fault.
func (w *worker) unlucky(verb string, x wish, asked time.Time, ended bool, err error) {
	name := strings.Join(x.names, " ")
	w.log(w.label, "%s %s: %s", verb, name, kindOf(err))
	if ended && asked.Add(x.patience).After(w.ending.Add(w.scenario.settle())) {
		w.blame("progress", "%s: %s %s got nothing in %v, long after the last fault: %v",
			w.label, verb, name, time.Since(asked), err)
	}
}

// failed judges the error of a call that has acquired nothing.
func (w *worker) failed(verb string, asked time.Time, a *asking, err error) {
	if w.refused(w.label, err); !errors.Is(err, redlock.ErrNotAcquired) {
		w.blame("honesty", "%s: %s got nothing, and the error does not say so: %v", w.label, verb, err)
	}
	if errors.Is(err, redlock.ErrNoQuorum) && !errors.Is(err, redlock.ErrClosed) {
		w.count("out of reach", 1)
		w.reached(verb, asked, a, err)
	}
}

// has is what a worker does with what it was granted: it keeps it for a while, and lets go, or hands it on.
func (w *worker) has(verb string, wanted []string, lock held) {
	hold := w.granted(wanted, lock)
	w.revoked.granted(lock.Owner(), hold, w.history)
	w.showsFrom(wanted, lock)
	w.heldBy(lock)
	begun := time.Now()
	w.supported(lock, granted)
	w.beside(wanted, lock, lock.reads)
	w.inTime(lock)
	w.log(w.label, "%s %s: token %d until %v", verb, strings.Join(wanted, " "), lock.Token(), since(lock.Deadline()))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(lock, hold)
	}()
	if len(wanted) == 1 && !lock.reads && w.minded(w.scenario.Habits.Part[Nested]) {
		w.nests(lock)
	}
	hands := len(wanted) == 1 && !lock.reads && w.minded(w.scenario.Habits.Part[Adopt])
	if !hands || w.apart.IntN(2) == 0 { // a hand-over may still be under way when the hold is handed on at once
		w.keep(lock, hold)
		w.workOn(lock, hold)
	}
	late := w.setLate(lock)
	if hands {
		w.handOn(wanted, lock, hold)
	} else {
		w.end(lock, hold)
	}
	<-watched
	w.showsNoMore(lock)
	late()
	if lock.Err() != nil { // Do may keep it
		w.setValue(lock)
	}
	w.extendedThrough(lock, begun)
}

// nests has a call with the hold's context join the hold.
func (w *worker) nests(lock held) {
	w.meetings.does(lock.use, Nested)
	ctx, cancel := lock.Context(context.Background())
	defer cancel()
	inner, err := lock.of.TryLock(ctx, lock.Name())
	switch {
	case err == nil && (inner.Owner() != lock.Owner() || inner.Token() != lock.Token()):
		w.blame("honesty", "%s: a call within the hold of token %d got token %d", w.label, lock.Token(), inner.Token())
	case err == nil:
		_ = inner.Unlock()
	case lock.Err() == nil && !errors.Is(err, redlock.ErrInvalid): // that is: the name is a permit's
		w.blame("honesty", "%s: a call within the hold of token %d: %v", w.label, lock.Token(), err)
	}
}

// lockCall is Lock or TryLock, or what is called in its place.
type lockCall func(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error)

// call returns what is called to acquire, and its name.
func (w *worker) call(l *redlock.Locker, wanted []string, tries, reads, permits bool) (verb string, acquire lockCall) {
	several := len(wanted) > 1
	switch {
	case permits && tries:
		return "TryAcquire", func(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error) {
			return w.semaphore(l, name).TryAcquire(ctx, opts...)
		}
	case permits:
		return "Acquire", func(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error) {
			return w.semaphore(l, name).Acquire(ctx, opts...)
		}
	case several && tries:
		return "TryLockAll", func(ctx context.Context, _ string, opts ...redlock.LockOption) (*redlock.Lock, error) {
			return l.TryLockAll(ctx, wanted, opts...)
		}
	case several:
		return "LockAll", func(ctx context.Context, _ string, opts ...redlock.LockOption) (*redlock.Lock, error) {
			return l.LockAll(ctx, wanted, opts...)
		}
	case reads && tries:
		return "TryRLock", l.TryRLock
	case reads:
		return "RLock", l.RLock
	case tries:
		return "TryLock", l.TryLock
	default:
		return "Lock", l.Lock
	}
}

// toDo returns what is called in place of Lock, RLock or Acquire to have Do call a function. That keeps the hold until
// ends is called. It is called if and only if the error of Do is no ErrNotAcquired, whatever its own error is.
func (w *worker) toDo(l *redlock.Locker, reads, permit bool, ends *func() error) lockCall {
	type function = func(context.Context, *redlock.Lock) error
	do := l.Do
	switch {
	case permit:
		do = func(ctx context.Context, name string, fn function, opts ...redlock.LockOption) error {
			return w.semaphore(l, name).Do(ctx, fn, opts...)
		}
	case reads:
		do = l.RDo
	}
	return func(ctx context.Context, name string, opts ...redlock.LockOption) (*redlock.Lock, error) {
		got, end, returned := make(chan *redlock.Lock), make(chan error), make(chan error, 1)
		go func() {
			called := false
			err := do(ctx, name, func(_ context.Context, lock *redlock.Lock) error {
				called = true
				got <- lock
				return <-end
			}, opts...)
			if called == errors.Is(err, redlock.ErrNotAcquired) {
				w.blame("honesty", "%s: Do of %s has called its function: %t, and returns %v", w.label, name, called, err)
			}
			returned <- err
		}()
		select {
		case err := <-returned:
			return nil, err
		case lock := <-got:
			w.count("holds by Do", 1)
			*ends = func() error {
				if w.apart.IntN(2) == 0 {
					end <- nil
					return <-returned
				}
				_, nested := l.TryLock(ctx, "")
				end <- nested
				<-returned
				return lock.Unlock() // as it did in Do
			}
			return lock, nil
		}
	}
}

// kindOf names an error without what differs between replays, such as owners.
func kindOf(err error) string {
	if err == nil {
		return "ok"
	}
	var kinds []string
	for _, k := range []struct {
		err  error
		name string
	}{
		{redlock.ErrTaken, "taken"},
		{redlock.ErrNoQuorum, "no quorum"},
		{redlock.ErrLost, "lost"},
		{redlock.ErrUnlocked, "unlocked"},
		{redlock.ErrMaxHold, "limit"},
		{redlock.ErrMaxWait, "waited"},
		{redlock.ErrClosed, "closed"},
		{redlock.ErrAlreadyRun, "already run"},
		{redlock.ErrRunsExhausted, "runs exhausted"},
		{errWork, "failed"},
		{context.DeadlineExceeded, "deadline"},
		{context.Canceled, "cancelled"},
	} {
		if errors.Is(err, k.err) {
			kinds = append(kinds, k.name)
		}
	}
	if kinds == nil {
		return "unexpected: " + err.Error()
	}
	return strings.Join(kinds, ",")
}
