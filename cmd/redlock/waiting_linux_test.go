package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// A person learns within seconds what is waited for.
func TestWaitingOnATerminal(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	holder := holding(t, c, "run", "name")
	host, _ := os.Hostname()
	said := fmt.Sprintf("redlock: waiting for 2s: lock name: taken by %s/%d, ", host, holder.cmd.Process.Pid)
	for _, verb := range []string{"run", "once"} {
		cases.Eventually(t, said, func() bool { // where nodes are late it is said of them, and then no more for a minute
			s := openTerminal(t, nodesOf(c), binary, verb, "name", "echo", "held")
			s.await("redlock: waiting for 2s: ")
			s.press(ctrlC)
			s.code()
			return strings.Contains(s.text(), said) && strings.Contains(s.text(), " of 5); the next in the queue\r\n")
		})
	}
	cases.Eventually(t, "75, and no word before", func() bool {
		s := openTerminal(t, nodesOf(c), binary, "run", "--quiet", "--wait=3s", "name", "echo", "held")
		return s.code() == exitTaken && strings.HasPrefix(s.text(), "redlock: lock")
	})
}

// All nodes are down: nothing is taken for something that ends by itself soon.
func TestWaitingForAMajorityOnATerminal(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 3)
	c.Kill(0, 1, 2)
	for _, args := range [][]string{{"run", "name", "echo", "held"}, {"once", "name", "echo", "held"}, {"wait"}} {
		s := openTerminal(t, nodesOf(c), binary, args...)
		s.await("redlock: waiting for 2s: ")
		s.await("no quorum: 0 of 3 voted, ")
		s.await("\r\n  " + c.Addr(0) + " failed: not connected")
		s.await("\r\n  " + c.Addr(2) + " failed: not connected")
		s.press(ctrlC)
		s.code()
	}
}
