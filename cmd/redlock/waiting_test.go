//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/redlocktest"
)

// Where nobody looks on, a wait is told of once a minute, unless a URL may be wrong: a job waits in vain then.
func TestReportsOnceAMinute(t *testing.T) {
	wrong := &redlock.QuorumError{Op: "lock", Name: "x", Nodes: []redlock.NodeError{{
		Addr: "r1", Outcome: "failed", Err: endpoint.MismatchError{Kind: endpoint.PerhapsNoTLS},
	}}}
	for args, want := range map[string]string{
		"--mismatch": "redlock: waiting for 2s: lock x: no quorum: 0 of 1 voted, r1 unreachable\n" +
			"redlock: waiting for 1m2s: lock x: taken; the next in the queue\n" +
			"redlock: waiting for 2m2s: lock x: taken; 7 wait before this one\n",
		"": "redlock: waiting for 1m0s: lock x: taken; the next in the queue\n" +
			"redlock: waiting for 2m0s: lock x: taken; 7 wait before this one\n" +
			"redlock: waiting for 3m0s: lock x: no quorum: 0 of 0 voted\n",
		"--quiet": "",
		"--json": `{"waiting":"lock x: taken; the next in the queue"}` + "\n" +
			`{"waiting":"lock x: taken; 7 wait before this one"}` + "\n" +
			`{"waiting":"lock x: no quorum: 0 of 0 voted"}` + "\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			var out bytes.Buffer
			cmd := &cli.Command{
				Name: "redlock", ErrWriter: &out,
				Flags: append(waitFlags("", ""), jsonFlag(""), &cli.BoolFlag{Name: "mismatch"}),
				Action: func(_ context.Context, cmd *cli.Command) error {
					finds := []error{
						errors.New("lock x: no answer yet"), errors.New("lock x: taken; the next in the queue"),
						errors.New("lock x: taken; 7 wait before this one"), &redlock.QuorumError{Op: "lock", Name: "x"},
					}
					if cmd.Bool("mismatch") {
						finds[0] = wrong
					}
					stop := reports(cmd, func() error {
						next := finds[0]
						finds = finds[1:]
						return next
					})
					time.Sleep(3*time.Minute + time.Second)
					stop()
					time.Sleep(time.Hour)
					return nil
				},
			}
			cases.NoError(t, cmd.Run(t.Context(), strings.Fields("redlock "+args)))
			cases.Equals(t, out.String(), want, "%q", args)
		})
	}
}

func TestWhatAnAttemptHasFound(t *testing.T) {
	var a attempts
	if got := complaint(a.found()); got != "no answer yet" {
		t.Errorf("before the first: %q", got)
	}
	c := redlocktest.New(t, 3)
	holder := cases.Must(redlock.New(c.URLs(), redlock.WithOwnerLabel("web-3/812"), redlock.WithNodeTimeout(patience)))(t)
	defer holder.Close()
	cases.Must(holder.Lock(t.Context(), "job"))(t)
	locker := cases.Must(redlock.New(c.URLs(), redlock.WithObserver(a.observe), redlock.WithNodeTimeout(patience)))(t)
	defer locker.Close()
	for i := range 3 { // one process waits as one; these are three
		l := locker
		if i < 2 {
			l = cases.Must(redlock.New(c.URLs(), redlock.WithNodeTimeout(patience)))(t)
			defer l.Close()
		}
		go func() { _, _ = l.Lock(t.Context(), "job") }()
		cases.Eventually(t, fmt.Sprintf("%d wait", i+1), func() bool {
			s, err := holder.Inspect(t.Context(), "job")
			return err == nil && s.Waiting == i+1
		})
	}
	cases.Eventually(t, "its place is known", func() bool {
		got := complaint(a.found())
		return strings.HasPrefix(got, "lock job: taken by web-3/812, ") &&
			strings.HasSuffix(got, " of 3); 2 wait before this one")
	})
}

