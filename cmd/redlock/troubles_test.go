//go:build unix

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// A node that no time mends is told of once, when a majority votes without it, and from whichever side it was heard
// first.
func TestTroubles(t *testing.T) {
	down := func(err error) redlock.Event {
		err = fmt.Errorf("%w: %w", redlock.ErrNodeDown, err)
		return redlock.Event{Kind: redlock.EventNode, Node: "r2:6379", Err: err}
	}
	attempt := func(err error) redlock.Event { return redlock.Event{Kind: redlock.EventAttempt, Err: err} }
	wrong := down(&redlock.ReplyError{Code: "WRONGPASS", Reply: "WRONGPASS invalid"})
	const saysWrong = "r2:6379 does not vote: WRONGPASS invalid"
	const unsafe = "other clients use a restart guard of 5s"
	found := func(log *slog.Logger, level slog.Level, code, text string) {
		log.Log(t.Context(), level, "node: "+text, "node", "r3:6379", "finding", code, "remedy", "mend it")
	}
	for name, c := range map[string]struct {
		do   func(t *troubles, log *slog.Logger)
		want []string
	}{
		"before the lock": {func(tr *troubles, _ *slog.Logger) {
			tr.observe(wrong)
			tr.observe(attempt(nil))
			tr.observe(attempt(nil))
		}, []string{saysWrong}},
		"after it": {func(tr *troubles, _ *slog.Logger) {
			tr.observe(attempt(redlock.ErrTaken))
			tr.observe(wrong)
			tr.observe(wrong)
		}, []string{saysWrong}},
		"without a majority": {func(tr *troubles, _ *slog.Logger) {
			tr.observe(wrong)
			tr.observe(attempt(redlock.ErrNoQuorum))
		}, nil},
		"what time mends": {func(tr *troubles, log *slog.Logger) {
			tr.observe(attempt(nil))
			tr.observe(down(errors.New("dial tcp: connection refused")))
			tr.observe(down(&redlock.ReplyError{Code: "LOADING", Reply: "LOADING"}))
			tr.observe(down(&net.DNSError{Err: "server misbehaving", IsTemporary: true}))
			tr.observe(redlock.Event{Kind: redlock.EventNode, Err: redlock.ErrNodeAbstains})
			tr.observe(redlock.Event{Kind: redlock.EventNode})
			found(log, slog.LevelWarn, "abstains", "restarted 2 s ago")
			found(log, slog.LevelWarn, "silent", "not answered")
			found(log, slog.LevelWarn, "tls", "no answer to the TLS handshake (… wants redis://)")
			found(log, slog.LevelWarn, "memory", "95 of 100 bytes are in use")
			found(log, slog.LevelError, "evicts", "was allowed by a flag")
			log.Warn("majority gone")
		}, nil},
		"no such host": {func(tr *troubles, log *slog.Logger) {
			tr.observe(attempt(nil))
			tr.observe(down(&net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "r2", Server: "s"}}))
			found(log, slog.LevelWarn, "unreachable", "dial tcp: lookup r3 on s: no such host")
		}, []string{"r2:6379 does not vote: no such host", "r3:6379 does not vote: no such host"}},
		"unfit": {func(tr *troubles, log *slog.Logger) {
			tr.observe(attempt(nil))
			tr.observe(down(fmt.Errorf("%w: it is a replica", redlock.ErrNodeRefused)))
			found(log, slog.LevelWarn, "refused", "refused: may evict locks, or see NodeConfig.AllowEviction")
		}, []string{
			"r2:6379 does not vote: refused: it is a replica",
			"r3:6379 does not vote: refused: may evict locks, or see --allow-eviction",
		}},
		"heard twice": {func(tr *troubles, log *slog.Logger) {
			tr.observe(redlock.Event{Kind: redlock.EventNode, Node: "r3:6379", Err: wrong.Err})
			found(log, slog.LevelWarn, "reply-wrongpass", "WRONGPASS invalid")
			tr.observe(attempt(nil))
		}, []string{"r3:6379 does not vote: WRONGPASS invalid"}},
		"clients that disagree": {func(tr *troubles, log *slog.Logger) {
			tr.observe(attempt(nil))
			found(log, slog.LevelError, "settings", unsafe)
			found(log, slog.LevelError, "settings", unsafe)
			found(log, slog.LevelWarn, "settings", "other clients keep tokens for 2 m")
		}, []string{unsafe + "; mend it"}},
	} {
		t.Run(name, func(t *testing.T) {
			var said []string
			tr := &troubles{warn: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }}
			c.do(tr, slog.New(tr))
			if !slices.Equal(said, c.want) {
				t.Errorf("got %q, want %q", said, c.want)
			}
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
