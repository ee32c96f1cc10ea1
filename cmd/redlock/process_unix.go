//go:build unix

package main

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

// passedOn are the signals that the command gets when we do.
var passedOn = []syscall.Signal{
	unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGALRM,
}

// catch has all signals that concern us delivered to ch. What our parent ignores on purpose (nohup) stays
// ignored, here and in the command. PIPE is caught to be dropped: a reader of our messages that has gone must
// not end us before the lock is let go. (Catching, unlike ignoring, is not inherited by the command.) TSTP and TTIN are
// caught, since nothing may stop us while the command runs on.
func catch(ch chan<- os.Signal) {
	for _, sig := range append(passedOn, unix.SIGCONT, unix.SIGPIPE, unix.SIGTSTP, unix.SIGTTIN) {
		if !signal.Ignored(sig) {
			signal.Notify(ch, sig)
		}
	}
}

// endsWaiting says whether a signal ends a redlock that has no command yet. USR1 and USR2 are meant for the
// command, and are dropped.
func endsWaiting(sig syscall.Signal) bool {
	switch sig {
	case unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGQUIT, unix.SIGALRM:
		return true
	}
	return false
}

// stopsUs says whether a signal stops a program, which we then do by terminal.Suspend.
func stopsUs(sig syscall.Signal) bool { return sig == unix.SIGTSTP || sig == unix.SIGTTIN }

// process is a running command. It leads a process group of its own, so that signals reach whatever it
// started, unless others share ours and the terminal: see shares. All methods are called by one goroutine.
type process struct {
	pid     int
	handle  *os.Process // the same, and nothing else once it has ended
	tty     *os.File    // the controlling terminal, or nil
	shares  bool        // our process group, and so all keys
	parent  int         // ours
	changes chan change
	orphans chan os.Signal // says that something has ended whose parent we may be
	adopts  bool           // what the command leaves behind is left to us, and nothing else is: see adopt
	killed  bool
	empty   bool           // the process group has ended: its number may become another's
	strays  map[int]string // what has left the group where nothing is adopted: when each was started, by number
}

// change is what wait(2) reports.
type change struct {
	exited bool           // or else stopped
	code   exitCode       // of its exit
	signal syscall.Signal // that stopped or ended it, or 0
}

func start(cmd *exec.Cmd) (*process, error) {
	p := &process{
		parent: os.Getppid(), changes: make(chan change), orphans: make(chan os.Signal, 1), strays: make(map[int]string),
	}
	p.adopts = adopt()
	signal.Notify(p.orphans, unix.SIGCHLD)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	endWithUs(cmd.SysProcAttr)
	underItsOwnNumber(cmd)
	// Opening /dev/tty fails where there is no controlling terminal, as under cron.
	if tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0); err == nil {
		p.tty = tty
		// A terminal sends its Ctrl-C to one process group, the foreground's. That becomes the command's if it
		// is ours now: the command gets each key once, and may read from the terminal. But where others are in our
		// group, such as less behind a pipe, who reads next would have all of us stopped.
		if p.foreground() == unix.Getpgrp() {
			p.shares = p.adopts && !alone()
			cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Foreground = !p.shares, !p.shares
			cmd.SysProcAttr.Ctty = int(tty.Fd())
		}
	}
	signal.Notify(p.orphans, unix.SIGTTOU) // see below: the next command would inherit that we ignore it
	err := cmd.Start()
	if errors.Is(err, unix.ENOEXEC) { // a script without "#!"
		cmd = &exec.Cmd{
			Path: sureShell, Args: append([]string{sureShell, cmd.Path}, cmd.Args[1:]...), Env: cmd.Env,
			Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: cmd.Stderr, SysProcAttr: cmd.SysProcAttr,
		}
		err = cmd.Start()
	}
	if err != nil {
		p.close()
		return nil, err
	}
	p.handle, p.pid = cmd.Process, cmd.Process.Pid
	// We must be able to take the terminal back from behind. After Start: the command does not inherit it.
	signal.Ignore(unix.SIGTTOU)
	go p.wait()
	return p, nil
}