// No time mends a wrong password, nor a command for it that is not there: nothing waits for that, also where the file
// of settings, which might be changed, has it so from the start.
func TestARefusedMajorityEndsAtOnce(t *testing.T) {
	var urls, addrs []string
	for range 3 {
		m := miniredis.RunT(t)
		m.RequireUserAuth("app", "right")
		urls, addrs = append(urls, "redis://app:wrong-secret@"+m.Addr()), append(addrs, "app:@"+m.Addr())
	}
	nodes := strings.Join(urls, ",")
	for flag, why := range map[string]string{
		"--nodes=" + nodes: "WRONGPASS: invalid username-password pair",
		"--config=" + writeFile(t, "REDLOCK_NODES="+nodes): "WRONGPASS: invalid username-password pair",

		"--nodes=" + strings.Join(addrs, ",") + " --password-command=no-such-command": " without credentials: " +
			"--password-command: exit status 127: ",
	} {
		for verb, args := range map[string][]string{"run": {"name", "true"}, "once": {"name", "true"}, "wait": nil} {
			s := begin(t, nil, slices.Concat([]string{verb}, strings.Fields(flag), args)...)
			code, said := s.code(), s.stderr.String()
			if code != exitNoQuorum || !strings.Contains(said, ": no quorum: 0 of 3 voted, ") || !strings.Contains(said, why) ||
				!strings.HasSuffix(said, "; no majority is possible until somebody changes that\n") ||
				strings.Contains(said, "secret") || strings.Count(said, "\n") != 1 {
				t.Errorf("%s %s: got %d, %q", verb, flag, code, said)
			}
		}
	}
}

// Nor does time grant rights. A majority votes, as Ready sees it.
func TestMissingRightsEndTheWait(t *testing.T) {
	for refused, ends := range map[int]bool{2: true, 1: false} {
		args := []string{"--no-node-info", "--no-restart-guard", "--wait=1m", "--nodes="}
		for i := range 3 {
			m := miniredis.RunT(t)
			m.Server().SetPreHook(func(p *server.Peer, command string, _ ...string) bool {
				if command == "HELLO" || i < refused && command == "EVALSHA" { // its RESP3 breaks off with a subscription
					p.WriteError("NOPERM this user has no permissions to run the '" + strings.ToLower(command) + "' command")
					return true
				}
				return false
			})
			args[3] += m.Addr() + ","
		}
		for _, verb := range []string{"run", "once"} {
			code, _, said := redlocks(t, slices.Concat([]string{verb}, args, []string{"name", "true"})...)
			if ended := code == exitNoQuorum && strings.Contains(said, "'evalsha'") &&
				strings.HasSuffix(said, "; no majority is possible until somebody changes that\n"); ended != ends {
				t.Errorf("%d nodes refuse %s: got %d, %q", refused, verb, code, said)
			}
		}
	}
}

// Nor does it take away what another program has written in the place of the tokens.
func TestAKeyOfAnotherKindEndsTheWait(t *testing.T) {
	nodes := "--nodes="
	for range 3 {
		m := miniredis.RunT(t)
		cases.Must(m.Lpush("redlock:tokens", "x"))(t)
		nodes += m.Addr() + ","
	}
	for verb, args := range map[string][]string{"run": {"name", "true"}, "once": {"name", "true"}, "wait": nil} {
		flags := []string{verb, "--no-node-info", "--no-restart-guard", "--wait=1m", nodes}
		code, _, said := redlocks(t, slices.Concat(flags, args)...)
		if code != exitNoQuorum || !strings.Contains(said, "WRONGTYPE") ||
			!strings.HasSuffix(said, "no majority is possible until somebody changes that\n") {
			t.Errorf("%s: got %d, %q", verb, code, said)
		}
	}
}

func TestWait(t *testing.T) {
	c := redlocktest.New(t, 3)
	begin(t, c, "wait").end(exitOK, "", "")
	c.Kill(0, 1)
	begin(t, c, "wait", "--no-wait").end(exitNoQuorum, "",
		"redlock: wait: no quorum: 1 of 3 voted, "+c.Addr(0)+" "+c.Addr(1)+" unreachable\n")
	s := begin(t, c, "wait", "--wait=100ms", "--json")
	if got := s.code(); got != exitNoQuorum || !strings.Contains(s.stderr.String(), "unreachable; the wait is over") {
		t.Errorf("got %d, %q", got, s.stderr.String())
	}
	s = begin(t, c, "wait", "--max-ttl=2s")
	cases.NoError(t, c.Revive(0, 1))
	s.end(exitOK, "", "")
}
