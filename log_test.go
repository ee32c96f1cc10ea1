package redlock

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// journal is a log that a test reads while it is written.
type journal struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// take returns the lines since the last call, without their times.
func (j *journal) take() []string {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	lines := strings.Split(strings.TrimSuffix(j.text.String(), "\n"), "\n")
	j.text.Reset()
	if lines[0] == "" {
		return nil
	}
	return lines
}

// logging returns the option to log to the journal.
func (j *journal) logging(level slog.Level) Option {
	return WithLogger(slog.New(slog.NewTextHandler(j, &slog.HandlerOptions{
		Level: level,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	})))
}

// count returns how many lines contain the text.
func count(lines []string, text string) (n int) {
	for _, line := range lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// expectLines fails the test unless exactly the given number of lines contain each text.
func expectLines(t *testing.T, lines []string, want map[string]int) {
	t.Helper()
	for text, n := range want {
		if got := count(lines, text); got != n {
			t.Errorf("%d lines have %q, want %d:\n%s", got, text, n, strings.Join(lines, "\n"))
		}
	}
}

// holdMany acquires n locks.
func (fl *fleet) holdMany(l *Locker, n int) []*Lock {
	fl.t.Helper()
	holds := make([]*Lock, n)
	for i := range holds {
		holds[i] = must(l.Lock(fl.t.Context(), fmt.Sprintf("job%d", i)))(fl.t)
	}
	return holds
}

func TestASingleFailureIsLoggedInFullAtOnce(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		var log journal
		l := fl.locker("a", log.logging(slog.LevelWarn))
		k := must(l.Lock(t.Context(), "job"))(t)
		fl.nodes[:3].crash(true)
		time.Sleep(time.Second)
		log.take() // the nodes
		time.Sleep(2500 * ms)
		lines := log.take()
		if len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], `msg="not renewed"`) ||
			!strings.Contains(lines[0], "name=job") || !strings.Contains(lines[0], "n1:6379") {
			t.Fatalf("at the first renewal: got %q, want one line in full", lines)
		}
		time.Sleep(6 * time.Second)
		lines = log.take()
		if len(lines) != 2 || count(lines, "not renewed: 1 hold, 3 of 5 nodes down, first ends in ") != 2 {
			t.Errorf("until the end: got %q, want two sums", lines)
		}
		<-k.Done()
		if lines = log.take(); len(lines) != 1 || !strings.Contains(lines[0], "level=ERROR msg=lost name=job") {
			t.Errorf("at the end: got %q, want the loss in full", lines)
		}
		runtime.KeepAlive(k) // a hold without a handle is not renewed
		time.Sleep(time.Minute)
		if lines = log.take(); lines != nil {
			t.Errorf("afterwards: got %q, want nothing", lines)
		}
	})
}

// Three of five nodes die: the log has a few lines, and the observer is told of every hold.
func TestManyFailuresAreSummedUp(t *testing.T) {
	many := sized(300, 60)
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		var log journal
		l, w := fl.witnessed("a", log.logging(slog.LevelWarn))
		holds := fl.holdMany(l, many)
		w.take()
		log.take()
		fl.nodes[:3].crash(true)
		for _, k := range holds {
			<-k.Done()
		}
		time.Sleep(time.Minute)
		lines := log.take()
		between(t, len(lines), 0, 20, "lines, which are\n%s\n", strings.Join(lines, "\n"))
		expectLines(t, lines, map[string]int{
			`msg="not renewed" `: 1, "msg=lost ": 3, "finding=unreachable": 3, "no majority": 1, "missing=": 1,
			fmt.Sprintf("not renewed: %d holds, 3 of 5 nodes down, first ends in", many):                  2,
			fmt.Sprintf("level=ERROR msg=\"lost: %d more holds, 3 of 5 nodes down\" holds=%[1]d", many-3): 1,
		})
		failed, lost := map[string]int{}, map[string]int{}
		for _, ev := range w.take() {
			equals(t, ev.Dropped, 0, "dropped events")
			switch ev.Kind {
			case EventRenew:
				failed[ev.Name]++
			case EventEnd:
				lost[ev.Name]++
			default:
			}
		}
		for _, k := range holds {
			if failed[k.Name()] < 10 || lost[k.Name()] != 1 {
				t.Errorf("%s: %d failures and %d losses were observed", k.Name(), failed[k.Name()], lost[k.Name()])
			}
		}
	})
}

