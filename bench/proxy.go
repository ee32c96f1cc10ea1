package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/quorumlock/redlock/internal/faultproxy"
)

// A proxy holds what the server answers for a while: a node further away. It runs
// as a process of its own (this binary again), so that its CPU time is nobody's.
type proxy struct {
	addr string
	*child
}

const proxyEnv = "REDLOCK_BENCH_PROXY" // "delay target"

func startProxy(target string, delay time.Duration) (p *proxy, err error) {
	p = &proxy{}
	if p.child, err = startChild(proxyEnv, delay.String()+" "+target); err != nil {
		return nil, err
	}
	if p.addr, err = p.line(); err != nil {
		p.kill()
	}
	return p, err
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
