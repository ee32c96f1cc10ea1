//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// Each change comes at once, also through a pipe; an outage is told of, and survived.
func TestWatch(t *testing.T) {
	c := redlocktest.New(t, 3)
	s := beginCmd(t, c, exec.Command("sh", "-c", `exec "$0" watch --no-restart-guard name 2>&1`, binary))
	objects := begin(t, c, "watch", "--json", "name")
	next := func(want string) {
		t.Helper()
		line := s.next()
		if _, text, _ := strings.Cut(line, "  "); !strings.HasPrefix(text, want) {
			t.Fatalf("got %q, want %q behind the time", line, want)
		}
		var o changeObject
		if err := json.Unmarshal([]byte(objects.next()), &o); err != nil || o.Time.IsZero() || o.Held == (want == "free") {
			t.Errorf("%s: got %+v, %v", want, o, err)
		}
	}
	next("free")
	holder := holding(t, c, "run", "name")
	host, _ := os.Hostname()
	next(fmt.Sprintf("%s/%d  token 17", host, holder.cmd.Process.Pid))
	holder.stdin.Close()
	next("free")

	objects.signal(syscall.SIGTERM)
	objects.end(exitSignal+exitCode(syscall.SIGTERM), "", "")
	c.Kill(0, 1)
	if got := s.next(); !strings.HasPrefix(got, "redlock: ") || !strings.Contains(got, " name: no quorum: 1 of 3 voted") {
		t.Errorf("two of three nodes are down: got %q", got)
	}
	if err := c.Revive(0, 1); err != nil {
		t.Fatal(err)
	}
	if got := s.next(); !strings.HasSuffix(got, "  free") {
		t.Errorf("they are up again: got %q", got)
	}
	s.signal(syscall.SIGINT)
	s.end(exitSignal+exitCode(syscall.SIGINT), "", "")
}

// What cannot be printed is lost: that ends it, and is said once.
func TestAFullDiskEndsWhatPrints(t *testing.T) {
	nodes := "--nodes=" + strings.Join(redlocktest.New(t, 1).URLs(), ",")
	for _, verb := range []string{"watch", "watch --json", "status", "status --json"} {
		var said bytes.Buffer
		code := run(t.Context(), append([]string{"redlock"}, append(strings.Fields(verb), nodes, "name")...), full{}, &said)
		if code != exitInternal || strings.Count(said.String(), errFull.Error()) != 1 {
			t.Errorf("%s: got %d, %q", verb, code, said.String())
		}
	}
}

var errFull = errors.New("no space left")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestChangesInWords(t *testing.T) {
	for want, i := range map[string]redlock.Inspection{
		"free":                        {},
		"web/1  token 17  value db-2": {Owner: "o", Label: "web/1", Token: 17, Value: "db-2"},
		`web/1  value a\x1b[2J`:       {Owner: "o", Label: "web/1", Value: "a\x1b[2J"},
		"a and 1 more read":           {Owner: "readers", Readers: []string{"a", "b"}, ReaderLabels: []string{"", ""}},
		"free  runs: 1 begun, the last one crashed; remembered for -": {Runs: redlock.Runs{Begun: 1, Last: "begun"}},
	} {
		if got := changed(i); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
