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
	interrupted bool // by the terminal's Ctrl-C
	heard       bool // by us, too, as by all of our process group
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
	for pause := firstPoll; ; pause *= 2 {
		p, err := start(&exec.Cmd{
			Path: c.path, Args: c.argv, Env: c.environment(lock),
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		})
		if err == nil {
			defer p.close()
			c.ran, c.token = true, lock.Token()
			return c.stayWith(p, lock), nil
		}
		// What is over in a moment: its file is being written, or there are too many processes.
		if pause > lastPoll || !errors.Is(err, syscall.ETXTBSY) && !errors.Is(err, syscall.EAGAIN) {
			return ending{}, notRunnable(c.argv[0], err)
		}
		select {
		case <-lock.Done(): // now it must not start
			return ending{}, notRunnable(c.argv[0], err)
		case <-time.After(pause):
		}
	}
}

// child is a running command as a platform knows it: a process, except in tests.
type child interface {
	news() (changes <-chan change, orphans <-chan os.Signal)
	reap()                                                 // what has ended, of what the command has left to us
	hasHeard(sig syscall.Signal) bool                      // without us
	forward(sig syscall.Signal, trusted func() bool) error // what the system says where nobody may be signalled
	stopped(by syscall.Signal, trusted func() bool)        // follows the command into a stop
	pause()                                                // asks the command to stop, since we are to
	suspend(trusted func() bool)                           // stops it, and us, until somebody continues us
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

// A supervisor may signal every process of a service, redlock and the command: if redlock passed that on at once, the
// command would hear it twice, and many programs give up a second time in a hurry. The system does not tell which
// signals another process has had. So a command gets a moment to end by the signal of its own.
const heldBack = time.Second

// Whether anything is left of a command that is to end is looked for at once, and then less and less often; once a
// minute it is said what has outlived KILL.
const (
	firstPoll   = 10 * time.Millisecond
	lastPoll    = time.Second
	remindEvery = time.Minute
)

// stopsWithin is for how long a command may go on that is to stop with redlock, before it is made to.
const stopsWithin = 500 * time.Millisecond

// stay is what becomes of a running command: it may be asked to end, then killed, and has ended when nothing is left.
//
// A hold that is not renewed has a command that is asked to end by TERM, in good time, and killed before another can
// have the lock: somewhat before the hold ends, since to end takes a process a moment, and us, to be woken. When the
// hold ends without that, as when it was taken by force, somebody may have the lock already: then KILL comes at once.
type stay struct {
	*command
	p    child
	lock hold
	end  ending

	ended  bool
	held   map[syscall.Signal]*time.Timer // what is held back; each comes to due
	due    chan syscall.Signal
	stop   <-chan time.Time // set while the command may stop before redlock does
	until  time.Time        // when the hold was to end, when the command was asked to; zero: it was not, or that is said
	kill   <-chan time.Time // set while a command that was asked to end may still do so
	poll   <-chan time.Time // set once end.stopped is
	pause  time.Duration    // until the next poll
	killed time.Time        // zero: it was not
	remind <-chan time.Time // set when it is
}

// stayWith returns when the command has ended and, if we have ended it, nothing is left of what it has started.
func (c *command) stayWith(p child, lock hold) ending {
	s := stay{command: c, p: p, lock: lock, held: make(map[syscall.Signal]*time.Timer), due: make(chan syscall.Signal, 16)}
	ends, lost := lock.Ending(c.termBefore), lock.Done()
	for changes, orphans := p.news(); !s.ended || s.end.stopped && !p.gone(); {
		select {
		case <-ends:
			if ends = nil; s.trusted() { // else it is lost, which comes next
				s.ask()
			}
		case <-lost:
			if lost, ends = nil, nil; s.killed.IsZero() {
				s.kill = time.After(0)
			}
		case <-s.kill:
			s.killAll()
		case <-s.remind:
			if left := p.left(); len(left) > 0 {
				c.warn("still running %s after KILL: %s", span(time.Since(s.killed)), listed(left))
			}
		case <-s.poll:
			if !s.killed.IsZero() {
				p.kill() // what has been started since
			}
			s.pollAfter(min(2*s.pause, lastPoll))
		case <-orphans:
			p.reap()
		case sig := <-c.signals:
			s.signalled(sig.(syscall.Signal))
		case sig := <-s.due:
			if s.held[sig] != nil {
				s.forward(sig)
			}
		case <-s.stop:
			s.stop = nil
			p.suspend(s.trusted)
		case change := <-changes:
			s.changed(change)
		}
		if !s.until.IsZero() && lock.Deadline().After(s.until) && s.trusted() {
			s.until = time.Time{}
			c.warn("lock %s is renewed after all; the command is ended all the same", c.name)
		}
	}
	if left := p.left(); s.end.stopped && len(left) > 0 {
		c.warn("still running, without the lock: %s", listed(left))
	}
	return s.end
}

func (s *stay) trusted() bool { return s.lock.Err() == nil }

func (s *stay) ask() {
	s.until = s.lock.Deadline()
	s.kill = time.After(min(s.termBefore, time.Until(s.until)) - s.termBefore/10) // also if it is renewed now
	s.p.terminate()
	s.ending("lock %s cannot be renewed: ending the command before the lock is lost", s.name)
}

func (s *stay) killAll() {
	s.kill, s.killed, s.remind = nil, time.Now(), time.Tick(remindEvery)
	s.p.kill()
	if s.end.stopped {
		s.ending("the command has not ended: killing it")
	} else {
		s.ending("lock %s is lost: killing the command", s.name)
	}
}

// ending says why the command has been told to end, and by whom it cannot be.
func (s *stay) ending(format string, args ...any) {
	s.end.stopped, s.stop = true, nil
	clear(s.held) // it has been told enough
	s.pollAfter(firstPoll)
	s.warn(format, args...)
	if refusing := refusing(s.p.left()); len(refusing) > 0 {
		s.warn("cannot end %s; waiting until that has ended", listed(refusing))
	}
}

func (s *stay) pollAfter(d time.Duration) { s.pause, s.poll = d, time.After(d) }

// signalled holds a signal back that the command may have had, too. Who sends it twice has that passed on once, now.
func (s *stay) signalled(sig syscall.Signal) {
	s.end.asked = s.end.asked || endsWaiting(sig) && (s.end.stopped || sig != syscall.SIGHUP) // which many reload by
	s.end.heard = s.end.heard || sig == syscall.SIGINT
	switch {
	case s.p.hasHeard(sig):
	case stopsUs(sig):
		if !s.end.stopped && s.stop == nil {
			s.p.pause()
			s.stop = time.After(stopsWithin)
		}
	case s.held[sig] == nil && !s.end.stopped && maySignalAll(sig):
		s.held[sig] = time.AfterFunc(heldBack, func() { s.due <- sig })
	default:
		s.forward(sig)
	}
}

func (s *stay) forward(sig syscall.Signal) {
	if t := s.held[sig]; t != nil {
		t.Stop()
		delete(s.held, sig)
	}
	if err := s.p.forward(sig, s.trusted); err != nil {
		s.warn("%s cannot be passed on: %s", signalName(sig), cmp.Or(listed(refusing(s.p.left())), err.Error()))
	}
}

func (s *stay) changed(c change) {
	switch {
	case c.exited:
		s.ended, s.end.code, s.end.interrupted = true, c.code, s.p.interrupted(c)
		if s.end.stopped {
			s.pollAfter(firstPoll)
		}
	case s.stop != nil:
		s.stop = nil
		s.p.suspend(s.trusted)
	default:
		s.p.stopped(c.signal, s.trusted)
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

// exit ends redlock as the command ended.
func (end ending) exit() error {
	f := &failure{code: end.code, outcome: outcomeEnded}
	if end.interrupted {
		f.last = func() { dieOfInterrupt(!end.heard) }
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
