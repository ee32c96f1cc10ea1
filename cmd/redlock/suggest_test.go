package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSuggestions(t *testing.T) {
	const ttl = `for --ttl: want a duration, such as 500ms, 10s or 1h30m`
	const quoted = "a node begins with a quote: write none around nodes (Docker's --env-file keeps them)"
	for typed, want := range map[string]string{
		"run --nowait x true":            `no flag --nowait (did you mean --no-wait?); see "redlock run --help"`,
		"run --node-timout=1s x true":    `no flag --node-timout (did you mean --node-timeout?); see "redlock run --help"`,
		"status --node=h x":              `no flag --node (did you mean --nodes?); see "redlock status --help"`,
		"run --xyzzy x true":             `no flag --xyzzy; see "redlock run --help"`,
		"rnu x true":                     `no verb "rnu" (did you mean run?); "redlock --help" lists them`,
		"stat x":                         `no verb "stat" (did you mean status?); "redlock --help" lists them`,
		"node":                           `no verb "node"; "redlock --help" lists them`,
		"nodes":                          `no verb "nodes"; "redlock --help" lists them`,
		"lock x true":                    `no verb "lock" (did you mean run?); "redlock --help" lists them`,
		"release x":                      `no verb "release" (did you mean unlock?); "redlock --help" lists them`,
		"--ttl 5s run x -- true":         `--ttl stands behind the verb: redlock VERB --ttl; see "redlock --help"`,
		"--max-runs=2 once x true":       `--max-runs stands behind the verb: redlock VERB --max-runs; see "redlock --help"`,
		"--frobnicate run x true":        `no flag --frobnicate; see "redlock --help"`,
		"run -n x true":                  `no flag -n (did you mean --no-wait?); see "redlock run --help"`,
		"run -w 5 x true":                `no flag -w (did you mean --wait?); see "redlock run --help"`,
		"status -n h x":                  `no flag -n (did you mean --nodes?); see "redlock status --help"`,
		"status -z x":                    `no flag -z; see "redlock status --help"`,
		"run --ttl 5 x":                  `invalid value "5" ` + ttl + ` (did you mean 5s?); see "redlock run --help"`,
		"run --ttl=5x x true":            `invalid value "5x" ` + ttl + `; see "redlock run --help"`,
		"once --max-runs no x true":      `invalid value "no" for --max-runs: want a whole number; see "redlock once --help"`,
		"run --json=maybe x true":        `invalid value "maybe" for --json: want true or false; see "redlock run --help"`,
		"run --nodes a;b --no-wait x ls": `separate the nodes by commas, not by ";"`,
		"status --nodes a --to b;c x":    `separate the nodes by commas, not by ";"`,
		"run --nodes \"a,b\" x ls":       quoted,
		"status --nodes a --to 'b,c' x":  quoted,
		"exit":                           `no verb "exit"; "redlock --help" lists them`,
		"--ashes":                        `no flag --ashes; see "redlock --help"`,
		"completion":                     `want one shell: bash, zsh, fish or pwsh; see "redlock completion --help"`,
		"completion tcsh":                `want one shell: bash, zsh, fish or pwsh; see "redlock completion --help"`,
		"completion --bash":              `no flag --bash; see "redlock completion --help"`,
		"completion bash zsh":            `completion takes one argument, got "zsh" as well`,
		"completion zsh -x":              `no flag -x; see "redlock completion zsh --help"`,
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

func TestHasSemicolon(t *testing.T) {
	for node, want := range map[string]bool{
		"a": false, "a;b": true, "redis://a;b:6380": true, "redis://u:p@a;redis://u:p@b": true, "redis://u:p;w@a;b": true,
		"redis://u:p;w@a": false, "unix:///run/a;b.sock": false, "a;": true,
	} {
		if got := hasSemicolon(node); got != want {
			t.Errorf("%s: got %v, want %v", node, got, want)
		}
	}
}
