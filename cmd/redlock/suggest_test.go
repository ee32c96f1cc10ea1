package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSuggestions(t *testing.T) {
	for typed, want := range map[string]string{
		"run --nowait x true":            `no flag --nowait (did you mean --no-wait?); see "redlock run --help"`,
		"run --node-timout=1s x true":    `no flag --node-timout (did you mean --node-timeout?); see "redlock run --help"`,
		"status --node=h x":              `no flag --node (did you mean --nodes?); see "redlock status --help"`,
		"run --xyzzy x true":             `no flag --xyzzy; see "redlock run --help"`,
		"rnu x true":                     `no verb "rnu" (did you mean run?); "redlock --help" lists them`,
		"stat x":                         `no verb "stat" (did you mean status?); "redlock --help" lists them`,
		"frobnicate":                     `no verb "frobnicate"; "redlock --help" lists them`,
		"once --s3cret=rediss://u:p@h x": `no flag --s3cret; see "redlock once --help"`,
	} {
		var out bytes.Buffer
		code := run(t.Context(), strings.Fields("redlock "+typed), &out, &out)
		if got := out.String(); code != exitUsage || got != "redlock: "+want+"\n" {
			t.Errorf("%s: got %d, %q, want %q", typed, code, got, want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"kitten", "sitting", 3}, {"wait", "wait", 0}, {"nowait", "no-wait", 1}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}
