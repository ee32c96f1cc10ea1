package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/printable"
)

// command is what run and once run while a lock is held.
type command struct {
	name       string // of the lock
	path       string
	argv       []string
	signals    chan os.Signal
	passNodes  bool          // it gets the settings that may have passwords in them
	termBefore time.Duration // how long before the end of its hold it is asked to end
	warn       func(format string, args ...any)
	attempts   attempts // to get the lock
	locker     atomic.Pointer[redlock.Locker]

	ran   bool  // the command was started
	token int64 // of the hold under which it was
}

// commandFlags are the flags of every verb that runs a command.
func commandFlags() []cli.Flag {
	return append(
		waitFlags("give up when the lock is not held after `DURATION`; 0s is --no-wait",
			"ask once and give up if the lock is taken"),
		&cli.IntFlag{
			Name:  "taken-code",
			Usage: "end with exit code `N` when another holder has the lock; 0 says nothing, either",
			Value: int(exitTaken),
		},
		&cli.DurationFlag{
			Name: "term-before",
			Usage: "send TERM to a command whose lock cannot be renewed `DURATION` before the lock is lost; by then it is " +
				"killed",
			DefaultText: "a quarter of --ttl, 5s at most",
		},
		&cli.BoolFlag{
			Name:  passNodes,
			Usage: "leave the settings that may have passwords in them in COMMAND's environment: for one that uses redlock",
		},
		jsonFlag("end standard error with one JSON object that tells how it went"),
	)
}

// underLock is the action of a verb that runs a command under a lock; do takes the lock and runs it.
func underLock(do func(context.Context, *cli.Command, *redlock.Locker, *command) error) cli.ActionFunc {
	return settled(func(ctx context.Context, cmd *cli.Command) error {
		command, err := newCommand(cmd)
		if err == nil {
			defer signal.Stop(command.signals)
			err = connected(cmd, redlock.New, func(locker *redlock.Locker) error {
				return do(ctx, cmd, locker, command)
			}, command.watching()...)
		}
		err = taken(cmd, err)
		if !cmd.Bool("json") {
			if codeOf(err) == exitOK {
				return silent(err)
			}
			return err
		}
		r := reportOn(err)
		r.Name, r.Ran = cmd.Args().First(), new(bool)
		r.Bytes = bytesOf(r.Name)
		if command != nil {
			*r.Ran, r.Token = command.ran, command.token
		}
		printJSON(cmd.Root().ErrWriter, r)
		return silent(err)
	})
}

// taken gives the error of a lock that another holder has the exit code that is wanted for it. A command that ended
// with 75 is another matter, and so is a wait that was over before anybody had said who holds the lock.
func taken(cmd *cli.Command, err error) error {
	if codeOf(err) != exitTaken || !errors.Is(err, redlock.ErrNotAcquired) || !errors.Is(err, redlock.ErrTaken) {
		return err
	}
	return &failure{
		code: exitCode(cmd.Int("taken-code")), text: complaint(err), outcome: outcomes[exitTaken], cause: err,
	}
}

// newCommand reads what is to be run under which lock. It catches signals from now on: they must not end us before the
// lock is let go. The caller calls signal.Stop.
func newCommand(cmd *cli.Command) (*command, error) {
	args := cmd.Args().Slice()
	if _, _, err := waitLimit(cmd); err != nil {
		return nil, err
	}
	switch {
	case len(args) == 0:
		return nil, usagef(`no lock name; see "%s --help"`, cmd.FullName())
	case len(args) == 1:
		return nil, usagef("no command to run while %q is held", args[0])
	case strings.HasPrefix(args[1], "-"):
		return nil, usagef("%q after the lock name: flags stand before it", args[1])
	case cmd.Int("taken-code") < 0 || cmd.Int("taken-code") > 255:
		return nil, usagef("--taken-code %d: want 0 to 255", cmd.Int("taken-code"))
	}
	termBefore, err := termBeforeOf(cmd)
	if err != nil {
		return nil, err
	}
	path, err := lookUp(args[1]) // before the lock: nobody should wait for a typing error
	if err != nil {
		return nil, err
	}
	c := &command{
		name: args[0], path: path, argv: args[1:], signals: make(chan os.Signal, 16),
		passNodes: cmd.Bool(passNodes), termBefore: termBefore, warn: warner(cmd),
		attempts: attempts{barred: make(chan error, 1)},
	}
	catch(c.signals)
	return c, nil
}

// termBeforeOf returns how long before the end of its hold a command is asked to end. A hold is renewed when two thirds
// of the TTL are left: before that, nobody is to be asked.
func termBeforeOf(cmd *cli.Command) (time.Duration, error) {
	ttl, before := cmp.Or(cmd.Duration("ttl"), 10*time.Second), cmd.Duration("term-before")
	switch most := ttl * 3 / 5; {
	case !cmd.IsSet("term-before"):
		return min(ttl/4, 5*time.Second), nil
	case before < 0:
		return 0, usagef("--term-before %s is negative", before)
	case before > most:
		return 0, usagef("--term-before %s: at most %s, three fifths of the TTL %s: it is renewed when two thirds are left, "+
			"and would end each run at once", before, most, ttl)
	}
	return before, nil
}