// At level Debug, each event has its line, and the sums are there as well.
func TestDebugLogsEveryFailure(t *testing.T) {
	const many = 20
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var log journal
		l := fl.locker("a", log.logging(slog.LevelDebug), WithTTL(3*time.Second))
		holds := fl.holdMany(l, many)
		fl.nodes[:2].crash(true)
		for _, k := range holds {
			<-k.Done()
		}
		runtime.KeepAlive(holds)
		time.Sleep(5 * time.Second)
		lines := log.take()
		expectLines(t, lines, map[string]int{
			"msg=lost ": many, "level=ERROR msg=lost ": 3, "level=DEBUG msg=lost ": many - 3,
			`level=WARN msg="not renewed" `: 1, fmt.Sprintf("lost: %d more holds", many-3): 1,
		})
		if n := count(lines, `level=DEBUG msg="not renewed" `); n < 5*many {
			t.Errorf("got %d lines of renewals that failed, want each", n)
		}
		if n := count(lines, `not renewed: 20 holds`); n == 0 {
			t.Error("the sum of the renewals that failed is missing")
		}
	})
}

// Unlocks that fail are summed up, and Close writes what is pending.
func TestCloseFlushesTheLog(t *testing.T) {
	const many = 20
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var log journal
		l := fl.locker("a", log.logging(slog.LevelWarn))
		holds := fl.holdMany(l, many)
		fl.nodes[:2].crash(true)
		time.Sleep(500 * ms)
		for _, k := range holds {
			if k.Unlock() == nil {
				t.Error("unlocked without a majority")
			}
		}
		expectLines(t, log.take(), map[string]int{"msg=released": 3, "not unlocked": 0})
		_ = l.Close()
		expectLines(t, log.take(), map[string]int{
			"msg=released": 0, fmt.Sprintf(`level=WARN msg="not unlocked: %d more holds`, many-3): 1, "no majority": 0,
		})
	})
}

func TestAHoldAtItsMaximumIsLogged(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var log journal
		l := fl.locker("a", log.logging(slog.LevelInfo), WithMaxHold(5*time.Second))
		log.take()
		k := must(l.Lock(t.Context(), "job"))(t)
		<-k.Done()
		if lines := log.take(); len(lines) != 1 || count(lines, `level=INFO msg="at its maximum" name=job`) != 1 ||
			count(lines, "duration=5") != 1 {
			t.Errorf("got %q, want one line with name and time", lines)
		}
		_ = k.Unlock()
		time.Sleep(time.Minute)
		holds := fl.holdMany(l, 50)
		time.Sleep(time.Minute)
		runtime.KeepAlive(holds)
		expectLines(t, log.take(), map[string]int{"level=": 4, "at its maximum": 3, "at their maximum: 47 more holds": 1})
	})
}

// What is looked at late, when our own end has closed the connections, says nothing of the nodes.
func TestOurOwnEndIsNoTroubleOfTheNodes(t *testing.T) {
	for name, end := range map[string]func(l *Locker) error{
		"Close":    func(l *Locker) error { return l.Close() },
		"Shutdown": func(l *Locker) error { return l.Shutdown(context.Background()) },
	} {
		subtest(t, name, 5, func(t *testing.T, fl *fleet) {
			var log journal
			gate, down := make(chan struct{}), 0
			l := fl.locker("a", log.logging(slog.LevelDebug), WithObserver(func(ev Event) {
				if <-gate; ev.Kind == EventNode && ev.Err != nil {
					down++
				}
			}))
			succeeds(t, must(l.Lock(t.Context(), "job"))(t).Unlock())
			ended := async(func() error { return end(l) })
			time.Sleep(50 * ms)
			for _, n := range l.nodes {
				n.report()
			}
			close(gate)
			succeeds(t, <-ended)
			equals(t, down, 0, "events of nodes that are down")
			expectLines(t, log.take(), map[string]int{"level=WARN": 0, "closed network connection": 0, "released": 1})
		})
	}
}

