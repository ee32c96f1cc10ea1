package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/endpoint"
)

// troubles warns of what no time mends although a majority votes: else the first to notice that a node has been out of
// the vote for weeks are those whom the next failure stops. Without a majority there is an error, which says as much of
// each node. It is a Locker's observer, and the handler of its log: by the one it learns of a node's first trouble
// before the call returns, and by the other of what comes in its place. What that is, the nodes' status says.
type troubles struct {
	warn  func(format string, args ...any)
	nodes func() []redlock.NodeStatus // what is known of them, without asking

	mu    sync.Mutex // guards the fields below
	voted bool       // a majority has
	known map[string]bool
}

func (t *troubles) observe(ev redlock.Event) {
	switch {
	case ev.Kind == redlock.EventAttempt && (ev.Err == nil || errors.Is(ev.Err, redlock.ErrTaken)):
		t.look(true)
	case ev.Kind == redlock.EventNode && ev.Err != nil:
		t.look(false)
	}
}

// look says what is new, once a majority has voted.
func (t *troubles) look(voted bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.voted = t.voted || voted; !t.voted {
		return
	}
	for _, n := range t.nodes() {
		for i, f := range n.Findings {
			key, text := n.Addr+" "+string(f.Code), ""
			var dns *net.DNSError
			switch unsafe := f.Severity == finding.Unsafe; {
			case i == 0 && endpoint.Lasts(n.Err):
				text = n.Addr + " does not vote: " + strings.TrimPrefix(n.Err.Error(), redlock.ErrNodeDown.Error()+": ")
			case i == 0 && errors.As(n.Err, &dns) && dns.IsNotFound: // which may be to come, so nobody gives up for it
				text = n.Addr + " does not vote: no such host"
			case n.Err == nil && strings.HasPrefix(string(f.Code), "reply-"): // it votes, and may not do what locks need
				text = n.Addr + ": " + f.Text
			case unsafe && f.Code == finding.Settings: // which are about all nodes
				key, text = string(f.Code), f.Text+"; "+f.Remedy
			case unsafe && f.Code == finding.Lists:
				key, text = string(f.Code), f.Text
			default:
				continue
			}
			if !t.known[key] {
				t.known[key] = true
				t.warn("%s", inOurWords(text))
			}
		}
	}
}

// Enabled implements slog.Handler.
func (t *troubles) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

// Handle implements slog.Handler.
func (t *troubles) Handle(context.Context, slog.Record) error {
	t.look(false)
	return nil
}

// WithAttrs and WithGroup implement slog.Handler, for callers that a Locker is none of.
func (t *troubles) WithAttrs([]slog.Attr) slog.Handler { return t }

// WithGroup is like WithAttrs.
func (t *troubles) WithGroup(string) slog.Handler { return t }
