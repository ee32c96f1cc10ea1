package main

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

func TestOnceCtrlC(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := openTerminal(t, nodesOf(c), "sh", "-c", `"$0" once report -- sh -c 'echo ready; read x'; echo co""de=$?`, binary)
	s.await("ready")
	s.press(ctrlC)
	s.code()
	if strings.Contains(s.text(), "code=") {
		t.Errorf("the script around redlock went on: %q", s.text())
	}
	free(t, c, "report")
	if got := status(t, c, "report"); !strings.HasPrefix(got, "runs: 1 begun, the last one failed") {
		t.Errorf("the run that was interrupted: %s", got)
	}

	// While a run is under way elsewhere, Ctrl-C ends the waiting, and no run is counted.
	holder := begin(t, c, append([]string{"once", "report"}, ready...)...)
	holder.expect("ready")
	count := clients(t, c, 0)
	eventually(t, "one client", func() bool { return count() == 1 })
	s = openTerminal(t, nodesOf(c), binary, "once", "report", "echo", "must not run")
	eventually(t, "a second client", func() bool { return count() == 2 })
	s.press(ctrlC)
	s.code()
	holder.stdin.Close()
	holder.code()
	if got := status(t, c, "report"); !strings.HasPrefix(got, "runs: 2 begun, the last one failed") {
		t.Errorf("afterwards: %s", got)
	}
}
