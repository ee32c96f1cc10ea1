package redlock

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// patient is work that is asked whether to renew its hold.
type patient struct {
	t        *testing.T
	says     func(ctx context.Context) error
	lock     *Lock // as much work refers to its hold
	asked    atomic.Int64
	at, most atomic.Int64 // how many questions are open, and were
}

type patientKey struct{}

func (p *patient) ask(ctx context.Context) error {
	p.asked.Add(1)
	p.most.Store(max(p.most.Load(), p.at.Add(1)))
	defer p.at.Add(-1)
	equals(p.t, ctx.Value(patientKey{}), any("of the call"), "a value of the call's context")
	return p.says(ctx)
}

var errIll = errors.New("the queue\nis stuck")

// A hold lives for as long as its work says that it is well.
func TestRenewWhile(t *testing.T) {
	healthy := func(context.Context) error { return nil }
	ill := func(context.Context) error { return errIll }
	hangs := func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	}
	during := func(from, to time.Duration, says func(context.Context) error) func(*patient) {
		return func(p *patient) {
			begun := time.Now()
			p.says = func(ctx context.Context) error {
				if now := time.Since(begun); now < from || now >= to {
					return nil
				}
				return says(ctx)
			}
		}
	}
	illThenHangs := func(well, hangs time.Duration) func(*patient) {
		return func(p *patient) {
			begun := time.Now()
			p.says = func(ctx context.Context) error {
				switch now := time.Since(begun); {
				case now > hangs:
					<-ctx.Done()
				case now > well:
					return nil
				}
				return errIll
			}
		}
	}
	const ever = 24 * time.Hour
	for what, c := range map[string]struct {
		says func(p *patient)
		ends time.Duration // 0: it does not
		text string
		asks int64 // in a minute
	}{
		"well":                 {during(0, 0, nil), 0, "", 18},
		"ill":                  {during(0, ever, ill), 9898 * ms, ": lost: not renewed: the queue; is stuck", 14},
		"ill after a while":    {during(10*time.Second, ever, ill), 19898 * ms, "not renewed: the queue; is stuck", 16},
		"ill for a moment":     {during(10*time.Second, 19*time.Second, ill), 0, "", 28},
		"hangs":                {during(0, ever, hangs), 9898 * ms, ": lost: not renewed: the function of WithRenewWhile", 1},
		"hangs after a while":  {during(10*time.Second, ever, hangs), 19898 * ms, "did not return", 4},
		"ill, and then hangs":  {illThenHangs(ever, 5*time.Second), 9898 * ms, "not renewed: the queue; is stuck", 5},
		"ill, well, and hangs": {illThenHangs(5*time.Second, 10*time.Second), 18560 * ms, "did not return", 7},
		"slow": {func(p *patient) {
			p.says = func(context.Context) error {
				time.Sleep(5 * time.Second)
				return nil
			}
		}, 0, "", 7},
		"too slow": {func(p *patient) {
			p.says = func(context.Context) error {
				time.Sleep(8 * time.Second)
				return nil
			}
		}, 9898 * ms, "did not return", 1},
	} {
		for call, lock := range calls {
			subtest(t, what+", "+call, 3, func(t *testing.T, fl *fleet) {
				l, w := fl.witnessed("a")
				p := &patient{t: t, says: healthy}
				c.says(p)
				begun, sent := time.Now(), fl.nodes[0].Calls("pexpire")
				k := must(lock(context.WithValue(t.Context(), patientKey{}, "of the call"), l, WithRenewWhile(p.ask)))(t)
				failed := 0
				if c.ends == 0 {
					time.Sleep(time.Minute)
					succeeds(t, k.Unlock())
				} else {
					select {
					case <-k.Done():
					case <-time.After(time.Minute):
						t.Fatal("it has not ended")
					}
					between(t, time.Since(begun)-c.ends, -50*ms, 50*ms, "ended later than wanted by")
					failsSaying(t, k.Unlock(), ErrLost, c.text)
					extended := fl.nodes[0].Calls("pexpire") - sent
					time.Sleep(10 * time.Second)
					equals(t, fl.nodes[0].Calls("pexpire")-sent, extended, "extensions, when the answer came after the end")
				}
				for _, ev := range w.take() {
					switch {
					case ev.Kind == EventRenew && ev.Err != nil:
						failed++
						failsSaying(t, ev.Err, errIll, "redlock: extend")
					case ev.Kind == EventEnd && c.ends > 0:
						failsSaying(t, ev.Err, ErrLost, c.text)
					}
				}
				if says := what[:3]; (says == "ill") != (failed > 0) {
					t.Errorf("%d renewals that failed", failed)
				}
				between(t, p.asked.Load(), c.asks-1, c.asks+1, "questions")
				equals(t, p.most.Load(), 1, "questions at a time")
				fl.clean()
			})
		}
	}
}

