package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

func TestDoctor(t *testing.T) {
	c := redlocktest.New(t, 5)
	nodes := "--nodes=" + strings.Join(c.URLs(), ",")
	for _, step := range []struct {
		kill []int
		code exitCode
		want []string
	}{
		{nil, exitOK, []string{"healthy: 5 of 5 nodes vote", "Redis 7.4.0", "master", "noeviction", "PERSISTENCE"}},
		{[]int{1}, exitDegraded, []string{"1. [unreachable] " + c.Addr(1), "degraded: 4 of 5"}},
		{[]int{2}, exitDegraded, []string{"[no-spare] all nodes", "degraded: 3 of 5"}},
		{[]int{3}, exitUnavailable, []string{"[no-majority] all nodes: 2 of 5 nodes vote, a maj", "unavailable: 2 of 5"}},
	} {
		c.Kill(step.kill...)
		code, out, complaint := redlocks(t, "doctor", nodes)
		if code != step.code || complaint != "" {
			t.Errorf("killed %v: got %d, %q, want %d", step.kill, code, complaint, step.code)
		}
		for _, want := range step.want {
			if !strings.Contains(out, want) {
				t.Errorf("killed %v: no %q in\n%s", step.kill, want, out)
			}
		}
	}
	cases.NoError(t, c.Revive(1, 2, 3))
	code, out, _ := redlocks(t, "doctor", nodes, "--json")
	var said struct {
		Verdict string
		Voting  int
		Nodes   []struct {
			Addr    string
			Votes   bool
			Abstain string `json:"abstains_until"`
		}
		Findings []struct{ Node, Code, Severity string }
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if code != exitUnavailable || said.Verdict != "unavailable" || said.Voting != 2 || len(said.Nodes) != 5 ||
		!said.Nodes[0].Votes || said.Nodes[1].Abstain == "" || len(said.Findings) != 4 ||
		said.Findings[0].Code != "abstains" {
		t.Errorf("three have just been started: got %d, %+v", code, said)
	}
}

// A node that accepts connections and does not answer is no address that leads nowhere.
func TestDoctorFindsAFrozenNode(t *testing.T) {
	c := redlocktest.New(t, 3)
	c.Pause(1)
	code, out, _ := redlocks(t, "doctor", "--node-timeout=500ms", "--nodes="+strings.Join(c.URLs(), ","))
	if code != exitDegraded || !strings.Contains(out, "1. [silent] "+c.Addr(1)) {
		t.Errorf("got %d,\n%s", code, out)
	}
}

// One server under two addresses does not keep doctor from telling what else is wrong.
func TestDoctorFindsDuplicates(t *testing.T) {
	c := redlocktest.New(t, 3)
	c.Kill(1)
	other := strings.Replace(c.Addr(0), "127.0.0.1", "localhost", 1)
	for name, duplicate := range map[string]string{"another address": other, "the same address": c.Addr(0)} {
		nodes := strings.Join([]string{c.Addr(0), duplicate, c.Addr(1), c.Addr(2)}, ",")
		code, out, complaint := redlocks(t, "doctor", "--nodes", nodes)
		if code != exitUnsafe || complaint != "" {
			t.Errorf("%s: got %d, %q, want 2", name, code, complaint)
		}
		of := c.Addr(0)
		if duplicate == of {
			of = "another URL"
		}
		for _, want := range []string{
			"1. [twice] " + duplicate + ": the same server as " + of + ": it would have two votes",
			"2. [unreachable] " + c.Addr(1), "[even]",
			"unsafe: 2 of 4 nodes vote",
		} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", name, want, out)
			}
		}
	}
}

// A list with which run would be refused is no mere warning, and the entry that differs is named first.
func TestDoctorFindsAListThatIsRefused(t *testing.T) {
	c := redlocktest.New(t, 3)
	locker := cases.Must(redlock.New(c.URLs()))(t)
	defer locker.Close()
	spare := redlocktest.New(t, 1)
	list := func(last string) string { return "--nodes=" + strings.Join([]string{c.Addr(0), c.Addr(1), last}, ",") }
	for last, differs := range map[string]string{
		spare.Addr(0):            spare.Addr(0) + " is in this list alone; others use " + c.Addr(2),
		"redis-2x.invalid:17000": "redis-2x.invalid:17000: no such host; others use " + c.Addr(2),
	} {
		code, out, _ := redlocks(t, "doctor", list(last), "--node-timeout=5s")
		for _, want := range []string{
			"1. [lists] all nodes: " + differs + ": a client with this list is refused as long as they do",
			"correct the list that is wrong: this one, or the others'; to change nodes, use --to (",
			"nodes vote, but not for clients with this list\n", "unavailable: ",
		} {
			if code != exitUnavailable || !strings.Contains(out, want) {
				t.Errorf("%s: got %d, want 3 and %q in\n%s", last, code, want, out)
			}
		}
		if strings.Count(out, "[lists]") != 1 {
			t.Errorf("%s: said more than once:\n%s", last, out)
		}
		if code, _, said := redlocks(t, "wait", "--no-wait", list(last)); code != exitNoQuorum {
			t.Errorf("%s: wait: got %d, %s", last, code, said)
		}
	}
}