// A line says that nobody can lock, and one says when that is over: once for each change.
func TestTheLogOfTheMajority(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		var log journal
		l := fl.locker("a", log.logging(slog.LevelInfo))
		time.Sleep(time.Minute)
		expectLines(t, log.take(), map[string]int{"majority": 0, "node up": 5})
		for range 3 {
			for i, want := range []int{0, 0, 1, 0} {
				fl.nodes[i].Crash(true)
				time.Sleep(2 * time.Second)
				lines := log.take()
				expectLines(t, lines, map[string]int{"no majority": want, "majority again": 0})
				if want == 1 {
					expectLines(t, lines, map[string]int{
						`level=WARN msg="no majority: nobody can lock" votes=2 nodes=5 needed=3 missing="n0:6379: `: 1,
					})
				}
			}
			for i := range 4 { // which are then away for the guard period
				fl.nodes[i].Restart()
			}
			time.Sleep(5 * time.Second)
			expectLines(t, log.take(), map[string]int{"majority": 0, "abstains": 4})
			time.Sleep(time.Minute)
			expectLines(t, log.take(), map[string]int{
				"no majority": 0, `level=INFO msg="majority again" votes=`: 1, "node up": 4,
			})
		}
		_ = l.Close()
		expectLines(t, log.take(), map[string]int{"majority": 0})
	})
}

// A Locker that begins without a majority says so once New has tried, and not before.
func TestTheLogOfAStartWithoutAMajority(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		fl.nodes[2:].crash(true)
		var log journal
		fl.locker("a", log.logging(slog.LevelInfo))
		expectLines(t, log.take(), map[string]int{"no majority": 1, "node up": 2, "unreachable": 3})
		time.Sleep(time.Minute)
		expectLines(t, log.take(), map[string]int{"majority": 0})
		for _, n := range fl.nodes[2:] {
			n.Restart()
			time.Sleep(time.Minute)
		}
		expectLines(t, log.take(), map[string]int{"majority again": 1, "no majority": 0})
	})
	// The nodes answer one after the other, the last two after New has returned.
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		for i := range fl.nodes {
			fl.net.SetDelay(link0("a", i), sim.Both, sim.Delay{Min: time.Duration(i) * 20 * ms, Max: time.Duration(i) * 20 * ms})
		}
		var log journal
		fl.locker("a", log.logging(slog.LevelInfo))
		time.Sleep(time.Minute)
		expectLines(t, log.take(), map[string]int{"majority": 0, "node up": 5})
	})
	// Three refuse the first attempt, and are there before the other two have answered theirs.
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		fl.cut("a", 0, 1, 2)
		time.AfterFunc(10*ms, func() { fl.mend("a", 0, 1, 2) })
		for i := 3; i < 5; i++ {
			fl.net.SetDelay(link0("a", i), sim.Both, sim.Delay{Min: 100 * ms, Max: 100 * ms})
		}
		var log journal
		fl.locker("a", log.logging(slog.LevelInfo))
		time.Sleep(time.Minute)
		expectLines(t, log.take(), map[string]int{"majority": 0, "unreachable": 3, "node up": 5})
	})
}

