package simtest

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
)

// Habits are how the workers of a run use the library: parts from 0 to 1, and times.
type Habits struct {
	Part  Parts
	Last  float64       // holds that are kept to the end of their validity, or of what renewal makes of it
	Stay  time.Duration // mean of a while that a lock is kept
	Rest  time.Duration // longest pause before the next
	Hasty float64       // waits that are given up soon, most of them while a question is under way
	Long  float64       // holds that are kept for several TTLs, extended all the time
	// Watchers are how many watch names.
	Watchers int
	Share    bool // the workers of a client have one Semaphore for each name
}

// Parts say how often each feature is drawn where it can be.
type Parts [features]float64

func (p Parts) String() string {
	var all []string
	for f, part := range p {
		if part > 0 {
			all = append(all, fmt.Sprintf("%v: %.2f", Feature(f), part))
		}
	}
	return strings.Join(all, ", ")
}

// newHabits draws each of them on its own, extremes included, but for what the row does not have.
func newHabits(r *rand.Rand, ttl time.Duration, row set) (h Habits) {
	part := func() float64 { return max(0, min(1, 1.4*r.Float64()-0.2)) }
	h = Habits{
		Last: 0.7 * part(), Stay: scaled(ttl, r, 1./20, 2./3), Rest: scaled(ttl, r, 1./12, 1./2),
		Share: r.IntN(2) == 0,
	}
	for f := range Wanted {
		if row.has(f) {
			h.Part[f] = 0.1 + 0.8*r.Float64()
		}
	}
	if row.has(Wanted) {
		h.Part[Wanted] = 0.5
	}
	if row.has(TryLock) == row.has(Lock) {
		h.Part[TryLock] = part()
	}
	// What takes the place of a lock, or ends it early.
	for f, most := range map[Feature]float64{
		ForceUnlock: 0.3, Inspect: 0.2, Check: 0.2, Status: 0.1, Once: 0.3, Acquire: 0.5, Do: 0.5, WithoutFencing: 0.4,
	} {
		h.Part[f] *= most
	}
	if row.has(Forget) { // what is forgotten is a job's runs
		h.Part[Once] *= 3
	}
	if row.has(Watch) {
		h.Watchers = 1 + r.IntN(2)
	}
	if r.IntN(6) == 0 { // some for longer than the retention
		h.Long = 0.2 * r.Float64()
	}
	return h
}

func (h *Habits) without(all ...Feature) {
	for _, f := range all {
		h.Part[f] = 0
	}
}

// asking is one call that acquires, and its hold: what judges must know of its options.
type asking struct {
	*use
	opts     []redlock.LockOption
	names    []string
	waits    int // 1 if the call waits
	patience time.Duration
	bounded  bool // by WithMaxWait
	ttl      time.Duration
	factor   float64       // of the drift
	slack    time.Duration // and what is added
	limit    time.Duration // by WithMaxHold; 0: none
	valid    time.Time     // until when it is kept for sure, beyond the limit for work that goes on: see workOn
	said     *value        // nil: none
	unfenced bool
}

// validity is for how long a hold is valid, from the beginning of the attempt or the extension.
func (a *asking) validity() time.Duration {
	return a.ttl - time.Duration(float64(a.ttl)*a.factor) - a.slack
}

// offers are the options that calls are given.
var offers = []struct {
	what Feature
	give func(w *worker, a *asking) redlock.LockOption
}{
	{WithTTL, func(w *worker, a *asking) redlock.LockOption {
		a.ttl = scaled(a.ttl, w.apart, 1./2, 1).Truncate(time.Millisecond)
		return redlock.WithTTL(a.ttl)
	}},
	{WithDrift, func(w *worker, a *asking) redlock.LockOption {
		a.factor, a.slack = 0.01+0.1*w.apart.Float64(), scaled(time.Millisecond, w.apart, 2, 4)
		return redlock.WithDrift(a.factor, a.slack)
	}},
	{WithMaxWait, func(_ *worker, a *asking) redlock.LockOption {
		a.bounded = true
		return redlock.WithMaxWait(a.patience)
	}},
	{WithValue, func(w *worker, a *asking) redlock.LockOption {
		a.said = w.newValue("", false)
		return redlock.WithValue(a.said.text)
	}},
	{WithoutRenewal, func(*worker, *asking) redlock.LockOption { return redlock.WithoutRenewal() }},
	{WithRenewWhile, func(w *worker, _ *asking) redlock.LockOption {
		ill := w.apart.IntN(8) // 0: it fails; 1: it hangs
		return redlock.WithRenewWhile(func(ctx context.Context) error {
			switch ill {
			case 0:
				return errWork
			case 1:
				<-ctx.Done()
			}
			return nil
		})
	}},
	{WithMaxHold, func(w *worker, a *asking) redlock.LockOption {
		a.limit = scaled(a.ttl, w.apart, 1./4, 3)
		return redlock.WithMaxHold(a.limit)
	}},
	{WithoutFencing, func(_ *worker, a *asking) redlock.LockOption {
		a.unfenced = true
		return redlock.WithoutFencing()
	}},
}

// refused are the options that a call refuses.
var refused = map[Feature]set{
	TryLock: of(WithMaxWait), Adopt: of(WithMaxWait), RLock: of(WithValue), Once: of(WithoutFencing),
}

// ask begins a call: it draws its options.
func (w *worker) ask(patience time.Duration, calls ...Feature) *asking {
	a := &asking{
		use: w.meetings.begin(append(calls, w.set.has...)...), patience: patience, ttl: w.set.ttl, factor: 0.01,
		slack: 2 * time.Millisecond,
	}
	var not set
	for _, f := range calls {
		not |= refused[f]
	}
	for _, o := range offers {
		if !not.has(o.what) && w.minded(w.scenario.Habits.Part[o.what]) {
			w.meetings.does(a.use, o.what)
			a.opts = append(a.opts, o.give(w, a))
		}
	}
	a.ttl = a.ttl.Truncate(time.Millisecond)
	return a
}

// settings are what a client has of its own: the same after each restart.
type settings struct {
	has                  []Feature
	ttl, timeout, maxTTL time.Duration
	opts                 []redlock.Option
}

func (w *world) settingsOf(client string) settings {
	s := w.scenario
	is := settings{ttl: s.TTL, timeout: s.Timeout, maxTTL: max(s.Guard, s.TTL)}
	h := fnv.New64a()
	_, _ = h.Write([]byte(client))
	r := rand.New(rand.NewPCG(s.Seed, h.Sum64()))
	for f := OtherTTL; f <= WithObserver; f++ {
		by := r.Float64()
		if r.Float64() >= s.Habits.Part[f] {
			continue
		}
		is.has = append(is.has, f)
		switch f {
		case OtherTTL:
			is.ttl -= time.Duration(by * float64(s.TTL/2))
		case OtherMaxTTL:
			is.maxTTL += time.Duration(by * float64(s.longest()-is.maxTTL))
		case OtherNodeTimeout:
			is.timeout += time.Duration(by * float64(s.Timeout))
		default:
			is.opts = append(is.opts, redlock.WithObserver(func(redlock.Event) { w.count("events", 1) }))
		}
	}
	is.opts = append(is.opts, redlock.WithTTL(is.ttl), redlock.WithNodeTimeout(is.timeout), redlock.WithMaxTTL(is.maxTTL))
	return is
}
