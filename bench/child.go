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
	"path/filepath"
	"time"

	"github.com/quorumlock/redlock/internal/faultproxy"
	"github.com/quorumlock/redlock/internal/process"
)

// A child is this binary again, in a role: so that its CPU time is nobody's, or that it can be frozen. It ends when its
// input does, and so with this process, however that ends.
type child struct {
	process.Process
	dir   string
	in    io.Closer
	out   *os.File
	lines *bufio.Scanner // that it tells its parent
}

const (
	roleEnv = "REDLOCK_BENCH_ROLE"
	toldEnv = "REDLOCK_BENCH_TOLD" // JSON
)

func startChild(role string, told any) (_ *child, err error) {
	self, err := os.Executable()
	text, bad := json.Marshal(told)
	if err = errors.Join(err, bad); err != nil {
		return nil, err
	}
	out, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	c := &child{out: out, lines: bufio.NewScanner(out)}
	defer func() {
		if err != nil {
			c.kill()
		}
	}()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), roleEnv+"="+role, toldEnv+"="+string(text))
	cmd.ExtraFiles = []*os.File{said} // its descriptor 3
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "redlock-bench-"); err != nil {
		return nil, err
	}
	return c, c.Start(cmd, filepath.Join(c.dir, "log"))
}

func (c *child) kill() {
	if c.in != nil {
		_ = c.in.Close()
	}
	_ = c.Kill(context.Background())
	_ = c.out.Close()
	_ = os.RemoveAll(c.dir)
}

// asChild is the main function of such a process. In another it does nothing.
func asChild() bool {
	roles := map[string]func(told []byte, parent io.Writer) error{"proxy": proxyRole, "editor": editorRole}
	role := roles[os.Getenv(roleEnv)]
	if role != nil {
		fatal(role([]byte(os.Getenv(toldEnv)), os.NewFile(3, "parent")))
	}
	return role != nil
}

// A distance is what a proxy is told. It holds what the target answers for a while: a node further away.
type distance struct {
	Target string
	Delay  time.Duration
}

func startProxy(d distance) (p *child, addr string, err error) {
	if p, err = startChild("proxy", d); err != nil {
		return nil, "", err
	}
	if !p.lines.Scan() {
		err = fmt.Errorf("a proxy did not start: %s", p.Log())
		p.kill()
		return nil, "", err
	}
	return p, p.lines.Text(), nil
}

func proxyRole(told []byte, parent io.Writer) error {
	var d distance
	if err := json.Unmarshal(told, &d); err != nil {
		return err
	}
	p, err := faultproxy.New(d.Target)
	if err != nil {
		return err
	}
	p.Delay(faultproxy.Down, d.Delay)
	fmt.Fprintln(parent, p.Addr())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
