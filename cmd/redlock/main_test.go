package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// binary is the built command; most tests drive it as a shell would.
var binary string

// heedSignals undoes that whoever started the tests had signals ignored, as nohup and
// background jobs do: the commands under test would inherit it.
func heedSignals() {
	for _, sig := range []os.Signal{os.Interrupt, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// roles are what a test may start this program as, on its main thread, instead of the tests.
var roles = map[string]func() int{}

const roleKey = "REDLOCK_TEST_ROLE"

func TestMain(m *testing.M) {
	if role := roles[os.Getenv(roleKey)]; role != nil {
		os.Exit(role())
	}
	heedSignals()
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "redlock")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary = filepath.Join(dir, "redlock")
		if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
			return 1
		}
		for _, verb := range newApp(io.Discard, io.Discard).Commands {
			for _, flag := range verb.Flags {
				os.Unsetenv(settingOf(flag.Names()[0]))
			}
		}
		// A busy machine may suspend everybody for longer than the default, and then not all nodes have answered.
		os.Setenv(settingOf("node-timeout"), "5s")
		return m.Run()
	}())
}

func TestUsage(t *testing.T) {
	nodes := "--nodes=redis://127.0.0.1:1"
	for _, c := range []struct {
		args string
		want string // in what stderr gets
	}{
		{"frobnicate", `no verb "frobnicate"`},
		{"frobnicate --now", `no verb "frobnicate"`},
		{"--frobnicate", "frobnicate"},
		{"demo now", `demo takes no arguments, got "now"`},
		{"run", "no lock name"},
		{"run " + nodes, "no lock name"},
		{"run " + nodes + " name", `no command to run while "name" is held`},
		{"run " + nodes + " name --", `no command`},
		{"run " + nodes + " name --ttl 5s -- true", `"--ttl" after the lock name`},
		{"run name true", "no nodes: give --nodes or set REDLOCK_NODES"},
		{"run --nodes , name true", "no nodes"},
		{"run --frobnicate name true", "frobnicate"},
		{"once", `no lock name; see "redlock once --help"`},
		{"once " + nodes + " name", `no command to run while "name" is held`},
		{"once " + nodes + " name --max-runs 2 -- true", `"--max-runs" after the lock name`},
		{"once --done-code 256 " + nodes + " name true", "--done-code 256: want 0 to 255"},
		{"once --taken-code 256 " + nodes + " name true", "--taken-code 256: want 0 to 255"},
		{"run --taken-code -1 " + nodes + " name true", "--taken-code -1: want 0 to 255"},
		{"once --max-runs -1 " + nodes + " name true", "-1 runs"},
		{"once --done-ttl 15s " + nodes + " name true", "less than twice the TTL"},
		{"status " + nodes, "want one lock name, got 0"},
		{"status " + nodes + " one two", "want one lock name, got 2"},
		{"status name", "no nodes"},
		{"run --ttl name true", "ttl"},
		{"run --wait 1s --no-wait " + nodes + " name true", "--wait and --no-wait exclude each other"},
		{"run --wait -1s " + nodes + " name true", "negative"},
		{"run --kill-after -1s " + nodes + " name true", "negative"},
		{"run --nodes ftp://x name true", "ftp"},
		{"run --nodes a,a name true", "redlock: "},
		{"run --ttl 0s " + nodes + " name true", "TTL"},
	} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append([]string{"redlock"}, strings.Fields(c.args)...), &stdout, &stderr)
		said := stderr.String()
		if code != exitUsage || !strings.Contains(said, c.want) {
			t.Errorf("redlock %s: got %d, %q, want 64 and %q", c.args, code, said, c.want)
		}
		if !strings.HasPrefix(said, "redlock: ") || strings.Count(said, "\n") != 1 {
			t.Errorf("redlock %s: got %q, want one line that begins with \"redlock: \"", c.args, said)
		}
		if stdout.Len() > 0 {
			t.Errorf("redlock %s: standard output got %q", c.args, stdout.String())
		}
	}
}

// URLs carry passwords, and what is printed ends in logs and mails.
func TestPasswordsAreNotPrinted(t *testing.T) {
	const secret = "s3cret"
	for _, nodes := range []string{
		"redis://user:s3cret@127.0.0.1:1",
		"redis://s3cret@127.0.0.1:1",
		"redis://user:s3cret@127.0.0.1:port",
		"redis://user:s3cret@127.0.0.1:1,redis://user:s3cret@127.0.0.1:1",
		"redis://user:s3cret@[",
		"ftp://user:s3cret@127.0.0.1",
		"user:s3cret@127.0.0.1:1",
	} {
		t.Setenv(settingOf("nodes"), nodes)
		for _, args := range [][]string{
			{"run", "--no-wait", "name", "true"},
			{"run", "--no-wait", "--nodes", nodes, "name", "true"},
			{"run", "--no-wait", "--nodes=" + nodes, "--bad", "name", "true"},
			{"run", "--help"},
		} {
			var out bytes.Buffer
			run(t.Context(), append([]string{"redlock"}, args...), &out, &out)
			if strings.Contains(out.String(), secret) {
				t.Errorf("%s with %s=%s printed the password:\n%s", args, settingOf("nodes"), nodes, out.String())
			}
		}
	}
}
