package main

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock/internal/cases"
)

// settledValue runs a verb's settling alone, and returns what a flag came to.
func settledValue[T any](t *testing.T, get func(*cli.Command) T, args ...string) (T, error) {
	t.Helper()
	var value T
	app := newApp(io.Discard, io.Discard)
	for _, verb := range app.Commands {
		verb.Action = settled(func(_ context.Context, cmd *cli.Command) error {
			value = get(cmd)
			return nil
		})
	}
	err := app.Run(t.Context(), append([]string{"redlock"}, args...))
	return value, err
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "settings")
	cases.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

// Each way goes before the next: flag, environment, file, default.
func TestSettingsPrecedence(t *testing.T) {
	file := writeFile(t, "REDLOCK_NODE_TIMEOUT=3s\nREDLOCK_MAX_RUNS=7\nREDLOCK_NODES='a b'\n")
	for _, c := range []struct {
		name  string
		env   string // of the node timeout
		flags []string
		want  time.Duration
	}{
		{"flag", "2s", []string{"--config", file, "--node-timeout", "1s"}, time.Second},
		{"environment", "2s", []string{"--config", file}, 2 * time.Second},
		{"empty environment", "", []string{"--config", file}, 3 * time.Second},
		{"environment alone", "2s", nil, 2 * time.Second},
		{"default", "", nil, 0}, // the library's
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("REDLOCK_NODE_TIMEOUT", c.env)
			for _, verb := range []string{"run", "once", "status", "doctor", "top"} {
				nodeTimeout := func(cmd *cli.Command) time.Duration { return cmd.Duration("node-timeout") }
				got, err := settledValue(t, nodeTimeout, append([]string{verb}, c.flags...)...)
				if err != nil || got != c.want {
					t.Errorf("%s: got %s, %v, want %s", verb, got, err, c.want)
				}
			}
		})
	}
	t.Setenv("REDLOCK_CONFIG", file)
	maxRuns := func(cmd *cli.Command) int { return cmd.Int("max-runs") }
	nodes := func(cmd *cli.Command) string { return cmd.String("nodes") }
	if got, err := settledValue(t, maxRuns, "once"); err != nil || got != 7 {
		t.Errorf("the file that REDLOCK_CONFIG names: got %d, %v, want 7", got, err)
	}
	if got, err := settledValue(t, nodes, "status"); err != nil || got != "a b" {
		t.Errorf("in quotes: got %q, %v", got, err)
	}
	other := writeFile(t, "REDLOCK_MAX_RUNS=8")
	if got, err := settledValue(t, maxRuns, "once", "--config", other); err != nil || got != 8 {
		t.Errorf("--config goes before REDLOCK_CONFIG: got %d, %v, want 8", got, err)
	}
}

// What the command line says about waiting stands, whatever the settings say.
func TestNoWaitGoesBeforeTheSettings(t *testing.T) {
	t.Setenv("REDLOCK_WAIT", "5s")
	isSet := func(cmd *cli.Command) bool { return cmd.IsSet("wait") }
	if set, err := settledValue(t, isSet, "run", "--no-wait", "name", "true"); set || err != nil {
		t.Errorf("with --no-wait: got %v, %v", set, err)
	}
	if set, err := settledValue(t, isSet, "run", "name", "true"); !set || err != nil {
		t.Errorf("without: got %v, %v", set, err)
	}
}

// What makes concessions to a fleet is a setting, too, and a flag can take it back.
func TestConcessionsAreSettings(t *testing.T) {
	for _, flag := range concessions {
		file := writeFile(t, settingOf(flag)+"=true")
		for _, c := range []struct {
			env  string
			args []string
			want bool
		}{
			{"", nil, false},
			{"", []string{"--" + flag}, true},
			{"", []string{"--config", file}, true},
			{"1", nil, true},
			{"false", []string{"--config", file}, false},
			{"true", []string{"--" + flag + "=false"}, false},
		} {
			t.Setenv(settingOf(flag), c.env)
			isSet := func(cmd *cli.Command) bool { return cmd.Bool(flag) }
			got, err := settledValue(t, isSet, append([]string{"status"}, c.args...)...)
			if err != nil || got != c.want {
				t.Errorf("%s=%s, %q: got %v, %v, want %v", settingOf(flag), c.env, c.args, got, err, c.want)
			}
		}
	}
}

