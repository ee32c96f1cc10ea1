package masters

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/quorumlock/redlock/internal/ports"
)

// processes runs masters as children of this process.
type processes struct {
	binary  string
	version string
}

// NewProcesses returns the provider that runs the host's own redis-server.
// REDLOCK_REDIS_SERVER names another binary, a Valkey server for example.
func NewProcesses() (Provider, error) {
	name := os.Getenv("REDLOCK_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	binary, err := exec.LookPath(name)
	if err != nil {
		return nil, fmt.Errorf("the provider %q needs redis-server: install it (Debian: apt-get install redis-server): %w", Processes, err)
	}
	out, err := exec.Command(binary, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", binary, err)
	}
	version := strings.TrimSpace(string(out))
	if before, _, found := strings.Cut(version, " sha="); found {
		version = before
	}
	return processes{binary: binary, version: version}, nil
}

func (processes) Name() string     { return Processes }
func (p processes) String() string { return Processes + " (" + p.version + ")" }

// Launch implements [Provider].
func (p processes) Launch(ctx context.Context, spec Spec) (*Node, error) {
	var failure error
	for range 3 { // somebody else may take the port first
		n, err := p.launch(ctx, spec)
		if err == nil {
			return n, nil
		}
		failure = err
		if !strings.Contains(err.Error(), "Address already in use") {
			break
		}
	}
	return nil, failure
}

func (p processes) launch(ctx context.Context, spec Spec) (*Node, error) {
	port, err := ports.Keep()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "redlock-master-")
	if err != nil {
		port.Release()
		return nil, err
	}
	proc := &process{binary: p.binary, port: port, dir: dir, files: spec.files()}
	proc.args = append(serverArgs(spec, "127.0.0.1", port.Number, dir), "--unixsocket", proc.socket(), "--unixsocketperm", "700")
	n := &Node{host: proc, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port.Number)), socket: proc.socket(), spec: spec}
	if err = proc.fill(); err == nil {
		err = n.up(ctx, false)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", n.addr, err), proc.remove(context.WithoutCancel(ctx)))
	}
	return n, nil
}

// process is one redis-server and its directory.
type process struct {
	binary string
	args   []string
	port   ports.Port
	dir    string
	files  map[string]string

	mu     sync.Mutex // protects the following fields
	child  *os.Process
	gone   chan struct{} // closed by the goroutine that started the child, after Wait
	output *buffer
}

func (p *process) socket() string { return filepath.Join(p.dir, "socket") }

func (p *process) fill() error {
	for name, content := range p.files {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// clear removes what the server has written.
func (p *process) clear() error {
	entries, err := os.ReadDir(p.dir)
	for _, e := range entries {
		if _, ours := p.files[e.Name()]; !ours {
			err = errors.Join(err, os.RemoveAll(filepath.Join(p.dir, e.Name())))
		}
	}
	return err
}

func (p *process) start(_ context.Context, empty bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child != nil {
		return errors.New("runs already")
	}
	if empty {
		if err := p.clear(); err != nil {
			return err
		}
	}
	output, gone, started := &buffer{}, make(chan struct{}), make(chan error)
	// Not exec.CommandContext: the server outlives the call that starts it.
	cmd := exec.Command(p.binary, p.args...)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.SysProcAttr = diesWithParent()
	go func() {
		// "Parent" is the thread that forked, not the process: the thread has
		// to live as long as the child, else the runtime may end both.
		runtime.LockOSThread()
		defer close(gone)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, most likely: no news
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	p.child, p.gone, p.output = cmd.Process, gone, output
	return nil
}

func (p *process) end(ctx context.Context, sig os.Signal) error {
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
		return fmt.Errorf("still there after %v: %w", sig, ctx.Err())
	}
}

func (p *process) signal(sig os.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.child == nil {
		return os.ErrProcessDone
	}
	return p.child.Signal(sig)
}

func (p *process) kill(ctx context.Context) error { return p.end(ctx, syscall.SIGKILL) }
func (p *process) stop(ctx context.Context) error { return p.end(ctx, syscall.SIGTERM) }
func (p *process) pause(context.Context) error    { return p.signal(syscall.SIGSTOP) }
func (p *process) resume(context.Context) error   { return p.signal(syscall.SIGCONT) }

func (p *process) remove(ctx context.Context) error {
	defer p.port.Release()
	return errors.Join(p.kill(ctx), os.RemoveAll(p.dir))
}

func (p *process) exited(context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

func (p *process) log(context.Context) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.output == nil {
		return ""
	}
	return p.output.String()
}

// buffer is a bytes.Buffer that may be read while a child writes to it.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
