//go:build !unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Without process groups and signals there is little to pass on: the console sends Ctrl-C to the command itself,
// and a command whose lock is lost is killed.

func catch(ch chan<- os.Signal)       { signal.Notify(ch, os.Interrupt) }
func endsWaiting(syscall.Signal) bool { return true }

type process struct {
	cmd     *exec.Cmd
	changes chan change
}

type change struct {
	exited bool
	code   exitCode
	signal syscall.Signal
}

func start(cmd *exec.Cmd) (*process, error) {
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, changes: make(chan change)}
	go func() {
		cmd.Wait() // the state says it
		p.changes <- change{exited: true, code: exitCode(cmd.ProcessState.ExitCode())}
	}()
	return p, nil
}

func (p *process) news() (<-chan change, <-chan os.Signal) { return p.changes, nil }

func (p *process) close()                                    {}
func (p *process) reap()                                     {}
func (p *process) forward(syscall.Signal, func() bool) error { return nil }
func (p *process) left() []remnant                           { return nil }
func maySignalAll(syscall.Signal) bool                       { return false }
func signalName(sig syscall.Signal) string                   { return sig.String() }
func (p *process) terminate()                                {}                       // KILL comes before the hold ends
func (p *process) kill()                                     { p.cmd.Process.Kill() } // it may have ended
func (p *process) gone() bool                                { return true }
func (p *process) stopped(syscall.Signal, func() bool)       {}
func (p *process) hasHeard(syscall.Signal) bool              { return false }
func (p *process) pause()                                    {}
func (p *process) suspend(func() bool)                       {}
func stopsUs(syscall.Signal) bool                            { return false }
func (p *process) interrupted(change) bool                   { return false }
func ownsTerminal() bool                                     { return false }
func dieOfInterrupt(bool)                                    {}
