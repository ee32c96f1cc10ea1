package main

import (
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/urfave/cli/v3"
)

func TestHelp(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"", []string{"demo", "run", "--version"}},
		{"--help", []string{"demo", "run", "--version"}},
		{"help", []string{"demo", "run", "--version"}},
		{"help run", []string{"redlock run [flags]", "EXIT CODES"}},
		{"demo --help", []string{"flash sale", "EXIT CODES"}},
		{"help nodes", []string{
			"--nodes", "--to", "--config", "--ttl", "--prefix", "--max-ttl", "--node-timeout", "--no-restart-guard",
			"--no-node-info", "--allow-eviction",
			"--server-name", "REDLOCK_NODES", "REDLOCK_ALLOW_EVICTION", "redlock VERB [flags]",
		}},
		{"help completion", []string{"redlock completion bash|zsh|fish|pwsh", "completion fish >", "bash-completion"}},
		{"run --help", []string{
			"--wait", "--no-wait", "--term-before", "--nodes, --ttl", `"redlock help nodes"`,
			"REDLOCK_NODES", "REDLOCK_NAME", "REDLOCK_OWNER", "REDLOCK_TOKEN", "EXAMPLES",
			"64", "69", "70", "75", "79", "126", "127",
		}},
		{"once --help", []string{
			"--done-ttl", "--max-runs", "--done-code", "--taken-code", "--wait", "--term-before", "EXAMPLES",
			"64", "69", "75", "79", "80",
		}},
		{"status --help", []string{"--json", "EXIT CODES", "69"}},
		{"unlock --help", []string{"than DURATION\n"}}, // and no default
		{"--version", []string{"redlock version "}},
	} {
		code, out, said := redlocks(t, strings.Fields(c.args)...)
		if code != exitOK || said != "" {
			t.Errorf("redlock %s: got %d, %q", c.args, code, said)
		}
		for _, want := range c.want {
			if !strings.Contains(out, want) {
				t.Errorf("redlock %s does not mention %q", c.args, want)
			}
		}
	}
}

// A verb's own flags come before all else that is said of it, and no flag that others share is among them. Help is read
// on terminals of 80 columns.
func TestHelpOfEachVerb(t *testing.T) {
	for _, verb := range append(newApp(io.Discard, io.Discard).Commands, &cli.Command{}) {
		_, out, _ := redlocks(t, append(strings.Fields(verb.Name), "--help")...)
		head, _, _ := strings.Cut(out, "\nDESCRIPTION:\n")
		for _, flag := range verb.Flags {
			shared := verb.Name != nodesTopic && flag.(cli.CategorizableFlag).GetCategory() == nodesTopic
			if name := "\n   --" + flag.Names()[0] + " "; shared == strings.Contains(head, name) {
				t.Errorf("redlock %s --help: %s is not where it belongs", verb.Name, name)
			}
		}
		for line := range strings.Lines(out) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > helpWidth {
				t.Errorf("redlock %s --help has a line of %d columns: %s", verb.Name, n, line)
			}
		}
	}
}

// A shell asks with what has been typed so far, and gets a word on each line, with a colon before what it means.
func TestCompletion(t *testing.T) {
	for typed, want := range map[string][]string{
		"":                {"demo", "run", "once", "wait", "ls", "status", "watch", "top", "doctor", "unlock", "forget"},
		"run --no":        {"--nodes", "--node-timeout", "--no-wait", "--no-node-info"},
		"once --max":      {"--max-runs"},
		"top --o":         {"--once"},
		"doctor --js":     {"--json"},
		"status --allow":  {"--allow-eviction"},
		"completion":      {"bash", "zsh", "fish", "pwsh"},
		"help":            {"run", "status", "doctor"},
		"help un":         {"unlock"},
		"run name --w":    nil, // a flag there would be wrong usage
		"once name --":    nil,
		"run name cat":    nil, // the shell's own business
		"run name -- cat": nil,

		"run --nodes a --w":          {"--wait"},
		"run --nodes a name cat --n": nil,
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
