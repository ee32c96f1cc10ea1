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
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
)

// command is what run and once run while a lock is held.
type command struct {
	name      string // of the lock
	path      string
	argv      []string
	signals   chan os.Signal
	killAfter time.Duration
	warn      func(format string, args ...any)
	attempts  attempts // to get the lock

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
			Name:  "kill-after",
			Usage: "how long a command whose lock is lost may take to end before it is killed, as `DURATION`",
			Value: 5 * time.Second,
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
	case cmd.Duration("kill-after") < 0:
		return nil, usagef("--kill-after %s is negative", cmd.Duration("kill-after"))
	case cmd.Int("taken-code") < 0 || cmd.Int("taken-code") > 255:
		return nil, usagef("--taken-code %d: want 0 to 255", cmd.Int("taken-code"))
	}
	path, err := lookUp(args[1]) // before the lock: nobody should wait for a typing error
	if err != nil {
		return nil, err
	}
	c := &command{
		name: args[0], path: path, argv: args[1:], signals: make(chan os.Signal, 16),
		killAfter: cmd.Duration("kill-after"), warn: warner(cmd),
	}
	catch(c.signals)
	return c, nil
}

// warner says what happens while a command runs.
func warner(cmd *cli.Command) func(format string, args ...any) {
	out := cmd.Root().ErrWriter
	return func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
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
	interrupted bool  // by the terminal's Ctrl-C, which our own process group has not seen
	asked       bool  // somebody wants redlock to end
	lost        error // why the lock was lost while the command ran, or nil
}

// run starts the command and stays with it. The error says that the command could not be started.
func (c *command) run(lock *redlock.Lock) (ending, error) {
	p, err := start(&exec.Cmd{
		Path: c.path, Args: c.argv, Env: environment(lock),
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
	Done() <-chan struct{}
	Err() error
}

// A supervisor such as systemd may send TERM to every process of a service, to redlock and to the command: if redlock
// passed it on at once, the command would hear it twice, and many programs give up a second time in a hurry. The system
// does not tell which signals another process has had. So a command gets a moment to end by the signal of its own.
const heldBack = time.Second

// What a lost lock's command has left behind is looked for at once, and then less and less often; once a minute it is
// said what still runs.
const (
	firstPoll   = 10 * time.Millisecond
	lastPoll    = time.Second
	remindEvery = time.Minute
)

// stayWith returns when the command has ended and, if the lock was lost, nothing is left of what it has started.
func (c *command) stayWith(p child, lock hold) ending {
	var (
		end    ending
		ended  bool
		lost   = lock.Done()
		held   <-chan time.Time // set while TERM is held back
		kill   <-chan time.Time // set while a lost lock's command may still end by itself
		remind <-chan time.Time // set, as the following are, once the lock is lost
		poll   <-chan time.Time
		since  time.Time
		pause  = 10 * time.Millisecond // until the next poll
		killed bool
	)
	changes, orphans := p.news()
	trusted := func() bool { return lock.Err() == nil }
	forward := func(sig syscall.Signal) {
		if err := p.forward(sig, trusted); err != nil {
			c.warn("%s cannot be passed on: %s", signalName(sig), cmp.Or(listed(refusing(p.left())), err.Error()))
		}
	}
	for {
		select {
		case <-lost:
			lost, end.lost = nil, lock.Err()
			held = nil // it is sent now
			c.warn("lock %s is lost: ending the command", printable(c.name))
			p.terminate()
			since, kill, poll = time.Now(), time.After(c.killAfter), time.After(pause)
			reminder := time.NewTicker(remindEvery)
			defer reminder.Stop()
			remind = reminder.C
			c.warnOfRefusal(refusing(p.left()))
		case <-kill:
			kill, killed, pause = nil, true, firstPoll
			poll = time.After(pause)
			left := p.left()
			refusing := refusing(left)
			if len(left) == 0 || len(refusing) < len(left) {
				c.warn("not ended within %s: killing it", c.killAfter)
				p.kill()
				c.warnOfRefusal(refusing)
			} else {
				c.warn("not ended within %s, and cannot be killed: %s", c.killAfter, listed(refusing))
			}
		case <-remind:
			left := p.left()
			if !killed {
				left = refusing(left) // the others may take their time
			}
			if len(left) > 0 {
				c.warn("still running %s after the lock was lost: %s", span(time.Since(since)), listed(left))
			}
		case <-poll:
			if killed {
				p.kill() // what has been started since
			}
			pause = min(2*pause, lastPoll)
			poll = time.After(pause)
		case <-orphans:
			p.reap()
		case sig := <-c.signals:
			n, _ := sig.(syscall.Signal)
			end.asked = end.asked || endsWaiting(n) && (end.lost != nil || n != syscall.SIGHUP) // which many reload by
			switch sig := sig.(syscall.Signal); {
			case held == nil && end.lost == nil && maySignalAll(sig):
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
		if ended && (end.lost == nil || p.gone()) {
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
		text += fmt.Sprintf(" (%s)", printable(r.name))
	}
	if r.user != "" {
		text += " of user " + printable(r.user)
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

func (c *command) warnOfRefusal(refusing []remnant) {
	if len(refusing) > 0 {
		c.warn("cannot end %s; waiting until that has ended", listed(refusing))
	}
}

// exit ends redlock as the command ended.
func (end ending) exit() error {
	f := &failure{code: end.code, outcome: outcomeEnded}
	if end.interrupted {
		f.last = func() { dieOfInterrupt(true) }
	}
	return f
}

// environment is what the command gets: ours, and who it is on the nodes.
func environment(lock *redlock.Lock) []string {
	return append(os.Environ(),
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
