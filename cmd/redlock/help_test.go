package main

import (
	"bytes"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Help is read on terminals of 80 columns.
func TestHelpIsNarrow(t *testing.T) {
	for _, verb := range []string{"", "demo", "run", "once", "status", "top", "doctor", "version", "completion"} {
		var out bytes.Buffer
		run(t.Context(), append([]string{"redlock"}, append(strings.Fields(verb), "--help")...), &out, &out)
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("redlock %s --help has a line of %d columns: %s", verb, n, line)
			}
		}
	}
}

// A shell asks with what has been typed so far, and gets a word on each line, with a colon before what it means.
func TestCompletion(t *testing.T) {
	for typed, want := range map[string][]string{
		"":                {"demo", "run", "once", "status", "top", "doctor", "version", "completion"},
		"run --no":        {"--nodes", "--node-timeout", "--no-wait"},
		"once --max":      {"--max-runs"},
		"top --o":         {"--once"},
		"doctor --js":     {"--json"},
		"status --allow":  {"--allow-eviction"},
		"run --without":   {"--without-node-info"},
		"completion":      {"bash", "zsh", "fish", "pwsh"},
		"run name cat":    nil, // the shell's own business
		"run name -- cat": nil,
	} {
		out, err := exec.Command(binary, append(strings.Fields(typed), "--generate-shell-completion")...).Output()
		if err != nil {
			t.Errorf("%q: %v", typed, err)
		}
		var got []string
		for line := range strings.Lines(string(out)) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), ":")
			got = append(got, word)
		}
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%q: got %q, want %q among them", typed, got, w)
			}
		}
		if want == nil && got != nil {
			t.Errorf("%q: got %q, want nothing", typed, got)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "pwsh"} {
		out, err := exec.Command(binary, "completion", shell).Output()
		if err != nil || !strings.Contains(string(out), "generate-shell-completion") && shell != "fish" || len(out) == 0 {
			t.Errorf("the script for %s: %v, %d bytes", shell, err, len(out))
		}
	}
}

func TestFold(t *testing.T) {
	for width, want := range map[int]string{
		3: "a|bb|ccc|dddd", 4: "a bb|ccc|dddd", 8: "a bb ccc|dddd", 100: "a bb ccc dddd",
	} {
		if got := strings.Join(fold(strings.Fields("a bb ccc dddd"), width), "|"); got != want {
			t.Errorf("width %d: got %q, want %q", width, got, want)
		}
	}
}
