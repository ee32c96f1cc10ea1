package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"

	"github.com/quorumlock/redlock/internal/faultproxy"
)

// process is one client and the network between it and the masters. The network stays when the process is replaced.
type process struct {
	name    string
	network []*faultproxy.Proxy // by node
	take    func(line)
	forces  bool

	mu      sync.Mutex // guards the following fields
	args    []string   // the nodes' URLs: see client.run
	lives   int
	command *exec.Cmd
	input   io.Closer
	reading chan struct{} // closed when all output has been read
}

// start starts the process, which is this program under another name.
func (p *process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	p.lives++
	p.command = exec.CommandContext(ctx, self, p.args...) //nolint:gosec // this very program
	p.command.Env = append(os.Environ(), fmt.Sprintf("%s=%s#%d", clientVariable, p.name, p.lives))
	if p.forces {
		p.command.Env = append(p.command.Env, forceVariable+"=1")
	}
	p.command.Stderr = os.Stderr
	if p.input, err = p.command.StdinPipe(); err != nil {
		return err
	}
	out, err := p.command.StdoutPipe()
	if err != nil {
		return err
	}
	p.reading = make(chan struct{})
	if err := p.command.Start(); err != nil {
		return err
	}
	go func(done chan struct{}) { // until the process ends; end waits for it
		defer close(done)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var l line
			if json.Unmarshal(lines.Bytes(), &l) == nil { // a killed process may leave half a line
				p.take(l)
			}
		}
	}(p.reading)
	return nil
}

// signal sends a signal to the process that runs at present.
func (p *process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.command.Process.Signal(s)
}

// replace starts another process where one was killed. It knows nothing.
func (p *process) replace(ctx context.Context) error {
	p.mu.Lock()
	<-p.reading
	_ = p.command.Wait() // it was killed
	p.mu.Unlock()
	return p.start(ctx)
}

// move starts the process anew with other nodes.
func (p *process) move(ctx context.Context, args []string) error {
	if err := p.end(); err != nil {
		return err
	}
	p.mu.Lock()
	p.args = args
	p.mu.Unlock()
	return p.start(ctx)
}

// end lets the process come to its end.
func (p *process) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.input.Close()
	<-p.reading
	return errors.Join(err, p.command.Wait())
}
