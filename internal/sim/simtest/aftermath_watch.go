package simtest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/quorumlock/redlock"
)

// noticed has one client watch what another one does with a lock, and take it away from that in the end: sometimes when
// it has been held for so long that the nodes have forgotten its token.
func (w *world) noticed() {
	if w.scenario.Habits.Watchers == 0 {
		return
	}
	slow := 6*w.scenario.Delay.SlowMax + 10*time.Millisecond // a few round trips
	atOnce, later := slow, slow
	if w.scenario.PlainNodes&(1<<w.scenario.Nodes-1) != 0 { // their second connections may be half-open, or be none
		atOnce, later = 10*time.Second+slow, w.scenario.TTL+slow
	}
	holder, other := w.clients[0], w.clients[len(w.clients)-1].locker.Load()
	long := w.scenario.Seed%5 == 0
	first := holder.newValue("", long && w.scenario.Seed%2 == 0)
	lock := w.await(toLock, holder, 0, redlock.WithValue(first.text))
	is := held{Lock: lock, asking: &asking{said: first}}
	if lock == nil {
		return
	}
	w.showsFrom([]string{contested}, is)
	ctx, cancel := context.WithCancel(context.Background())
	shown := make(chan redlock.Inspection, 1000)
	var watching sync.WaitGroup
	watching.Go(func() {
		w.watchOnce(ctx, "v0", contested, other.Inspector, func(i redlock.Inspection) { shown <- i })
	})
	// next waits for what is to be shown; a hold whose first renewal takes long may end before.
	var last redlock.Inspection
	next := func(what string, within time.Duration, is func(redlock.Inspection) bool) {
		late := time.After(within)
		for !is(last) {
			select {
			case last = <-shown:
			case <-late:
				if what == "the end" || lock.Err() == nil {
					w.blame("progress", "%s is not shown within %v, all is in order", what, within)
				}
				return
			}
		}
	}
	has := func(value string) func(redlock.Inspection) bool {
		return func(i redlock.Inspection) bool {
			return i.Owner == lock.Owner() && i.Value == value && i.Token == lock.Token()
		}
	}
	isOver := func(i redlock.Inspection) bool { return i.Owner == "" && i.Value == "" }
	check := func(want error) {
		err := other.Check(context.Background(), contested, lock.Token())
		if !errors.Is(err, want) && (want != nil || lock.Err() == nil) {
			w.blame("checked", "Check of a lock of which Err is %v: %v, all is in order", lock.Err(), err)
		}
	}
	next("the first value", atOnce, has(first.text))
	if long { // the nodes forget its token: those who lock something have them do so
		end := time.Now().Add(2*w.scenario.longest() + 3*time.Second)
		for ; time.Now().Before(end); time.Sleep(time.Second / 2) {
			w.progress(w.clients[1], "free", w.clients[1].locker.Load().TryLock)
		}
		if i, err := other.Inspect(context.Background(), contested); err != nil || !has(first.text)(i) && lock.Err() == nil {
			w.blame("progress", "token %d is shown as %d after a long time: %v", lock.Token(), i.Token, err)
		}
	}
	if second, err := holder.setValueOf(holder.name, is, false); err == nil {
		next("the second value", atOnce, has(second.text))
	} else if lock.Err() == nil {
		w.blame("progress", "SetValue, all is in order: %v", err)
	}
	check(nil)
	time.Sleep(w.scenario.TTL / 2) // it listens from its first renewal on
	if w.scenario.Seed%2 == 0 {
		w.gaveBack(lock)
	} else if err := other.ForceUnlock(context.Background(), contested, lock.Owner()); err != nil {
		w.blame("progress", "ForceUnlock, all is in order: %v", err)
	} else {
		select {
		case <-lock.Done():
		case <-time.After(later):
			w.blame("progress", "a hold that was taken away has not ended within %v, all is in order", later)
		}
	}
	next("the end", atOnce, isOver)
	w.quiet()
	check(redlock.ErrLost)
	cancel()
	watching.Wait()
	w.showsNoMore(is)
	time.Sleep(16 * time.Second) // so long live the watches on the nodes
}
