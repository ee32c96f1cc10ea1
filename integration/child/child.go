// Package child runs clients as processes of their own, which a test can stop and kill.
package child

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a client. It works until its standard input ends, so it does not outlive whoever started it, and tells
// what it does in lines on its standard output.
type Process struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	heard chan struct{} // closed when all that it said has been heard
}

// Start starts the program at the path, or this very program once more if there is none, with variables in its
// environment beside our own: they tell it that it is a client. hear is called with each line that it prints.
func Start(ctx context.Context, path string, env, args []string, hear func(line []byte)) (*Process, error) {
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		path = self
	}
	p := &Process{cmd: exec.CommandContext(ctx, path, args...), heard: make(chan struct{})} //nolint:gosec // our own
	// A child built with the race detector would wait for a second at its end.
	p.cmd.Env = append(append(os.Environ(), "GORACE=atexit_sleep_ms=10"), env...)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() { // until the process ends; Wait waits for it
		defer close(p.heard)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			hear(lines.Bytes()) // of one that is killed, the last may be cut off
		}
	}()
	return p, nil
}

// Tell writes a line to its standard input.
func (p *Process) Tell(line []byte) error {
	_, err := p.input.Write(append(line, '\n'))
	return err
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Wait waits for the end of a process that was told to end. After it, nothing is heard any more.
func (p *Process) Wait() (err error) {
	select {
	case <-p.heard:
	case <-time.After(time.Minute):
		err = errors.Join(errors.New("a client does not end"), p.cmd.Process.Kill())
		<-p.heard
	}
	return errors.Join(err, p.cmd.Wait())
}

// End lets the process finish what it does.
func (p *Process) End() error {
	_ = p.input.Close() // it may be dead, which Wait says
	return p.Wait()
}

// Kill is kill -9.
func (p *Process) Kill() error {
	err := p.Signal(syscall.SIGKILL)
	_ = p.Wait() // killed
	return err
}

// UntilInputEnds returns a context for the client itself: it is done when its standard input ends.
func UntilInputEnds() context.Context {
	ctx, stop := context.WithCancel(context.Background())
	go func() { // until then
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return ctx
}
