//go:build unix

package main

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestStatus(t *testing.T) {
	c := redlocktest.New(t, 5)
	holder := holding(t, c, "run", "name")
	cases.Eventually(t, "the key on every node", func() bool { return len(owners(t, c, "name")) == 5 })
	owner := owners(t, c, "name")[0]
	c.Kill(1)
	s := begin(t, c, "status", "name")
	host, _ := os.Hostname()
	label := fmt.Sprintf("%s/%d", host, holder.cmd.Process.Pid)
	s.expect(fmt.Sprintf("name: held by %s (%s)", label, owner))
	shown := s.next() + "\n" + s.next() + "\n" + s.next()
	if !regexp.MustCompile(`^token: 17\d+\nage: \d+s\nleft: [\d.]+s, unless renewed$`).MatchString(shown) {
		t.Errorf("got %q", shown)
	}
	s.expect("")
	s.next() // the head of the table
	for i := range 5 {
		line := s.next()
		dead := i == 1
		if dead != strings.Contains(line, "no: not connected") || dead == strings.Contains(line, label) ||
			!strings.HasPrefix(line, c.Addr(i)) {
			t.Errorf("node %d: %q", i, line)
		}
	}
	s.end(0, "", "")

	var said struct {
		Known, Held bool
		Owner       string
		Label       string
		Remaining   float64 `json:"remaining_seconds"`
		Nodes       []struct {
			Addr   string
			Label  string
			Counts bool
		}
	}
	code := begin(t, c, "status", "name", "--json").object(&said)
	if code != 0 || !said.Known || !said.Held || said.Owner != owner || said.Label != label ||
		said.Nodes[0].Label != label || said.Remaining <= 0 || said.Remaining > 10 ||
		len(said.Nodes) != 5 || said.Nodes[1].Counts {
		t.Errorf("got %d, %+v", code, said)
	}

	c.Kill(2, 3)
	s = begin(t, c, "status", "name")
	s.expect("name: not known")
	const want = "redlock: inspect name: no quorum: 2 of 5 voted, "
	if got := s.code(); got != exitNoQuorum || !strings.HasPrefix(s.stderr.String(), want) ||
		strings.Count(s.stderr.String(), "\n") > 1 { // the table has the nodes
		t.Errorf("three dead: got %d, %q, want %q", got, s.stderr.String(), want)
	}
}

// What is said above the table: of readers, each; of runs, what has become of them; of a name, nothing that could
// garble the terminal.
func TestStatusInWords(t *testing.T) {
	held := redlock.Inspection{Name: "name", Owner: "o", Label: "web-3/812", Remaining: 9500 * time.Millisecond}
	readers := redlock.Inspection{
		Name: "name", Owner: "readers", Remaining: -1, Readers: []string{"a", "b"}, ReaderLabels: []string{"web-1/7", ""},
	}
	runs := func(i redlock.Inspection, begun int, last string) redlock.Inspection {
		i.Runs = redlock.Runs{Begun: begun, Last: last, Remaining: time.Hour}
		return i
	}
	const heldBy, free = "name: held by web-3/812 (o)\nleft: 9.5s, unless renewed\n", "name: nobody holds it\n"
	nobody := redlock.Inspection{Name: "name"}
	for _, c := range []struct {
		of   redlock.Inspection
		want string
	}{
		{nobody, free},
		{redlock.Inspection{Name: "n\x1b[2J"}, `n\x1b[2J: nobody holds it` + "\n"},
		{held, heldBy},
		{
			redlock.Inspection{
				Name: "name", Owner: "o", Token: 17, Age: 192500 * time.Millisecond, Value: "a\x1b[2J", Remaining: time.Second,
			},
			"name: held by o\ntoken: 17\nage: 3m12s\nleft: 1.0s, unless renewed\nvalue: a\\x1b[2J\n",
		},
		{readers, "name: held by readers\nleft: for ever, since the key has no TTL: no lock has set it; delete it, or run " +
			"redlock unlock --force\nreader: web-1/7 (a)\nreader: b\n"},
		{
			runs(nobody, 3, "done"),
			free + "runs: 3 begun, the last one succeeded; nobody begins another for 1h0m0s\n",
		},
		{runs(nobody, 2, "failed"), free + "runs: 2 begun, the last one failed; remembered for 1h0m0s\n"},
		{runs(nobody, 1, "begun"), free + "runs: 1 begun, the last one crashed; remembered for 1h0m0s\n"},
		{
			runs(held, 1, "begun"),
			heldBy + "runs: 1 begun, the last one is under way, or has crashed and its lock remains\n",
		},
	} {
		var out bytes.Buffer
		cases.NoError(t, printStatus(terminal.NewPrinter(&out), c.of, nil))
		if got, _, _ := strings.Cut(out.String(), "\nNODE"); got != c.want {
			t.Errorf("got\n%swant\n%s", got, c.want)
		}
	}
}
