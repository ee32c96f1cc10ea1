//go:build unix

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

// played is a command without a process: it notes what it hears, and when.
type played struct {
	begun   time.Time
	changes chan change
	heard   []string
	remain  []remnant // live until then
	until   time.Duration
}

func (p *played) note(format string, args ...any) {
	p.heard = append(p.heard, fmt.Sprintf("%.1fs ", time.Since(p.begun).Seconds())+fmt.Sprintf(format, args...))
}

func (p *played) news() (<-chan change, <-chan os.Signal) { return p.changes, nil }
func (p *played) reap()                                   {}
func (p *played) terminate()                              { p.note("terminate") }
func (p *played) gone() bool                              { return len(p.left()) == 0 }
func (p *played) stopped(syscall.Signal, func() bool)     {}
func (p *played) interrupted(change) bool                 { return false }
func (p *played) hasHeard(syscall.Signal) bool            { return false }
func (p *played) pause()                                  { p.note("pause") }
func (p *played) suspend(func() bool)                     { p.note("suspend") }

func (p *played) left() []remnant {
	if time.Since(p.begun) >= p.until {
		return nil
	}
	return p.remain
}

func (p *played) kill() {
	if n := len(p.heard); n == 0 || !strings.HasSuffix(p.heard[n-1], "kill") { // again and again
		p.note("kill")
	}
}

func (p *played) forward(sig syscall.Signal, _ func() bool) error {
	p.note("%s", signalName(sig))
	if len(refusing(p.left())) > 0 {
		return syscall.EPERM
	}
	return nil
}

// loss is a hold that ends at a time, unless it is renewed or lost before.
type loss struct {
	until *atomic.Int64 // in ns since 1970
	done  chan struct{}
}

func endsIn(d time.Duration) loss {
	l := loss{new(atomic.Int64), make(chan struct{})}
	l.until.Store(time.Now().Add(d).UnixNano())
	l.before(0, l.done)
	return l
}

// before closes a channel so long before the end.
func (l loss) before(d time.Duration, c chan struct{}) {
	if left := time.Until(l.Deadline()) - d; left > 0 {
		time.AfterFunc(left, func() { l.before(d, c) })
	} else if d > 0 || l.Err() == nil {
		close(c)
	}
}

func (l loss) Ending(before time.Duration) <-chan struct{} {
	c := make(chan struct{})
	l.before(before, c)
	return c
}

func (l loss) Done() <-chan struct{} { return l.done }
func (l loss) Deadline() time.Time   { return time.Unix(0, l.until.Load()) }

func (l loss) Err() error {
	select {
	case <-l.done:
		return errors.New("lost")
	default:
		return nil
	}
}

// events are what happens when.
type events map[time.Duration]func(*played, *command, loss)

// play has a command run for a time under a hold that ends at another, while events happen in virtual time; it returns
// what it heard and was said.
func play(t *testing.T, remain []remnant, runs, ends time.Duration, when events) (
	heard, said []string, end ending,
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &played{begun: time.Now(), changes: make(chan change), remain: remain, until: runs}
		lock := endsIn(ends)
		c := &command{name: "name", signals: make(chan os.Signal, 16), termBefore: 5 * time.Second}
		c.warn = func(format string, args ...any) {
			said = append(said, fmt.Sprintf("%.1fs ", time.Since(p.begun).Seconds())+fmt.Sprintf(format, args...))
		}
		for at, event := range when {
			time.AfterFunc(at, func() { event(p, c, lock) })
		}
		time.AfterFunc(runs, func() { p.changes <- change{exited: true, code: 3} })
		end = c.stayWith(p, lock)
		heard = p.heard
		if end.code != 3 {
			t.Errorf("got the code %d, want the command's 3", end.code)
		}
	})
	return heard, said, end
}

func send(sig syscall.Signal) func(*played, *command, loss) {
	return func(_ *played, c *command, _ loss) { c.signals <- sig }
}

func lose(_ *played, _ *command, lock loss) { close(lock.done) }

func renew(_ *played, _ *command, lock loss) { lock.until.Store(time.Now().Add(time.Hour).UnixNano()) }

