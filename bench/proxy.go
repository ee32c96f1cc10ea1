package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A delay proxy holds what the server answers for a while: a node further away. It runs
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
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
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

// proxyMain is the child's main function; it returns only with an error.
func proxyMain(spec string) error {
	delay, target, _ := strings.Cut(spec, " ")
	d, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		down, err := l.Accept()
		if err != nil {
			return err
		}
		up, err := net.Dial("tcp", target)
		if err != nil {
			down.Close()
			continue
		}
		go func() { defer up.Close(); _, _ = io.Copy(up, down) }()
		go func() { defer down.Close(); delayed(down, up, d) }()
	}
}

// delayed copies from → to, each chunk d after it came, without holding up later ones.
func delayed(to io.Writer, from io.Reader, d time.Duration) {
	type chunk struct {
		due  time.Time
		data []byte
	}
	chunks := make(chan chunk, 4096)
	go func() {
		defer close(chunks)
		for {
			buf := make([]byte, 16<<10)
			n, err := from.Read(buf)
			if n > 0 {
				chunks <- chunk{time.Now().Add(d), buf[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		if _, err := to.Write(c.data); err != nil {
			break
		}
	}
	for range chunks { // let the reader end
	}
}
