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

// redlocks returns what a call in this process comes to, and prints.
func redlocks(t *testing.T, args ...string) (code exitCode, stdout, stderr string) {
	t.Helper()
	var out, said bytes.Buffer
	code = run(t.Context(), append([]string{"redlock"}, args...), &out, &said)
	return code, out.String(), said.String()
}

// URLs carry passwords, and what is printed ends in logs and mails.
func TestPasswordsAreNotPrinted(t *testing.T) {
	const secret = "s3cret"
	for _, nodes := range []string{
		"redis://user:s3cret@127.0.0.1:1",
		"redis://user:s3cret@127.0.0.1:1,redis://user:s3cret@127.0.0.1:1",
		"ftp://user:s3cret@127.0.0.1",
	} {
		t.Setenv(settingOf("nodes"), nodes)
		for _, args := range [][]string{
			{"run", "--no-wait", "name", "true"},
			{"run", "--no-wait", "--nodes", nodes, "name", "true"},
			{"run", "--no-wait", "--nodes=" + nodes, "--bad", "name", "true"},
			{"run", "--help"},
		} {
			if _, out, said := redlocks(t, args...); strings.Contains(out+said, secret) {
				t.Errorf("%s with %s=%s printed the password:\n%s%s", args, settingOf("nodes"), nodes, out, said)
			}
		}
	}
}