// A hold that is not renewed has its command asked to end before it ends, and killed if that has not happened then. One
// that is lost at a blow has it killed at once.
func TestACommandIsEndedBeforeItsHold(t *testing.T) {
	const (
		asked   = "15.0s lock name cannot be renewed: ending the command before the lock is lost"
		killed  = "the command has not ended: killing it"
		renewed = "lock name is renewed after all; the command is ended all the same"
	)
	for name, c := range map[string]struct {
		runs        time.Duration
		when        events
		heard, said string
	}{
		"it obeys":        {17 * time.Second, nil, "15.0s terminate", asked},
		"it is stubborn":  {25 * time.Second, nil, "15.0s terminate, 19.5s kill", asked + ", 19.5s " + killed},
		"it had ended":    {14 * time.Second, nil, "", ""},
		"renewed in time": {25 * time.Second, events{14 * time.Second: renew}, "", ""},
		"renewed later": {
			25 * time.Second,
			events{16 * time.Second: renew},
			"15.0s terminate, 19.5s kill",
			asked + ", 16.3s " + renewed + ", 19.5s " + killed,
		},
		"renewed while it obeys": {
			17 * time.Second, events{16900 * time.Millisecond: renew}, "15.0s terminate", asked + ", 17.0s " + renewed,
		},
		"taken": {
			25 * time.Second, events{3 * time.Second: lose}, "3.0s kill", "3.0s lock name is lost: killing the command",
		},
		"taken later": {
			25 * time.Second, events{16 * time.Second: lose}, "15.0s terminate, 16.0s kill", asked + ", 16.0s " + killed,
		},
	} {
		heard, said, end := play(t, nil, c.runs, 20*time.Second, c.when)
		if got := strings.Join(heard, ", "); got != c.heard || end.stopped != (c.heard != "") {
			t.Errorf("%s: heard %q, want %q; ended by us: %t", name, got, c.heard, end.stopped)
		}
		if got := strings.Join(said, ", "); got != c.said {
			t.Errorf("%s: said %q, want %q", name, got, c.said)
		}
	}
}

// Nobody reads what is said, and a pipe is full: the command is killed in time.
func TestACommandIsEndedThoughNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &played{begun: time.Now(), changes: make(chan change)}
		out := terminal.NewAside(stuck{})
		c := &command{termBefore: 5 * time.Second, warn: func(text string, _ ...any) { io.WriteString(out, text) }}
		time.AfterFunc(25*time.Second, func() { p.changes <- change{exited: true} })
		c.stayWith(p, endsIn(20*time.Second))
		if out.Close(time.Second); time.Since(p.begun) != 26*time.Second {
			t.Errorf("ended after %s", time.Since(p.begun))
		}
		out.Close(24 * time.Hour)
		if got := strings.Join(p.heard, ", "); got != "15.0s terminate, 19.5s kill" {
			t.Errorf("heard %q", got)
		}
	})
}

// stuck is a standard error that nobody reads.
type stuck struct{}

func (stuck) Write(text []byte) (int, error) { time.Sleep(time.Hour); return len(text), nil }

// Nothing that a verb has to say keeps it from its end.
func TestAVerbEndsThoughNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		code := run(t.Context(), strings.Fields("redlock run --json"), io.Discard, stuck{})
		if took := time.Since(begun); code != exitUsage || took != 2*time.Second {
			t.Errorf("got %d after %s", code, took)
		}
		time.Sleep(24 * time.Hour) // until all is written
	})
}

// A supervisor that signals every process of a service has told the command already: it hears a signal from us only if
// it does not end by that. One on which somebody insists is passed on at once, instead of the first. And nothing stops
// us before the command has stopped, or had the time to.
func TestSignalsAreHeldBack(t *testing.T) {
	const ms = time.Millisecond
	term, stop := send(syscall.SIGTERM), send(syscall.SIGTSTP)
	stopped := func(p *played, _ *command, _ loss) { p.changes <- change{signal: syscall.SIGTSTP} }
	for name, c := range map[string]struct {
		runs, ends time.Duration
		when       events
		want       string
	}{
		"it ends":    {700 * ms, time.Hour, events{100 * ms: term}, ""},
		"it goes on": {9000 * ms, time.Hour, events{100 * ms: term}, "1.1s TERM"},
		"each by itself": {
			9000 * ms, time.Hour, events{100 * ms: send(syscall.SIGUSR1), 300 * ms: term}, "1.1s USR1, 1.3s TERM",
		},
		"others":          {900 * ms, time.Hour, events{100 * ms: send(syscall.SIGHUP), 200 * ms: send(syscall.SIGINT)}, ""},
		"twice":           {9000 * ms, time.Hour, events{100 * ms: term, 300 * ms: term}, "0.3s TERM"},
		"thrice":          {9000 * ms, time.Hour, events{0: term, 300 * ms: term, 400 * ms: term}, "0.3s TERM, 1.4s TERM"},
		"twice, later":    {9000 * ms, time.Hour, events{0: term, 3000 * ms: term}, "1.0s TERM, 4.0s TERM"},
		"asked meanwhile": {4000 * ms, 5500 * ms, events{100 * ms: term}, "0.5s terminate"},
		"asked before":    {4000 * ms, 5100 * ms, events{500 * ms: term}, "0.1s terminate, 0.5s TERM"},
		"it stops":        {900 * ms, time.Hour, events{0: stop, 200 * ms: stopped}, "0.0s pause, 0.2s suspend"},
		"it runs on":      {900 * ms, time.Hour, events{0: stop, 100 * ms: stop}, "0.0s pause, 0.5s suspend"},
		"it is to end":    {900 * ms, 5100 * ms, events{50 * ms: stop, 200 * ms: stop}, "0.1s pause, 0.1s terminate"},
	} {
		heard, _, _ := play(t, nil, c.runs, c.ends, c.when)
		if got := strings.Join(heard, ", "); got != c.want {
			t.Errorf("%s: heard %q, want %q", name, got, c.want)
		}
	}
}

