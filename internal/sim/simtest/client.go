package simtest

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock"
)

// client is one Locker, used by several workers.
type client struct {
	*world
	name   string
	locker atomic.Pointer[redlock.Locker] // replaced when the client is restarted
}

// restart closes the client's Locker under whatever the workers are doing with it, and makes another one: a process that was
// deployed anew. The new one knows nothing, and may at first reach other nodes than the old one did.
func (w *worker) restart() {
	w.log(w.label, "restarts its client")
	old := w.locker.Swap(w.connect(w.name))
	_ = old.Close()
	w.log(w.label, "has restarted its client")
}

// worker locks and unlocks until the end.
type worker struct {
	*client
	label string
	r     *rand.Rand
	mu    sync.Mutex // guards r in backoff: a semaphore waits with two goroutines
}

func (w *worker) run(end time.Time) {
	for {
		w.rest(0, w.scenario.Habits.Rest)
		switch {
		case time.Now().After(end):
			return
		case w.r.IntN(40) == 0:
			w.restart()
		case w.scenario.Jobs:
			w.job()
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

// once makes one attempt at one lock, or at several, and, if it succeeds, holds it for a while.
func (w *worker) once() {
	wanted := []string{names[w.r.IntN(w.scenario.Names)]}
	if n := w.scenario.Names; n > 1 && w.scenario.Permits == 0 && w.inclined(w.scenario.Habits.Several) {
		wanted = nil
		for _, i := range w.r.Perm(n)[:2+w.r.IntN(n-1)] { // in any order, and overlapping
			wanted = append(wanted, names[i])
		}
	}
	opts := []redlock.Option{redlock.WithBackoff(w.backoff), redlock.WithMinValidity(w.scenario.Habits.Least)}
	if w.scenario.Habits.Async {
		opts = append(opts, redlock.WithAsyncUnlock())
	}
	if !w.inclined(w.scenario.Habits.Renew) {
		opts = append(opts, redlock.WithoutRenewal())
	}
	ctx, cancel := context.Background(), func() {}
	if patience := w.r.IntN(4); patience > 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+w.r.Int64N(int64(w.scenario.TTL)<<patience>>2)))
	}
	defer cancel()
	locker := w.locker.Load()
	verb := "Lock"
	if w.inclined(w.scenario.Habits.Try) {
		verb = "TryLock"
		opts = append(opts, redlock.WithMaxAttempts(1))
	}
	reads := len(wanted) == 1 && w.scenario.Habits.Read > 0 && w.inclined(w.scenario.Habits.Read)
	acquire := locker.Lock
	switch {
	case len(wanted) > 1:
		acquire = func(ctx context.Context, _ string, opts ...redlock.Option) (*redlock.Lock, error) {
			return locker.LockAll(ctx, wanted, opts...)
		}
	case reads:
		acquire, verb = toRead(locker, verb), "R"+verb
	case verb == "TryLock":
		acquire = locker.TryLock
	}
	name := strings.Join(wanted, " ")
	if w.scenario.Permits > 0 {
		acquire, verb = w.toAdmit(locker, verb), verb+" permit"
	}
	asked := time.Now()
	lock, err := acquire(ctx, name, opts...)
	w.result.Calls.Add(1)
	took := time.Since(asked)
	if err != nil {
		w.log(w.label, "%s %s: %s", verb, name, kindOf(err))
		if strings.HasSuffix(verb, "TryLock") && took > w.scenario.Timeout+time.Millisecond {
			w.blame("bounded", "%s: %s took %v, the node timeout is %v", w.label, verb, took, w.scenario.Timeout)
		}
		return
	}
	if w.scenario.Permits > 0 {
		wanted = []string{lock.Name()} // the slot's: it excludes like any lock, so there are as many holders as slots at most
	}
	hold := w.granted(wanted, lock, reads)
	w.supported(lock, granted)
	w.log(w.label, "%s %s: token %d until %v", verb, name, lock.Token(), since(lock.Until()))
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.watch(lock, hold)
	}()
	w.keep(lock, hold)
	w.end(lock, hold)
	<-watched
}

// toAdmit returns what is called in place of Lock or TryLock where several are admitted.
func (w *worker) toAdmit(locker *redlock.Locker, verb string) func(context.Context, string, ...redlock.Option) (*redlock.Lock, error) {
	return func(ctx context.Context, name string, opts ...redlock.Option) (*redlock.Lock, error) {
		s := locker.Semaphore(name, w.scenario.Permits)
		if verb != "TryLock" {
			return s.Acquire(ctx, opts...)
		}
		asked := time.Now()
		lock, err := s.TryAcquire(ctx, opts...)
		if took := time.Since(asked); took > 3*w.scenario.Timeout+time.Millisecond {
			w.blame("bounded", "%s: TryAcquire took %v, the node timeout is %v", w.label, took, w.scenario.Timeout)
		}
		return lock, err
	}
}

// toRead returns what a reader calls in place of Lock or TryLock.
func toRead(locker *redlock.Locker, verb string) func(context.Context, string, ...redlock.Option) (*redlock.Lock, error) {
	return func(ctx context.Context, name string, opts ...redlock.Option) (*redlock.Lock, error) {
		if verb == "TryLock" {
			return locker.RWMutex(name).TryRLock(ctx, opts...)
		}
		return locker.RWMutex(name).RLock(ctx, opts...)
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
		{redlock.ErrClosed, "closed"},
		{redlock.ErrDone, "done"},
		{redlock.ErrExhausted, "exhausted"},
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
