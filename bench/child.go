package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// A child is another process of this binary. It ends when its input does, and so when this process ends, however it
// does.
type child struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startChild starts one. The variable says what it is to do, see asChild.
func startChild(variable, value string) (*child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &child{cmd: exec.Command(self)}
	c.cmd.Env = append(os.Environ(), variable+"="+value)
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReader(out)
	return c, c.cmd.Start()
}

// asChild does what a child has been started for. It returns false in a process that is none.
func asChild() (bool, error) {
	for variable, run := range map[string]func(string) error{proxyEnv: proxyMain, crowdEnv: crowdMain} {
		if spec, ok := os.LookupEnv(variable); ok {
			return true, run(spec)
		}
	}
	return false, nil
}

// line returns the next line that the child prints.
func (c *child) line() (string, error) {
	line, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("a process of the bench said no more: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// says waits for a certain line.
func (c *child) says(want string) error {
	line, err := c.line()
	if err == nil && line != want {
		err = fmt.Errorf("a process of the bench said %q, not %q", line, want)
	}
	return err
}

// end lets the child end by itself.
func (c *child) end() error {
	_ = c.in.Close()
	return c.cmd.Wait()
}

// kill ends the child, if it has not ended.
func (c *child) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}
