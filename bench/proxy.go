package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/faultproxy"
)

// A proxy holds what the server answers for a while: a node further away. It runs as a process of its own (this binary
// again), so that its CPU time is nobody's. It ends when its input does, and so with this process, however that ends.
type proxy struct {
	addr string
	cmd  *exec.Cmd
	in   io.WriteCloser
}

const proxyEnv = "REDLOCK_BENCH_PROXY" // "delay target"

func startProxy(target string, delay time.Duration) (*proxy, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &proxy{cmd: exec.Command(self)}
	p.cmd.Env, p.cmd.Stderr = append(os.Environ(), proxyEnv+"="+delay.String()+" "+target), os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		p.kill()
		return nil, fmt.Errorf("a proxy did not start: %w", err)
	}
	p.addr = strings.TrimSpace(line)
	return p, nil
}

func (p *proxy) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// asProxy is the main function of such a process, which returns when its parent has ended. In another it does nothing.
func asProxy() (is bool, err error) {
	spec, is := os.LookupEnv(proxyEnv)
	if !is {
		return false, nil
	}
	delay, target, _ := strings.Cut(spec, " ")
	d, err := time.ParseDuration(delay)
	if err != nil {
		return true, err
	}
	p, err := faultproxy.New(target)
	if err != nil {
		return true, err
	}
	p.Delay(faultproxy.Down, d)
	fmt.Println(p.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return true, err
}