// While the function is asked, the hold ends in another way, or is extended by its holder. The answer changes nothing.
func TestAHoldChangesWhileItsWorkIsAsked(t *testing.T) {
	for what, c := range map[string]struct {
		do    func(t *testing.T, l *Locker, k *Lock)
		cause error
	}{
		"Unlock": {func(t *testing.T, _ *Locker, k *Lock) { succeeds(t, k.Unlock()) }, ErrUnlocked},
		"Ticket": {func(t *testing.T, _ *Locker, k *Lock) { must(k.Ticket())(t) }, ErrUnlocked},
		"Close":  {func(_ *testing.T, l *Locker, _ *Lock) { _ = l.Close() }, ErrClosed},
		"Extend": {func(t *testing.T, _ *Locker, k *Lock) { succeeds(t, k.Extend(t.Context())) }, ErrLost},
	} {
		for _, answer := range []error{nil, errIll} {
			subtest(t, what, 3, func(t *testing.T, fl *fleet) {
				l := fl.locker("a")
				ended := make(chan error, 1)
				k := must(l.Lock(t.Context(), "job", WithRenewWhile(func(ctx context.Context) error {
					<-ctx.Done()
					ended <- context.Cause(ctx)
					time.Sleep(time.Second)
					return answer
				})))(t)
				time.Sleep(5 * time.Second)
				c.do(t, l, k)
				at := time.Now()
				fails(t, <-ended, c.cause, "the context of the function")
				if what == "Extend" {
					between(t, time.Since(at), 9880*ms, 9898*ms, "from Extend to the end")
				}
				sent := fl.nodes[0].Calls("pexpire")
				time.Sleep(time.Minute)
				equals(t, fl.nodes[0].Calls("pexpire"), sent, "extensions")
			})
		}
	}
}

// A handle that the program drops stops renewal, though the function refers to it, and may be asked just then.
func TestAForgottenHandleIsNotKeptByTheFunctionThatIsAsked(t *testing.T) {
	collectWhenTold(t)
	for what, says := range map[string]func(ctx context.Context) error{
		"well":  func(context.Context) error { return nil },
		"slow":  func(context.Context) error { time.Sleep(800 * ms); return nil },
		"hangs": func(ctx context.Context) error { <-ctx.Done(); return nil },
	} {
		subtest(t, what, 3, func(t *testing.T, fl *fleet) {
			l := fl.locker("a", WithTTL(3*time.Second))
			func() {
				p := &patient{t: t, says: says}
				p.lock = must(l.Lock(context.WithValue(t.Context(), patientKey{}, "of the call"), "job", WithRenewWhile(p.ask)))(t)
			}()
			time.Sleep(2500 * ms)
			fl.isHeld("job", 3, "before the garbage collection")
			for range 100 { // one is enough, but for cleanups, which run in real time
				if runtime.GC(); fl.holding("job") == 0 {
					break
				}
				time.Sleep(time.Second)
				synctest.Wait()
			}
			fl.isHeld("job", 0, "dropped")
		})
	}
}

// What a holder hands over comes with a second, too little for a question: the first extension asks nobody.
func TestTheExtensionOfALeaseAsksNobody(t *testing.T) {
	eitherWay(t, func(t *testing.T, fl *fleet) {
		first := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		time.AfterFunc(100*ms, func() { _ = first.Unlock() })
		var asked atomic.Int64
		ill := WithRenewWhile(func(context.Context) error {
			asked.Add(1)
			return errIll
		})
		k := must(fl.locker("b").Lock(t.Context(), "job", ill, withBackoff(never)))(t) // an answer gives more than a lease
		between(t, time.Until(k.Deadline()), 0, time.Second, "left: this must be a lease")
		time.Sleep(2 * time.Second)
		succeeds(t, k.Err())
		equals(t, asked.Load(), 0, "questions")
		<-k.Done()
		fails(t, k.Err(), ErrLost) // which also keeps the handle until then
		between(t, asked.Load(), 13, 15, "questions")
	})
}

// Names that LockAll has while it waits for others are no work's yet.
func TestNobodyIsAskedDuringAWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		other := must(fl.locker("b").Lock(t.Context(), "z"))(t)
		time.AfterFunc(time.Minute, func() { _ = other.Unlock() })
		ask := WithRenewWhile(func(context.Context) error { return errIll })
		k := must(fl.locker("a").LockAll(t.Context(), []string{"a", "z"}, ask))(t)
		between(t, time.Until(k.Deadline()), 9*time.Second, 10*time.Second, "left")
		<-k.Done()
	})
}

// Each call, and New, refuses a function that is nil.
func TestRenewWhileNeedsAFunction(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, call := range calls {
			failsSaying(t, errOf(call(t.Context(), l, WithRenewWhile(nil))), ErrInvalid, "WithRenewWhile: the function is nil")
		}
		fails(t, l.Once(t.Context(), "job", nil, WithRenewWhile(nil)), ErrInvalid, "Once")
		fails(t, errOf(New(fl.urls, dialing(fl.net.Dialer("b")), WithRenewWhile(nil))), ErrInvalid, "New")
	})
}

// The function of a Locker is asked for all of its holds, and that of a call in its place.
func TestRenewWhileOfALocker(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		ill := WithRenewWhile(func(context.Context) error { return errIll })
		l := fl.locker("a", ill)
		failsSaying(t, l.Once(t.Context(), "job", func(ctx context.Context, _ *Lock) error {
			<-ctx.Done()
			return nil
		}), ErrLost, "is stuck")
		k := must(l.Lock(t.Context(), "other", WithRenewWhile(func(context.Context) error { return nil })))(t)
		fl.net.SetDelay(sim.Link{}, sim.Both, sim.LAN)
		time.Sleep(time.Minute)
		succeeds(t, k.Unlock())
	})
}