func TestParseConfig(t *testing.T) {
	known := map[string]bool{"REDLOCK_NODES": true, "REDLOCK_TTL": true, "REDLOCK_PREFIX": true}
	got, err := parseConfig("# comment\n\n REDLOCK_NODES = redis://u:p=q@a,b \r\n"+
		"REDLOCK_TTL=\"20s\"\nREDLOCK_PREFIX='a b'", known, nil)
	want := map[string]string{"REDLOCK_NODES": "redis://u:p=q@a,b", "REDLOCK_TTL": "20s", "REDLOCK_PREFIX": "a b"}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	flags := map[string]string{"REDLOCK_NO_WAIT": "--no-wait"}
	for text, want := range map[string]string{
		"REDLOCK_NODES":                             "line 1: want SETTING=VALUE",
		"\nredis://u:s3cret@h":                      "line 2: want SETTING=VALUE",
		"redis://u:s3cret@h?a=b":                    "line 1: want SETTING=VALUE",
		"REDLOCK_NODE=redis://u:s3cret@h":           "line 1: there is no setting REDLOCK_NODE (did you mean REDLOCK_NODES?)",
		"REDLOCK_NO_WAIT=true":                      "line 1: there is no setting REDLOCK_NO_WAIT (did you mean --no-wait?)",
		"REDLOCK_TTL=1s\nREDLOCK_TTL=2s":            "line 2: REDLOCK_TTL for the second time",
		"PATH=/bin":                                 "line 1: there is no setting PATH",
		"=s3cret":                                   "line 1: there is no setting ",
		"export REDLOCK_NODES=redis://u:s3cret@h/0": "line 1: want SETTING=VALUE",
	} {
		if _, err := parseConfig(text, known, flags); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// Wrong settings are wrong usage, and what is said has no value in it: that may be a password in the wrong place.
func TestWrongSettings(t *testing.T) {
	const secret = "redis://u:s3cret@h"
	for name, c := range map[string]struct {
		key, value string
		want       string
	}{
		"duration":         {"REDLOCK_TTL", secret, "REDLOCK_TTL: want a duration"},
		"number":           {"REDLOCK_MAX_RUNS", secret, "REDLOCK_MAX_RUNS: want a whole number"},
		"switch":           {"REDLOCK_ALLOW_EVICTION", secret, "REDLOCK_ALLOW_EVICTION: want true or false"},
		"no file":          {"REDLOCK_CONFIG", "/no/such/file", "/no/such/file: no such file"},
		"unknown":          {"REDLOCK_CONFIG", writeFile(t, "REDLOCK_NODE="+secret), "1: there is no setting REDLOCK_NODE"},
		"duration in file": {"REDLOCK_CONFIG", writeFile(t, "REDLOCK_TTL="+secret), "REDLOCK_TTL: want a duration"},
		"range":            {"REDLOCK_TERM_BEFORE", "-1s", "--term-before -1s is negative"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(c.key, c.value)
			code, _, said := redlocks(t, "once", "--nodes", secret, "name", "true")
			if code != exitUsage || !strings.Contains(said, c.want) || strings.Contains(said, "s3cret") ||
				strings.Count(said, "\n") != 1 {
				t.Errorf("got %d, %q, want 64 and %q", code, said, c.want)
			}
		})
	}
}

// A variable that is nearly a setting is warned of, by every verb that reads settings, and its value is not shown. What
// redlock sets for commands, and what is near no setting, is none of that.
func TestMisspeltSettings(t *testing.T) {
	app := newApp(io.Discard, io.Discard)
	known, flags := knownSettings(app), unsettable(app)
	for typed, want := range map[string]string{
		"REDLOCK_WIAT": "REDLOCK_WAIT", "REDLOCK_NODE": "REDLOCK_NODES", "REDLOCK_NODETIMEOUT": "REDLOCK_NODE_TIMEOUT",
		"REDLOCK_TTLS": "REDLOCK_TTL", "REDLOCK_MAX_TLT": "REDLOCK_MAX_TTL", "REDLOCK_LABLE": "REDLOCK_LABEL",
		"REDLOCK_CONFG": "REDLOCK_CONFIG", "REDLOCK_NAME": "", "REDLOCK_OWNER": "", "REDLOCK_TOKEN": "", "REDLOCK_CONFIG": "",
		"REDLOCK_NODES": "", "REDLOCK_PORT": "", "REDLOCK_SERVICE_HOST": "", "REDLOCK_PORT_6379_TCP": "",
		"REDLOCK_NO_WAIT": "--no-wait", "REDLOCK_NOWAIT": "--no-wait", "REDLOCK_QUIET": "--quiet", "REDLOCK_YES": "--yes",
		"REDLOCK_OLDER_THAN": "--older-than", "REDLOCK_AGAIN": "--again",
		"REDLOCK_RESTART_GUARD": "REDLOCK_MAX_TTL", "REDLOCK_KILL_AFTER": "REDLOCK_TERM_BEFORE",
		"REDLOCK_FOO": "", "REDLOCK_DB": "", "REDLOCK_PROVIDER": "", "MY_REDLOCK_WIAT": "", "REDLOCK_": "",
	} {
		got := strings.Join(misspelt([]string{"A", typed + "=s3cret"}, known, flags), "\n")
		if want != "" {
			want = typed + " is no setting and has no effect (did you mean " + want + "?)"
		}
		cases.Equals(t, got, want, "%s", typed)
	}
	cases.Equals(t, len(misspelt([]string{"REDLOCK_WIAT="}, known, flags)), 0, "warnings of an empty one")
	t.Setenv("REDLOCK_WIAT", "s3cret")
	for _, verb := range app.VisibleCommands() {
		name := verb.Name
		if name == "demo" || name == "version" || name == "completion" || name == nodesTopic {
			continue
		}
		for _, json := range []bool{false, true} {
			args, want := []string{name}, "redlock: REDLOCK_WIAT is no setting and has no effect ("
			if json {
				args, want = append(args, "--json"), `{"warning":"REDLOCK_WIAT is no setting and has no effect (`
			}
			_, out, said := redlocks(t, args...) // there are no nodes
			if !strings.HasPrefix(said, want) || strings.Contains(said, "s3cret") || out != "" {
				t.Errorf("%q: got %q and %q, want %q", args, out, said, want)
			}
		}
	}
}

// The page lists every setting that there is.
func TestSettingsAreDocumented(t *testing.T) {
	page := cases.Must(os.ReadFile("../../docs/cli.md"))(t)
	for _, verb := range newApp(io.Discard, io.Discard).Commands {
		for _, flag := range verb.Flags {
			name := flag.Names()[0]
			if !strings.Contains(string(page), "`--"+name) {
				t.Errorf("docs/cli.md does not mention --%s of redlock %s", name, verb.Name)
			}
			if settable(flag) && !strings.Contains(string(page), "`"+settingOf(name)+"`") {
				t.Errorf("docs/cli.md does not list %s", settingOf(name))
			}
		}
	}
}

// The example of a file can be used as it stands, and so can each setting in it that is commented out.
func TestSettingsExample(t *testing.T) {
	text := cases.Must(os.ReadFile("../../docs/deploy/redlock.conf"))(t)
	for _, example := range []string{string(text), strings.ReplaceAll(string(text), "\n#REDLOCK_", "\nREDLOCK_")} {
		nodes := func(cmd *cli.Command) []string { return strings.Fields(cmd.String("nodes")) }
		for _, verb := range []string{"once", "status"} {
			got, err := settledValue(t, nodes, verb, "--config", writeFile(t, example))
			if err != nil || len(got) != 5 {
				t.Errorf("%s: got %q, %v, want five nodes", verb, got, err)
			}
		}
	}
}