// underItsOwnNumber has the command find its own number where systemd has written ours: sd_listen_fds and
// sd_watchdog_enabled do nothing for who has another. The number is known once there is a process: sh then becomes the
// command.
func underItsOwnNumber(cmd *exec.Cmd) {
	set := slices.DeleteFunc([]string{"LISTEN_PID", "WATCHDOG_PID"}, func(key string) bool {
		return os.Getenv(key) != strconv.Itoa(os.Getpid())
	})
	if _, err := os.Stat(sureShell); len(set) == 0 || err != nil {
		return
	}
	script := strings.Join(append(set, `exec "$@"`), "=$$ ")
	cmd.Path, cmd.Args = sureShell, append([]string{sureShell, "-c", script, sureShell, cmd.Path}, cmd.Args[1:]...)
}

// wait reports the command's changes and ends with its exit. It takes the place of exec.Cmd.Wait, which does
// not tell of stops; there is nothing else to wait for, as all files are passed on as they are.
func (p *process) wait() {
	for {
		var status unix.WaitStatus
		switch _, err := unix.Wait4(p.pid, &status, unix.WUNTRACED, nil); {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			p.changes <- change{exited: true, code: exitInternal}
			return
		case status.Stopped():
			p.changes <- change{signal: status.StopSignal()}
		case status.Signaled():
			p.changes <- change{exited: true, signal: status.Signal(), code: exitSignal + exitCode(status.Signal())}
			return
		case status.Exited():
			p.changes <- change{exited: true, code: exitCode(status.ExitStatus())}
			return
		}
	}
}

func (p *process) news() (<-chan change, <-chan os.Signal) { return p.changes, p.orphans }

// close gives the terminal back to our own process group. What the command has left to us, the system's first process
// gets when we end.
func (p *process) close() {
	signal.Stop(p.orphans)
	if p.tty == nil {
		return
	}
	if p.inForeground() {
		p.setForeground(unix.Getpgrp())
	}
	p.tty.Close()
}

// send signals the process group, or the command that has none. The error says that none of it may be signalled; one
// that has gone needs no signal.
func (p *process) send(sig syscall.Signal) error {
	var err error
	switch {
	case p.shares:
		err = p.handle.Signal(sig)
	case !p.empty:
		err = unix.Kill(-p.pid, sig)
	}
	if errors.Is(err, unix.EPERM) {
		return err
	}
	return nil
}

// maySignalAll says whether a supervisor may send a signal to the command as well as to us. Who sends one to the first
// process of a container stands outside, and sends it to that one only.
func maySignalAll(sig syscall.Signal) bool { return slices.Contains(passedOn, sig) && os.Getpid() != 1 }

func signalName(sig syscall.Signal) string { return strings.TrimPrefix(unix.SignalName(sig), "SIG") }

// hasHeard says whether a signal is a key that the command has had. It may have ended the script that started us: then
// the terminal is another's by now.
func (p *process) hasHeard(sig syscall.Signal) bool {
	return p.shares && (sig == unix.SIGINT || sig == unix.SIGQUIT) &&
		(p.foreground() == unix.Getpgrp() || os.Getppid() != p.parent)
}

// forward passes a signal on to the command. A stopped command goes on only while its lock is trusted.
func (p *process) forward(sig syscall.Signal, trusted func() bool) error {
	switch sig {
	case unix.SIGPIPE:
	case unix.SIGCONT:
		if trusted() {
			p.resume()
		}
	default:
		return p.send(sig)
	}
	return nil
}

// terminate asks all to end. Who is stopped must run to hear of it.
func (p *process) terminate() { p.all(unix.SIGTERM, unix.SIGCONT) }

// kill ends all that can be found now. What is forked meanwhile is left to the next call.
func (p *process) kill() {
	p.killed = true
	p.all(unix.SIGKILL)
}

// all signals all that can be found; left says who may not be signalled.
func (p *process) all(sigs ...syscall.Signal) {
	told := make(map[int]bool)
	tell := func(m member) {
		for _, sig := range sigs {
			if m.signal(sig) == nil && sig == unix.SIGKILL {
				delete(p.strays, m.pid)
			}
		}
	}
	p.noteStrays()
	p.outside(told, tell) // before: when the command ends, and others get its orphans, they are not found any more
	for _, sig := range sigs {
		p.send(sig)
	}
	p.outside(told, tell)
}

