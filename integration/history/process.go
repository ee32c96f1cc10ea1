package main

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"syscall"

	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/internal/faultproxy"
)

// process is one client and the network between it and the masters. The network stays when the process is replaced.
type process struct {
	network []*faultproxy.Proxy // by node
	take    func(line)

	mu    sync.Mutex // guards the following fields
	told  settings   // but for the name, to which a number is added in each life
	lives int
	life  *child.Process // the present one
}

// start starts the process, which is this program under another main.
func (p *process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lives++
	told := p.told
	told.Name = fmt.Sprintf("%s#%d", told.Name, p.lives)
	text, err := json.Marshal(told)
	if err != nil {
		return err
	}
	p.life, err = child.Start(ctx, "", []string{clientVariable + "=" + string(text)}, nil, func(text []byte) {
		var l line
		if json.Unmarshal(text, &l) == nil { // a killed process may leave half a line
			p.take(l)
		}
	})
	return err
}

// signal sends a signal to the process that runs at present.
func (p *process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life.Signal(s)
}

// replace starts another process where one was killed. It knows nothing.
func (p *process) replace(ctx context.Context) error {
	p.mu.Lock()
	_ = p.life.Wait() // it was killed
	p.mu.Unlock()
	return p.start(ctx)
}

// move starts the process anew with other nodes.
func (p *process) move(ctx context.Context, nodes, to []string) error {
	if err := p.end(); err != nil {
		return err
	}
	p.mu.Lock()
	p.told.Nodes, p.told.To = nodes, to
	p.mu.Unlock()
	return p.start(ctx)
}

func (p *process) end() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life.End()
}
