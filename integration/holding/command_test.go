package holding_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
	"github.com/quorumlock/redlock/internal/boottime"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// commandMarks makes this program a command of redlock run: this is the file to which it appends its marks.
const commandMarks = "REDLOCK_TEST_COMMAND_MARKS"

// mark is what a command did when, by the clock of the machine.
type mark struct {
	who, what string // "begin", "work", "term", "end"
	at        time.Duration
}

// runCommand is main of a command: who it is, and for how long it goes on when it is asked to end, if it ends then.
func runCommand(who, stops string) int {
	file, err := os.OpenFile(os.Getenv(commandMarks), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	say := func(what string) { fmt.Fprintf(file, "%s %s %d\n", who, what, boottime.Now()) }
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	say("begin")
	fmt.Println("begin")
	if stops == "at once" {
		say("end")
		return 0
	}
	forsaken := make(chan struct{}) // whoever has started us, and redlock, has gone
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(forsaken)
	}()
	if stops == "never" && who == "holder" {
		also := exec.Command(os.Args[0], "helper", stops) //nolint:gosec // our own
		also.Stdin = os.Stdin
		if err := also.Start(); err != nil {
			return 1
		}
	}
	var end <-chan time.Time
	for {
		select {
		case <-asked:
			say("term")
			if d, err := time.ParseDuration(stops); err == nil {
				end = time.After(d)
			}
		case <-end:
			say("end")
			return 0
		case <-forsaken:
			return 1
		case <-time.After(5 * time.Millisecond):
			say("work")
		}
	}
}

// A command whose lock cannot be renewed has stopped when the next holder's begins, also if to stop takes it most of
// --term-before; and one that does not stop has been killed, with what it has started. The holders are cut off while
// somebody waits for each of their locks.
//
// No overlap is a fleet.Unsafe: on a machine that lets others run, and redlock not, a command may be killed too late.
func TestACommandHasStoppedBeforeTheNextBegins(t *testing.T) {
	t.Parallel()
	rounds, each := fleet.Sized(1, 5), fleet.Sized(3, 20)
	f := fleet.Start(t, 5)
	redlock := fleet.BuildCommand(t)
	cuts := []func(*faultproxy.Proxy){
		func(p *faultproxy.Proxy) { p.Hold(faultproxy.Up); p.Hold(faultproxy.Down) },
		(*faultproxy.Proxy).Refuse,
		func(p *faultproxy.Proxy) { p.Drop(faultproxy.Up); p.Drop(faultproxy.Down) },
	}
	for i, stops := range []string{fleet.Sized("1s", "3s"), "never"} {
		before, alone := 0, 0
		for round := range rounds {
			for _, marks := range cutOff(t, f, redlock, stops, each, cuts[(i+round)%len(cuts)]) {
				last, first, stopped := judge(t, marks)
				if last.at >= first.at {
					t.Errorf("%v after the next had begun, the %s went on: %s", last.at-first.at, last.who, last.what)
				} else {
					before++
				}
				if stopped {
					alone++
				}
			}
		}
		if stops != "never" && alone == 0 {
			t.Error("no command has ended by itself")
		}
		t.Logf("stops %s: %d of %d had ended before the next began, %d by themselves", stops, before, rounds*each, alone)
	}
}

// cutOff lets commands run under as many locks, cuts their redlocks off, and returns the files with the marks of each
// and of the next under its lock.
func cutOff(
	t *testing.T, f fleet.Fleet, redlock, stops string, locks int, cut func(*faultproxy.Proxy),
) (marks []string) {
	t.Helper()
	ttl, before := fleet.Sized(3*time.Second, 8*time.Second), fleet.Sized("1.5s", "4s")
	nw, look := f.Network(t), f.Locker(t)
	run := func(urls []string, name, who, stops string) (p *child.Process, begun chan struct{}) {
		begun = make(chan struct{}, 2)
		p, err := child.Start(t.Context(), redlock, []string{commandMarks + "=" + name}, []string{
			"run", "--nodes=" + strings.Join(urls, ","), "--no-restart-guard", "--node-timeout=1s", "--quiet",
			"--ttl=" + ttl.String(), "--term-before=" + before, name, "--", os.Args[0], who, stops,
		}, func([]byte) { begun <- struct{}{} })
		cases.NoError(t, err)
		t.Cleanup(func() { _ = p.End() }) // it may have ended
		return p, begun
	}
	var holders, nexts []*child.Process
	for i := range locks {
		name := filepath.Join(t.TempDir(), fmt.Sprint(i)) // of the lock, too
		cases.NoError(t, os.WriteFile(name, nil, 0o600))
		marks = append(marks, name)
		holder, begun := run(nw.URLs, name, "holder", stops)
		<-begun
		next, _ := run(masters.URLs(f.Nodes), name, "next", "at once")
		holders, nexts = append(holders, holder), append(nexts, next)
	}
	for _, name := range marks {
		fleet.Eventually(t, "somebody waits", func() bool {
			got, err := look.Inspect(t.Context(), name)
			return err == nil && got.Waiting > 0
		})
	}
	time.Sleep(rand.N(ttl / 3)) // some renewals
	nw.Each(cut)
	for i, holder := range holders {
		var exit *exec.ExitError
		if err := holder.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 79 {
			t.Errorf("the holder ended with %v, want 79", err)
		}
		cases.NoError(t, nexts[i].Wait())
	}
	return marks
}

// judge returns the last that the holder's command did, whether that was to end by itself, and the first of the next.
func judge(t *testing.T, marks string) (last, first mark, stopped bool) {
	t.Helper()
	file := cases.Must(os.Open(marks))(t) //nolint:gosec // our own
	defer func() { _ = file.Close() }()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var m mark
		if _, err := fmt.Sscan(lines.Text(), &m.who, &m.what, &m.at); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		switch {
		case m.who == "next" && first.at == 0:
			first = m
		case m.who != "next" && m.at >= last.at:
			last = m
			stopped = stopped || m.what == "end"
		}
	}
	if first.at == 0 || last.at == 0 {
		t.Fatalf("the holder's last is %+v, the next one's first %+v", last, first)
	}
	return last, first, stopped
}