// outside calls do for each process, not yet in seen, that the command has started and that has left its process group.
// It looks until it has found nobody new twice: who is missed by one look, because it was just born or became ours when
// its parent ended, is there for the next. Who forks without end does not keep us for ever.
func (p *process) outside(seen map[int]bool, do func(member)) {
	for calm, looks := 0, 0; calm < 2 && looks < 100; calm, looks = calm+1, looks+1 {
		p.visit(func(m member) {
			group, err := unix.Getpgid(m.pid)
			if err == nil && (p.shares || group != p.pid) && !seen[m.pid] {
				seen[m.pid], calm = true, -1
				do(m)
			}
		})
	}
}

// gone says whether nothing is left that can be waited for. Where others get the command's orphans, they may take
// their time to wait for those that we have killed: a process group exists until then.
func (p *process) gone() bool {
	p.empty = p.empty || p.shares || errors.Is(unix.Kill(-p.pid, 0), unix.ESRCH)
	if !p.adopts {
		return p.empty || p.killed
	}
	p.reap()
	return p.empty && !p.orphaned()
}

// stopped follows a command that the terminal has stopped: the shell that started us waits for us to stop, too.
// While we are stopped nothing is renewed; trusted tells afterwards whether the command may go on.
func (p *process) stopped(by syscall.Signal, trusted func() bool) {
	switch {
	case p.tty == nil || p.shares || by == unix.SIGSTOP: // somebody else's doing, and theirs to undo
	case by != unix.SIGTSTP && p.foreground() == unix.Getpgrp():
		p.setForeground(p.pid) // it wanted the terminal, which a shell's "fg" has given to us
		p.all(unix.SIGCONT)
	default:
		p.suspend(trusted)
	}
}

// pause asks the command to stop, as a key would; where it shares our group, a key has, or it is made to.
func (p *process) pause() {
	if !p.shares {
		p.send(unix.SIGTSTP)
	}
}

// suspend stops all that can be found, and then us: never is the command without who renews its lock.
func (p *process) suspend(trusted func() bool) {
	if p.inForeground() {
		p.setForeground(unix.Getpgrp())
	}
	p.all(unix.SIGSTOP)
	who := os.Getpid()
	if p.tty != nil && !p.shares {
		who = 0 // a shell waits for the whole group to stop
	}
	terminal.Suspend(who, true)
	if trusted() { // else the loss is noticed next, and ends the command
		p.resume()
	}
}

// resume lets a stopped command go on, with the terminal if that is ours to give.
func (p *process) resume() {
	if p.tty != nil && !p.shares && p.foreground() == unix.Getpgrp() && alone() {
		p.setForeground(p.pid)
	}
	p.all(unix.SIGCONT)
}

func (p *process) foreground() int {
	pgid, err := unix.IoctlGetInt(int(p.tty.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return -1
	}
	return pgid
}

func (p *process) inForeground() bool { return p.tty != nil && p.foreground() == p.pid }

func (p *process) setForeground(pgid int) {
	unix.IoctlSetPointerInt(int(p.tty.Fd()), unix.TIOCSPGRP, pgid) // the terminal may have gone
}

// interrupted says whether the command fell to the terminal's Ctrl-C.
func (p *process) interrupted(c change) bool {
	return c.signal == unix.SIGINT && (p.inForeground() || p.shares && p.foreground() == unix.Getpgrp())
}

// ownsTerminal says whether our process group is the one that the terminal's keys reach.
func ownsTerminal() bool {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer tty.Close()
	p := process{tty: tty}
	return p.foreground() == unix.Getpgrp()
}

// dieOfInterrupt ends redlock as Ctrl-C would have, so that a shell's loop or script around it ends, too: an
// exit code alone says that the key was dealt with. Where the key went to the command alone, our process group
// has yet to hear of it.
func dieOfInterrupt(group bool) {
	pid := os.Getpid()
	if group {
		pid = 0
	}
	signal.Reset(unix.SIGINT)
	unix.Kill(pid, unix.SIGINT) // the exit code says it, too
	<-time.After(100 * time.Millisecond)
}
