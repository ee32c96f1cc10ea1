package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/ports"
	"github.com/quorumlock/redlock/redlocktest"
)

// A person learns within seconds what is waited for.
func TestWaitingOnATerminal(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	holder := holding(t, c, "run", "name")
	host, _ := os.Hostname()
	for _, verb := range []string{"run", "once"} {
		s := openTerminal(t, nodesOf(c), binary, verb, "name", "echo", "held")
		s.await(fmt.Sprintf("redlock: waiting for 2s: lock name: taken by %s/%d, ", host, holder.cmd.Process.Pid))
		s.await(" of 5); the next in the queue\r\n")
		s.press(ctrlC)
		s.code()
	}
	s := openTerminal(t, nodesOf(c), binary, "run", "--quiet", "--wait=3s", "name", "echo", "held")
	if got := s.code(); got != exitTaken {
		t.Errorf("got %d, want 75", got)
	}
	if text := s.text(); len(text) < 10 || text[:len("redlock: lock")] != "redlock: lock" {
		t.Errorf("--quiet: got %q", text)
	}
}

// All nodes are down: nothing is taken for something that ends by itself soon.
func TestWaitingForAMajorityOnATerminal(t *testing.T) {
	t.Parallel()
	// Not masters that are killed: another test's may get their ports.
	var nodes []string
	for range 3 {
		port := cases.Must(ports.Reserve())(t)
		t.Cleanup(port.Release)
		nodes = append(nodes, port.Addr())
	}
	setting := []string{settingOf("nodes") + "=" + strings.Join(nodes, ",")}
	for _, args := range [][]string{{"run", "name", "echo", "held"}, {"once", "name", "echo", "held"}, {"wait"}} {
		s := openTerminal(t, setting, binary, args...)
		s.await("redlock: waiting for 2s: ")
		s.await("no quorum: 0 of 3 voted, ")
		s.await("\r\n  " + nodes[0] + " failed: not connected")
		s.await("\r\n  " + nodes[2] + " failed: not connected")
		s.press(ctrlC)
		s.code()
	}
}
