//go:build unix

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/redlocktest"
)

// A node that no time mends is told of once, when a majority votes without it, and from whichever side it was heard
// first.
func TestTroubles(t *testing.T) {
	of := func(node string, why error, code finding.Code) redlock.NodeStatus {
		if why != nil {
			why = fmt.Errorf("%w: %w", redlock.ErrNodeDown, why)
		}
		unsafe := finding.Finding{Code: code, Severity: finding.Unsafe, Text: "clients disagree", Remedy: "mend it"}
		return redlock.NodeStatus{Addr: node, Err: why, Findings: []finding.Finding{unsafe}}
	}
	attempt := func(err error) redlock.Event { return redlock.Event{Kind: redlock.EventAttempt, Err: err} }
	voted, taken, none := attempt(nil), attempt(redlock.ErrTaken), attempt(redlock.ErrNoQuorum)
	news := redlock.Event{Kind: redlock.EventNode, Err: redlock.ErrNodeDown}
	wrong := endpoint.Lasting(errors.New("WRONGPASS invalid"))
	unknown := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}
	for name, c := range map[string]struct {
		events []redlock.Event
		why    error
		code   finding.Code
		want   string
	}{
		"before the lock":    {[]redlock.Event{news, voted, news, voted}, wrong, "x", "r2 does not vote: WRONGPASS invalid"},
		"heard from the log": {[]redlock.Event{taken, {}, {}}, wrong, "x", "r2 does not vote: WRONGPASS invalid"},
		"without a majority": {[]redlock.Event{news, none, {}}, wrong, "x", ""},
		"what time mends":    {[]redlock.Event{voted, news}, errors.New("connection refused"), finding.Evicts, ""},
		"no such host":       {[]redlock.Event{voted}, unknown, "x", "r2 does not vote: no such host"},
		"unfit":              {[]redlock.Event{voted}, redlock.ErrNodeRefused, "x", "r2 does not vote: refused"},
		"a list":             {[]redlock.Event{voted, news}, nil, finding.Lists, "clients disagree"},
		"a missing right":    {[]redlock.Event{voted, {}}, nil, "reply-noperm", "r2: clients disagree"},
		"settings":           {[]redlock.Event{voted, {}}, nil, finding.Settings, "clients disagree; mend it"},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			status := []redlock.NodeStatus{of("r1", nil, "x"), of("r2", c.why, c.code)}
			tr := &troubles{
				warn:  func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) },
				nodes: func() []redlock.NodeStatus { return status }, known: make(map[string]bool),
			}
			for _, ev := range c.events {
				if tr.observe(ev); ev.Kind == "" {
					slog.New(tr).Warn("node: r2")
				}
			}
			cases.Equals(t, strings.Join(said, "; "), c.want, "said")
		})
	}
}

// One of three nodes refuses the password: the lock is taken, and a warning says so, also with --quiet.
func TestANodeThatRefusesThePasswordIsSaid(t *testing.T) {
	c := redlocktest.New(t, 2)
	m := miniredis.RunT(t)
	m.RequireUserAuth("app", "right")
	nodes := "--nodes=" + strings.Join(append(c.URLs(), "redis://app:wrong-secret@"+m.Addr()), ",")
	text := m.Addr() + " does not vote: WRONGPASS invalid username-password pair"
	for _, verb := range []string{"run", "once"} {
		begin(t, nil, verb, nodes, "--node-timeout=5s", "--quiet", verb, "echo", "ran").end(exitOK, "ran\n", "redlock: "+text)
		s := begin(t, nil, verb, nodes, "--node-timeout=5s", "--json", verb+" again", "true")
		if got := s.code(); got != exitOK || !strings.HasPrefix(s.stderr.String(), `{"warning":"`+text) {
			t.Errorf("%s --json: got %d, %q", verb, got, s.stderr.String())
		}
	}
}
