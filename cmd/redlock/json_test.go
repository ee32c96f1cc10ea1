//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/redlocktest"
)

// said is what a session has said on standard error, an object on each line.
func (s *session) said() []map[string]any {
	s.t.Helper()
	var list []map[string]any
	for line := range strings.Lines(s.stderr.String()) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			s.t.Fatalf("%q: standard error has %q: %v", s.cmd.Args[1:], line, err)
		}
		list = append(list, object)
	}
	return list
}

// With --json, standard error ends with an object that tells redlock's exit codes from the command's.
func TestReport(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	holding(t, c, "run", "taken")
	for _, e := range []struct {
		args    []string
		code    exitCode
		outcome string
		ran     bool
	}{
		{[]string{"run", "--json", "name", "true"}, 0, "ended", true},
		{[]string{"run", "--json", "name", "sh", "-c", "exit 75"}, 75, "ended", true},
		{[]string{"run", "--json", "--no-wait", "taken", "true"}, 75, "taken", false},
		{[]string{"run", "--json", "--no-wait", "--taken-code", "0", "taken", "true"}, 0, "taken", false},
		{[]string{"once", "--json", "--wait=1s", "--taken-code", "9", "taken", "true"}, 9, "taken", false},
		{[]string{"run", "--json", "--taken-code", "0", "name", "sh", "-c", "exit 75"}, 75, "ended", true},
		{[]string{"run", "--json", "name", "no-such-command"}, 127, "not-found", false},
		{[]string{"run", "--json", "name", "/"}, 126, "not-runnable", false},
		{[]string{"run", "--json"}, 64, "usage", false},
		{[]string{"once", "--json", "job", "false"}, 1, "ended", true},
		{[]string{"once", "--json", "job", "true"}, 0, "ended", true},
		{[]string{"once", "--json", "job", "true"}, 0, "already-run", false},
		{[]string{"once", "--json", "--done-code", "9", "job", "true"}, 9, "already-run", false},
		{[]string{"once", "--json", "--max-runs", "1", "failing", "false"}, 1, "ended", true},
		{[]string{"once", "--json", "--max-runs", "1", "failing", "true"}, 80, "exhausted", false},
	} {
		s := begin(t, c, e.args...)
		code := s.code()
		said := s.said()
		if len(said) != 1 {
			t.Fatalf("%q: got %v, want one object", e.args, said)
		}
		r := said[0]
		if code != e.code || r["outcome"] != e.outcome || r["exit_code"] != float64(e.code) || r["ran"] != e.ran ||
			(r["token"] != nil) != e.ran {
			t.Errorf("%q: got %d and %v, want %d, %q, ran: %v", e.args, code, r, e.code, e.outcome, e.ran)
		}
		if quiet := e.ran || e.outcome == "already-run"; (r["error"] == nil) != quiet {
			t.Errorf("%q: got the error %v", e.args, r["error"])
		}
		if e.outcome == "taken" {
			nodes, _ := r["nodes"].([]any)
			if len(nodes) != 5 || strings.Contains(r["error"].(string), c.Addr(0)) {
				t.Errorf("%q: got %v, want the nodes apart", e.args, r)
			}
		}
	}
}

func TestReportOfLoss(t *testing.T) {
	t.Parallel()
	c := redlocktest.New(t, 5)
	s := begin(t, c, "run", "--json", "--ttl=2s", "name", "--",
		"sh", "-c", "exec 2>/dev/null; trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done")
	s.expect("ready")
	c.Kill(0, 2, 4)
	code := s.code()
	said := s.said()
	if len(said) != 2 {
		t.Fatalf("got %v, want a warning and a report", said)
	}
	const want = "lock name cannot be renewed: ending the command before the lock is lost"
	if code != exitLost || said[0]["warning"] != want ||
		said[1]["outcome"] != "lost" || said[1]["ran"] != true {
		t.Errorf("got %d and %v", code, said)
	}
}

// The verbs that print an object say in one, too, why they cannot.
func TestErrorsAsObjects(t *testing.T) {
	c := redlocktest.New(t, 5)
	c.Kill(0, 1, 2)
	for args, want := range map[string]string{
		"status --json name": "no-quorum", "status --json": "usage", "top --json": "no-quorum",
		"doctor --json x": "usage", "version --json x": "usage",
	} {
		s := begin(t, c, strings.Fields(args)...)
		s.code()
		if said := s.said(); len(said) != 1 || said[0]["outcome"] != want || said[0]["error"] == "" {
			t.Errorf("redlock %s: got %v, want %q", args, said, want)
		}
	}
	var b build
	if begin(t, nil, "version", "--json").object(&b); b.Version == "" || !strings.HasPrefix(b.Go, "go") {
		t.Errorf("version: got %+v", b)
	}
}

// A name that is not UTF-8 is no text that JSON could have: its bytes stand beside it, and only then.
func TestNamesOfBytes(t *testing.T) {
	c := redlocktest.New(t, 3)
	type named struct {
		Name  string
		Bytes []byte `json:"name_base64"`
	}
	for _, name := range []string{"job", "job\xff\xc0"} {
		holder := holding(t, c, "run", "--json", name)
		var want []byte
		if name != "job" {
			want = []byte(name)
		}
		check := func(what string, got named) {
			if !bytes.Equal(got.Bytes, want) || got.Name != strings.ToValidUTF8(name, "\uFFFD\uFFFD") {
				t.Errorf("%s of %q: got %q and %q", what, name, got.Name, got.Bytes)
			}
		}
		var said struct {
			named
			Locks, Names []named
			Now          named
		}
		for _, verb := range []string{"status", "top", "ls", "unlock", "forget"} {
			said.Locks, said.Names, said.named, said.Now = nil, nil, named{}, named{}
			args := []string{verb, "--json", name}
			switch verb {
			case "ls":
				args[2] = "job" // miniredis takes no pattern that is not UTF-8
			case "unlock":
				args = append(args, "--yes", "--force")
			}
			begin(t, c, args...).object(&said)
			switch {
			case len(said.Locks)+len(said.Names) == 1:
				check(verb, append(said.Locks, said.Names...)[0])
			case verb == "unlock":
				check(verb, said.Now)
			default:
				check(verb, said.named)
			}
		}
		holder.stdin.Close()
		holder.code()
		lines := strings.Split(strings.TrimSpace(holder.stderr.String()), "\n")
		var report named
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
			t.Fatal(err)
		}
		check("run", report)
	}
}
