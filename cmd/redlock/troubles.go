package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/quorumlock/redlock"
)

// troubles warns of what no time mends although a majority votes: else the first to notice that a node has been out of
// the vote for weeks are those whom the next failure stops. Without a majority there is an error, which says as much of
// each node. It is a Locker's observer, and the handler of its log: the observer hears of each node's first trouble
// before the call returns, and the log of what comes in its place.
type troubles struct {
	warn func(format string, args ...any)

	mu      sync.Mutex // guards the fields below
	voted   bool       // a majority has
	waiting []string   // for that
	known   map[string]bool
}

func (t *troubles) observe(ev redlock.Event) {
	switch {
	case ev.Kind == redlock.EventAttempt && (ev.Err == nil || errors.Is(ev.Err, redlock.ErrTaken)):
		t.majority()
	case ev.Kind == redlock.EventNode && ev.Err != nil:
		var refusal *redlock.ReplyError
		var dns *net.DNSError
		text := strings.TrimPrefix(ev.Err.Error(), redlock.ErrNodeDown.Error()+": ")
		switch {
		case errors.As(ev.Err, &refusal):
			t.note(ev.Node, "reply-"+strings.ToLower(refusal.Code), refusal.Error())
		case errors.Is(ev.Err, redlock.ErrNodeRefused):
			t.note(ev.Node, "refused", text)
		case errors.As(ev.Err, &dns):
			t.note(ev.Node, "unreachable", text)
		}
	}
}

// majority says what was found before.
func (t *troubles) majority() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.voted = true
	t.say()
}

// say is called with mu held.
func (t *troubles) say() {
	if !t.voted {
		return
	}
	for _, text := range t.waiting {
		t.warn("%s", text)
	}
	t.waiting = nil
}

// note takes what docs/operations.md lists as a finding, and says it once.
func (t *troubles) note(node, code, text string) {
	if !lasts(code, text) {
		return
	}
	text = inOurWords(text)
	if code == "unreachable" {
		text = noSuchHost // without the name once more, and whom that was asked of
	}
	if code != "settings" && code != "lists" { // which are about all nodes
		text = node + " does not vote: " + text
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known[text] {
		return
	}
	if t.known == nil {
		t.known = make(map[string]bool)
	}
	t.known[text] = true
	t.waiting = append(t.waiting, text)
	t.say()
}

const noSuchHost = "no such host"

// lasts reports whether somebody has to change something.
func lasts(code, text string) bool {
	switch code {
	case "reply-noauth", "reply-wrongpass", "reply-noperm", "refused", "certificate", "not-redis", "twice",
		"undeclared-keys", "settings", "lists":
		return true
	case "reply-err":
		return strings.Contains(text, "the server has no password")
	case "tls":
		return strings.Contains(text, "it does not speak TLS")
	case "unreachable":
		return strings.HasSuffix(text, noSuchHost)
	default:
		return false
	}
}

// Enabled implements slog.Handler.
func (t *troubles) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler. That clients disagree matters if it is unsafe.
func (t *troubles) Handle(_ context.Context, record slog.Record) error {
	said := make(map[string]string)
	record.Attrs(func(a slog.Attr) bool {
		said[a.Key] = a.Value.String()
		return true
	})
	code := said["finding"]
	if record.Level >= slog.LevelError || code != "settings" && code != "lists" {
		text := strings.TrimPrefix(record.Message, "node: ")
		if code == "settings" { // no node has to change
			text += "; " + said["remedy"]
		}
		t.note(said["node"], code, text)
	}
	return nil
}

// WithAttrs and WithGroup implement slog.Handler, for callers that a Locker is none of.
func (t *troubles) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup is like WithAttrs.
func (t *troubles) WithGroup(string) slog.Handler { return t }
