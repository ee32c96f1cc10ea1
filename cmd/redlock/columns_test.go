package main

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/cases"
)

func TestTimesInColumns(t *testing.T) {
	for d, want := range map[time.Duration]struct{ left, span string }{
		-1:                       {"for ever", "-"},
		0:                        {"-", "-"},
		1234 * time.Millisecond:  {"1.2s", "1s"},
		12345 * time.Millisecond: {"12s", "12s"},
		90 * time.Minute:         {"1h30m0s", "1h30m0s"},
		48 * time.Hour:           {"48h0m0s", "48h0m0s"},
		73 * time.Hour:           {"3d", "3d"},
	} {
		cases.Equals(t, left(d), want.left, "left(%v)", d)
		cases.Equals(t, span(d), want.span, "span(%v)", d)
	}
}

func TestNodeInColumns(t *testing.T) {
	down := errors.New("down")
	for name, c := range map[string]struct {
		node                              redlock.NodeStatus
		votes, role, clock, trip, trouble string
	}{
		"unknown": {redlock.NodeStatus{Err: down}, "no", "-", "-", "-", "-"},
		"fine": {redlock.NodeStatus{
			Role: "master", ClockOffset: -1250 * time.Microsecond, RoundTrip: 123456 * time.Nanosecond,
		}, "yes", "master", "-1.2ms", "120µs", "-"},
		"replica": {redlock.NodeStatus{
			Role: "slave", Err: down, RoundTrip: time.Millisecond, Findings: []finding.Finding{
				{Code: "a"},
				{Code: "b", Severity: finding.Degraded},
				{Code: "c", Severity: finding.Unsafe},
				{Code: "d"},
			},
		}, "no", "replica", "+0.0ms", "1ms", "c"},
	} {
		n := c.node
		got := [...]string{votes(n), role(n), clock(n), trip(n), trouble(n)}
		cases.Equals(t, got, [...]string{c.votes, c.role, c.clock, c.trip, c.trouble}, "%s", name)
	}
}

func TestOwnerAndTokenInColumns(t *testing.T) {
	for owner, want := range map[string]string{
		"": "-", "readers": "readers", "01a20409-98e1-7c00-82a1-bc5cc850c194": "…c850c194",
	} {
		cases.Equals(t, brief(owner), want, "brief(%q)", owner)
	}
	for text, want := range map[string]string{"": "-", "db 2": "db 2", "a\tb": `a\tb`} {
		cases.Equals(t, whole(text), want, "whole(%q)", text)
	}
	if a, b := token(0), token(17); a != "-" || b != "17" {
		t.Errorf("tokens: got %q and %q", a, b)
	}
}
