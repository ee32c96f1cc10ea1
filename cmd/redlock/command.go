package main

import (
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
