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

// A proxy holds what the server answers for a while: a node further away. It runs
// as a process of its own (this binary again), so that its CPU time is nobody's.
type proxy struct {
	addr string
	cmd  *exec.Cmd
}

const proxyEnv = "REDLOCK_BENCH_PROXY" // "delay target"

func startProxy(target string, delay time.Duration) (*proxy, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &proxy{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), proxyEnv+"="+delay.String()+" "+target)
	if _, err := p.cmd.StdinPipe(); err != nil { // closed when this process ends, however it does
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
	p.addr = strings.TrimSpace(line)
	return p, err
}

func (p *proxy) stop() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// proxyMain is the child's main function. It returns when its parent has ended.
func proxyMain(spec string) error {
	delay, target, _ := strings.Cut(spec, " ")
	d, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}
	p, err := faultproxy.New(target)
	if err != nil {
		return err
	}
	p.Delay(faultproxy.Down, d)
	fmt.Println(p.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
