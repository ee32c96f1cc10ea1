//go:build unix

// Package process runs a child process that can be killed, frozen and started again, and that ends when this one does.
//
// It must not know what the child serves.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// Process is a child process, or none: before Start, and after Kill and Stop. Several goroutines may use it.
type Process struct {
	mu    sync.Mutex // protects the following fields
	log   string
	child *os.Process
	gone  chan struct{} // closed by the goroutine that started the child, after Wait
}

// Start starts the command. What it prints goes to a new file with the name log.
func (p *Process) Start(cmd *exec.Cmd, log string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != nil {
		return errors.New("the process is running already")
	}
	output, err := os.Create(log)
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }() // the child has its own
	gone, started := make(chan struct{}), make(chan error)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = diesWithParent()
	go func() {
		// The kernel takes the thread that forked for the parent, not the process. So this thread must live as long as the
		// child: the runtime may end an idle thread, and the kernel would kill the child.
		runtime.LockOSThread()
		defer close(gone)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its error says no more than that the child was killed
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.log, p.child, p.gone = log, cmd.Process, gone
	return nil
}

// PID returns the process ID; 0: it does not run.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return 0
	}
	return p.child.Pid
}

// Log returns what the process has printed since its last start.
func (p *Process) Log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, _ := os.ReadFile(p.log) // none before the first start, and when it has been deleted
	return string(text)
}

// Exited reports whether a process that was started has ended, by itself or by a signal.
func (p *Process) Exited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

// Kill ends the process as a power failure does: writes that are not on disk are lost. It may be frozen, or have ended.
func (p *Process) Kill(ctx context.Context) error { return p.end(ctx, syscall.SIGKILL) }

// Stop ends the process as an operator does.
func (p *Process) Stop(ctx context.Context) error { return p.end(ctx, syscall.SIGTERM) }

func (p *Process) end(ctx context.Context, sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return nil
	}
	if err := p.child.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-p.gone:
		p.child = nil
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the process still runs after %v: %w", sig, ctx.Err())
	}
}

// Pause freezes the process: the kernel still accepts connections and bytes for it, but no reply comes.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume ends a Pause. The process goes on with what it was sent meanwhile.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return os.ErrProcessDone
	}
	return p.child.Signal(sig)
}