// Who ends redlock while its lock is lost does not want the command again; HUP says so only then.
func TestWhoAsksForTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		when events
		want bool
	}{
		"nobody":    {events{2: lose}, false},
		"TERM":      {events{1: send(syscall.SIGTERM), 2: lose}, true},
		"TERM late": {events{2: lose, 3: send(syscall.SIGTERM)}, true},
		"HUP":       {events{1: send(syscall.SIGHUP), 2: lose}, false},
		"HUP late":  {events{2: lose, 3: send(syscall.SIGHUP)}, true},
		"USR1":      {events{2: lose, 3: send(syscall.SIGUSR1)}, false},
	} {
		if _, _, end := play(t, nil, time.Second, time.Hour, c.when); end.asked != c.want || !end.stopped {
			t.Errorf("%s: got %+v, want asked: %v", name, end, c.want)
		}
	}
}

// What cannot be ended is said: at once, and then once a minute, until it has ended. So is what KILL does not end.
func TestWhatCannotBeEndedIsSaid(t *testing.T) {
	root := remnant{pid: 7, name: "h", user: "root", refuses: true}
	ours := remnant{pid: 8, name: "dd"}
	for name, c := range map[string]struct {
		remain      []remnant
		want, heard string
	}{
		"refused": {[]remnant{root}, `
1.0s lock name cannot be renewed: ending the command before the lock is lost
1.0s cannot end process 7 (h) of user root: operation not permitted; waiting until that has ended
3.0s HUP cannot be passed on: process 7 (h) of user root: operation not permitted
5.5s the command has not ended: killing it
5.5s cannot end process 7 (h) of user root: operation not permitted; waiting until that has ended
65.5s still running 1m0s after KILL: process 7 (h) of user root: operation not permitted
125.5s still running 2m0s after KILL: process 7 (h) of user root: operation not permitted
`, "1.0s terminate, 3.0s HUP, 5.5s kill"},
		"it does not end": {[]remnant{ours}, `
1.0s lock name cannot be renewed: ending the command before the lock is lost
5.5s the command has not ended: killing it
65.5s still running 1m0s after KILL: process 8 (dd)
125.5s still running 2m0s after KILL: process 8 (dd)
`, "1.0s terminate, 3.0s HUP, 5.5s kill"},
	} {
		heard, said, end := play(t, c.remain, 150*time.Second, 6*time.Second, events{3 * time.Second: send(syscall.SIGHUP)})
		if got := "\n" + strings.Join(said, "\n") + "\n"; got != c.want {
			t.Errorf("%s: said %s, want %s", name, got, c.want)
		}
		if got := strings.Join(heard, ", "); got != c.heard || end.code != 3 {
			t.Errorf("%s: heard %q, want %q; code %d", name, got, c.heard, end.code)
		}
	}
}

// The command has ended, what it has started has not: it is waited for.
func TestTheEndOfWhatIsLeftIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		play := &played{begun: begun, changes: make(chan change), remain: []remnant{{pid: 7}}, until: 100 * time.Second}
		lock := endsIn(time.Hour)
		c := &command{signals: make(chan os.Signal), termBefore: time.Second, warn: func(string, ...any) {}}
		close(lock.done)
		time.AfterFunc(2*time.Second, func() { play.changes <- change{exited: true} })
		c.stayWith(play, lock)
		if took := time.Since(begun); took < 100*time.Second || took > 100*time.Second+lastPoll {
			t.Errorf("it took %s, want 100s and at most %s", took, lastPoll)
		}
	})
}

func TestRemnants(t *testing.T) {
	if !errors.Is(syscall.EPERM, os.ErrPermission) || syscall.EPERM.Error() != "operation not permitted" {
		t.Errorf("EPERM is %q here", syscall.EPERM)
	}
	all := []remnant{{pid: 1}, {pid: 2, name: "a"}, {pid: 3, user: "u", refuses: true}, {pid: 4}, {pid: 5}, {pid: 6}}
	const want = `process 1, process 2 (a), process 3 of user u: operation not permitted, process 4, and 2 more`
	if got := listed(all); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