// warner says what happens while a command runs.
func warner(cmd *cli.Command) func(format string, args ...any) {
	out := cmd.Root().ErrWriter
	return func(format string, args ...any) {
		text := printable.Text(fmt.Sprintf(format, args...))
		if cmd.Bool("json") {
			printJSON(out, map[string]string{"warning": text})
			return
		}
		fmt.Fprintf(out, "redlock: %s\n", text)
	}
}

// ending is how a command ended.
type ending struct {
	code        exitCode
	interrupted bool // by the terminal's Ctrl-C, which our own process group has not seen
	asked       bool // somebody wants redlock to end
	stopped     bool // by us, because the hold was over, or about to be
}

// run starts the command and stays with it. The error says that the command could not be started.
func (c *command) run(lock *redlock.Lock) (ending, error) {
	// A hold that was handed over begins with a lease, and one that took long to get with less than the TTL: too little
	// to ask the command in good time.
	if time.Until(lock.Deadline()) <= c.termBefore*5/4 {
		if err := lock.Extend(context.Background()); err != nil {
			return ending{}, err
		}
	}
	p, err := start(&exec.Cmd{
		Path: c.path, Args: c.argv, Env: c.environment(lock),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return ending{}, notRunnable(c.argv[0], err)
	}
	defer p.close()
	c.ran, c.token = true, lock.Token()

	return c.stayWith(p, lock), nil
}

// child is a running command as a platform knows it: a process, except in tests.
type child interface {
	news() (changes <-chan change, orphans <-chan os.Signal)
	reap()                                                 // what has ended, of what the command has left to us
	forward(sig syscall.Signal, trusted func() bool) error // what the system says where nobody may be signalled
	stopped(by syscall.Signal, trusted func() bool)        // follows the command into a stop
	terminate()                                            // asks the command, and all it has started, to end
	kill()                                                 // ends them
	left() []remnant                                       // which of them live
	gone() bool                                            // whether none does, once the command itself has ended
	interrupted(c change) bool
}

// hold is what a command needs to know of its lock.
type hold interface {
	Ending(before time.Duration) <-chan struct{}
	Done() <-chan struct{}
	Deadline() time.Time
	Err() error
}

// A supervisor such as systemd may send TERM to every process of a service, to redlock and to the command: if redlock
// passed it on at once, the command would hear it twice, and many programs give up a second time in a hurry. The system
// does not tell which signals another process has had. So a command gets a moment to end by the signal of its own.
const heldBack = time.Second

// Whether anything is left of a command that is to end is looked for at once, and then less and less often; once a
// minute it is said what has outlived KILL.
const (
	firstPoll   = 10 * time.Millisecond
	lastPoll    = time.Second
	remindEvery = time.Minute
)

// stayWith returns when the command has ended and, if we have ended it, nothing is left of what it has started.
//
// A hold that is not renewed has a command that is asked to end by TERM, in good time, and killed before another can
// have the lock: somewhat before the hold ends, since to end takes a process a moment, and us, to be woken. When the
// hold ends without that, as when it was taken by force, somebody may have the lock already: then KILL comes at once.
func (c *command) stayWith(p child, lock hold) ending {
	var (
		end    ending
		ended  bool
		ends   = lock.Ending(c.termBefore)
		lost   = lock.Done()
		held   <-chan time.Time // set while TERM is held back
		until  time.Time        // when the hold was to end, when the command was asked to; zero: it was not, or that is said
		kill   <-chan time.Time // set while a command that was asked to end may still do so
		poll   <-chan time.Time // set once end.stopped is
		pause  = firstPoll      // until the next poll
		killed time.Time        // zero: it was not
		remind <-chan time.Time // set when it is
	)
	changes, orphans := p.news()
	say, said := c.aside()
	defer said()
	sayRefused := func() {
		if refusing := refusing(p.left()); len(refusing) > 0 {
			say("cannot end %s; waiting until that has ended", listed(refusing))
		}
	}
	trusted := func() bool { return lock.Err() == nil }
	forward := func(sig syscall.Signal) {
		if err := p.forward(sig, trusted); err != nil {
			say("%s cannot be passed on: %s", signalName(sig), cmp.Or(listed(refusing(p.left())), err.Error()))
		}
	}
	stop := func(by func(), format string, args ...any) {
		by()
		end.stopped, held, pause = true, nil, firstPoll // what is held back is sent now
		poll = time.After(pause)
		say(format, args...)
		sayRefused()
	}
	for {
		select {
		case <-ends:
			if ends = nil; !trusted() {
				continue // it is lost, which comes next
			}
			until = lock.Deadline()
			kill = time.After(min(c.termBefore, time.Until(until)) - c.termBefore/10) // also if it is renewed now
			stop(p.terminate, "lock %s cannot be renewed: ending the command before the lock is lost", c.name)
		case <-lost:
			if lost, ends = nil, nil; killed.IsZero() {
				kill = time.After(0)
			}
		case <-kill:
			kill, killed, remind = nil, time.Now(), time.Tick(remindEvery)
			if end.stopped {
				stop(p.kill, "the command has not ended: killing it")
			} else {
				stop(p.kill, "lock %s is lost: killing the command", c.name)
			}
		case <-remind:
			if left := p.left(); len(left) > 0 {
				say("still running %s after KILL: %s", span(time.Since(killed)), listed(left))
			}
		case <-poll:
			if !killed.IsZero() {
				p.kill() // what has been started since
			}
			pause = min(2*pause, lastPoll)
			poll = time.After(pause)
		case <-orphans:
			p.reap()
		case sig := <-c.signals:
			n, _ := sig.(syscall.Signal)
			end.asked = end.asked || endsWaiting(n) && (end.stopped || n != syscall.SIGHUP) // which many reload by
			switch sig := sig.(syscall.Signal); {
			case held == nil && !end.stopped && maySignalAll(sig):
				held = time.After(heldBack)
			default:
				forward(sig)
			}
		case <-held:
			held = nil
			forward(syscall.SIGTERM)
		case change := <-changes:
			if change.exited {
				ended, pause = true, firstPoll
				if poll != nil {
					poll = time.After(pause)
				}
				end.code, end.interrupted = change.code, p.interrupted(change)
			} else {
				p.stopped(change.signal, trusted)
			}
		}
		if !until.IsZero() && lock.Deadline().After(until) && trusted() {
			until = time.Time{}
			say("lock %s is renewed after all; the command is ended all the same", c.name)
		}
		if ended && (!end.stopped || p.gone()) {
			return end
		}
	}
}

// remnant is a process that is left of a command.
type remnant struct {
	pid     int
	name    string // of its program, or ""
	user    string // or ""
	refuses bool   // we may not signal it
}

func (r remnant) String() string {
	text := fmt.Sprintf("process %d", r.pid)
	if r.name != "" {
		text += fmt.Sprintf(" (%s)", r.name)
	}
	if r.user != "" {
		text += " of user " + r.user
	}
	if r.refuses {
		text += ": operation not permitted"
	}
	return text
}

// refusing are those that we may not signal: they, or what has started them, have become another user.
func refusing(all []remnant) []remnant {
	return slices.DeleteFunc(slices.Clone(all), func(r remnant) bool { return !r.refuses })
}

func listed(all []remnant) string {
	const most = 4
	var texts []string
	for i, r := range all {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		texts = append(texts, r.String())
	}
	return strings.Join(texts, ", ")
}

// aside returns a warn that does not wait: who should read our standard error may be stuck, and the command is to be
// killed in time all the same. said waits until all is said.
func (c *command) aside() (say func(format string, args ...any), said func()) {
	texts := make(chan string, 100)
	var saying sync.WaitGroup
	saying.Go(func() {
		for text := range texts {
			c.warn("%s", text)
		}
	})
	say = func(format string, args ...any) {
		select {
		case texts <- fmt.Sprintf(format, args...):
		default: // nobody has read for an hour
		}
	}
	return say, func() { close(texts); saying.Wait() }
}

// exit ends redlock as the command ended.
func (end ending) exit() error {
	f := &failure{code: end.code, outcome: outcomeEnded}
	if end.interrupted {
		f.last = func() { dieOfInterrupt(true) }
	}
	return f
}

// passNodes is the flag with which a command inherits passwords of nodes.
const passNodes = "pass-nodes"

// secretSettings may have passwords in them, with which a command, and all that it starts, could do whatever we can.
var secretSettings = []string{settingOf("nodes"), settingOf("to"), settingOf(passwordCommandFlag)}

// environment is what the command gets: ours, without passwords, and who it is on the nodes.
func (c *command) environment(lock *redlock.Lock) []string {
	inherited := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		return !c.passNodes && slices.Contains(secretSettings, strings.ToUpper(key)) // Windows takes small letters, too
	})
	return append(inherited,
		"REDLOCK_NAME="+lock.Name(),
		"REDLOCK_OWNER="+lock.Owner(),
		"REDLOCK_TOKEN="+strconv.FormatInt(lock.Token(), 10),
	)
}

// lookUp finds the command as a shell does, with a shell's exit codes.
func lookUp(file string) (string, error) {
	path, err := exec.LookPath(file)
	if err == nil || errors.Is(err, exec.ErrDot) {
		return path, nil
	}
	return "", notRunnable(file, err)
}

func notRunnable(file string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		meant := ""
		if strings.ContainsAny(file, " =|&;<>*$`") { // the shell's business, in quotes: nobody else would read it
			meant = didYouMean("sh -c '…'")
		}
		return failf(exitNotFound, "%s: command not found%s", file, meant)
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner // the errno alone: the name stands in front already
	}
	return failf(exitNotRunnable, "%s: %v", file, err)
}
