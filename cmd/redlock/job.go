package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/quorumlock/redlock"
)

// job is a command that runs while a lock is held.
type job struct {
	name      string // of the lock
	path      string
	argv      []string
	signals   chan os.Signal
	killAfter time.Duration
	warn      func(format string, args ...any)
}

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