// Holds that were renewed after all, or unlocked, are in no sum of those that were not renewed.
func TestSumsLeaveOutWhatIsRenewedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var log journal
		l := fl.locker("a", log.logging(slog.LevelWarn), WithTTL(9*time.Second))
		held := fl.holdMany(l, 10)
		time.Sleep(2900 * ms)
		fl.nodes[:2].fail("EVALSHA", "MISCONF no disk", 1000)
		time.Sleep(200 * ms)
		fl.nodes[:2].recover()
		time.Sleep(5 * time.Second)
		lines := log.take()
		if count(lines, `msg="not renewed" `) != 1 || count(lines, "not renewed: ") != 0 {
			t.Errorf("got %q, want the first failure alone", lines)
		}
		runtime.KeepAlive(held)
	})
}

// An observer that is so slow that events are dropped costs the log no loss, and the log says that it lacks others.
func TestASlowObserverHidesNoLoss(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var log journal
		gate := make(chan struct{})
		l := fl.locker("a", log.logging(slog.LevelInfo), WithObserver(func(Event) { <-gate }))
		l.events.setLimit(300)
		k := must(l.Lock(t.Context(), "precious"))(t)
		for i := range 200 { // three events for each
			succeeds(t, must(l.TryLock(t.Context(), fmt.Sprint("n", i)))(t).Unlock())
		}
		fl.nodes.do("SET", "precious", "other", "PX", 100000)
		<-k.Done()
		close(gate)
		time.Sleep(time.Second)
		lines := log.take()
		if count(lines, "msg=lost name=precious") != 1 || count(lines, "events were dropped") != 1 {
			t.Errorf("got %.2000q, want the loss, and that events were dropped", lines)
		}
	})
}

// A day, if a short one, of a service that locks now and then: servers close idle connections every ten minutes, one
// master restarts, and the password is changed twice, the second time before the clients learn of it. The log has what
// somebody has to know, and nothing that is not so.
func TestTheLogOfADay(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		var password atomic.Value // that the client knows
		change := func(to string) {
			for _, n := range fl.nodes {
				n.SetPassword(to)
			}
		}
		change("first")
		password.Store("first")
		var j journal
		ask := func(context.Context, string) (string, string, error) { return "", password.Load().(string), nil }
		l := fl.locker("a", j.logging(slog.LevelInfo), asking(ask))
		closeIdle := func() {
			fl.net.Reset(sim.Link{Client: "a"})
		}
		hour := sized(30, 6) // in minutes
		for minute := range 24 * hour {
			switch {
			case minute == 3*hour:
				fl.nodes[1].Crash(false)
				time.Sleep(5 * time.Second)
				fl.nodes[1].Restart()
				fl.nodes[1].SetPassword("first")
			case minute == 9*hour:
				change("second")
				password.Store("second")
			case minute == 15*hour:
				change("third")
				closeIdle()
				time.Sleep(20 * time.Second)
				password.Store("third")
			case minute%10 == 9:
				closeIdle()
			}
			if minute%15 == 7 {
				succeeds(t, must(l.Lock(t.Context(), "job", WithMaxWait(time.Minute)))(t).Unlock())
			}
			time.Sleep(time.Minute)
		}
		lines := j.take()
		expectLines(t, lines, map[string]int{
			`msg="node up"`: 3 + 1 + 3, "connection refused": 1, "finding=abstains": 1, `msg="node: WRONGPASS`: 3,
			"no majority": 1, "majority again": 1, "level=": 14,
		})
	})
}

// Two names that are not UTF-8 are two names in a log that can hold nothing else, too.
func TestTheLogTellsNamesApart(t *testing.T) {
	var out strings.Builder
	l := newEventLog(slog.New(slog.NewJSONHandler(&out, nil)), clock{})
	for _, name := range []string{"job\xff", "odd\tname"} {
		l.write(&Event{Kind: EventEnd, Name: name}, slog.LevelError)
	}
	for _, want := range []string{`"name":"\"job\\xff\""`, `"name":"odd\tname"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want %s in it", out.String(), want)
		}
	}
}
