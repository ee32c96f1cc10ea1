package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/quorumlock/redlock"
)

// ending is how a command ended.
type ending struct {
	code        exitCode
	interrupted bool  // by the terminal's Ctrl-C, which our own process group has not seen
	lost        error // why the lock was lost while the command ran, or nil
}

// run starts the command and stays with it while the lock is held. It returns when the command has ended and, if the lock was lost,
// nothing is left of its process group. The error says that the command could not be started.
func (j *job) run(lock *redlock.Lock) (ending, error) {
	p, err := start(&exec.Cmd{
		Path: j.path, Args: j.argv, Env: environment(lock),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	})
	if err != nil {
		return ending{}, notRunnable(j.argv[0], err)
	}
	defer p.close()
	j.ran, j.token = true, lock.Token()

	var (
		end   ending
		ended bool
		lost  = lock.Done()
		kill  <-chan time.Time // set while a lost lock's command may still end by itself
		look  <-chan time.Time // set while we wait for what a lost lock's command left behind
	)
	trusted := func() bool { return lock.Err() == nil }
	for {
		select {
		case <-lost:
			lost, end.lost = nil, lock.Err()
			j.warn("lock %q is lost: ending the command", j.name)
			p.terminate()
			kill = time.After(j.killAfter)
		case <-kill:
			kill = nil
			j.warn("not ended within %s: killing it", j.killAfter)
			p.kill()
			if ended {
				return end, nil
			}
		case sig := <-j.signals:
			p.forward(sig.(syscall.Signal), trusted)
		case <-look:
		case change := <-p.changes:
			if change.exited {
				ended = true
				end.code, end.interrupted = change.code, p.interrupted(change)
			} else {
				p.stopped(change.signal, trusted)
			}
		}
		if ended {
			switch {
			case end.lost == nil, p.gone():
				return end, nil
			case look == nil:
				ticker := time.NewTicker(10 * time.Millisecond)
				defer ticker.Stop()
				look = ticker.C
			}
		}
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
		return &failure{code: exitNotFound, text: fmt.Sprintf("%s: command not found", file)}
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner // the errno alone: the name stands in front already
	}
	return &failure{code: exitNotRunnable, text: fmt.Sprintf("%s: %v", file, err)}
}
