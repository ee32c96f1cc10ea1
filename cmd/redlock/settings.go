package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"
)

// A setting is a flag with a value, a concession or --pass-nodes, given for a whole machine or fleet: by the
// environment, or by a file. One rule names them all: --node-timeout is REDLOCK_NODE_TIMEOUT.
//
// The flags' own Sources could do this in part. But they print a value that they cannot read, which may be a URL with
// its password, and their errors cannot be told from those of what redlock does.

// configFlag names the file of settings.
const configFlag = "config"

func settingOf(flag string) string {
	return "REDLOCK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// settable says whether a flag may be given as a setting. Others without a value, and --older-than, are about one call.
func settable(flag cli.Flag) bool {
	name := flag.Names()[0]
	doc, ok := flag.(cli.DocGenerationFlag)
	return name == passNodes || slices.Contains(concessions, name) ||
		ok && doc.TakesValue() && name != configFlag && name != olderThan
}

// settled runs a verb when its flags are settled: the command line goes before the environment, that before the file,
// and that before the default. An empty setting counts as none.
func settled(verb cli.ActionFunc) cli.ActionFunc {
	return func(ctx context.Context, cmd *cli.Command) error {
		l := &logins{}
		defer l.end()
		cmd.Metadata[loginsKey] = l
		err := settle(cmd)
		if err == nil {
			err = verb(ctx, cmd)
		}
		return asJSON(cmd, err)
	}
}

func settle(cmd *cli.Command) error {
	known := knownSettings(cmd)
	for _, warning := range misspelt(os.Environ(), known, unsettable(cmd)) {
		warner(cmd)("%s", warning)
	}
	file, err := configOf(cmd, known)
	if err != nil {
		return err
	}
	for _, flag := range cmd.Flags {
		name := flag.Names()[0]
		if !settable(flag) || cmd.IsSet(name) || name == "wait" && cmd.Bool("no-wait") {
			continue // the command line goes first, and --no-wait says how long to wait
		}
		key := settingOf(name)
		value, from := os.Getenv(key), key
		if value == "" {
			value, from = file.values[key], fmt.Sprintf("%s: %s", file.name, key)
		}
		if value == "" {
			continue
		}
		if err := cmd.Set(name, value); err != nil { // which may cite the value
			return usagef("%s: want %s", from, wanted(flag))
		}
		if from != key && (name == "nodes" || name == "to") {
			l := loginsOf(cmd)
			l.file, l.flags = file.name, append(l.flags, name)
		}
	}
	return nil
}

func wanted(flag cli.Flag) string {
	switch flag.(type) {
	case *cli.DurationFlag:
		return "a duration, such as 500ms, 10s or 1h30m"
	case *cli.IntFlag:
		return "a whole number"
	case *cli.BoolFlag:
		return "true or false"
	}
	return "another value"
}

// config is what a file says.
type config struct {
	name   string
	values map[string]string
}

// configOf reads the file that the command line or the environment names; none is named by default.
func configOf(cmd *cli.Command, known map[string]bool) (config, error) {
	name := os.Getenv(settingOf(configFlag))
	if cmd.IsSet(configFlag) {
		name = cmd.String(configFlag)
	}
	if name == "" {
		return config{}, nil
	}
	text, err := readConfig(name)
	if err != nil {
		return config{}, usagef("settings: %v", err)
	}
	values, err := parseConfig(text, known, unsettable(cmd))
	if err != nil {
		return config{}, usagef("%s: %v", name, err)
	}
	return config{name, values}, nil
}

// readConfig reads a file of settings, unless somebody else may write it: they could have us run any command.
func readConfig(name string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat() // of what is read: a link may lead elsewhere meanwhile
	if err == nil {
		err = ownFile(name, info)
	}
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(file)
	return string(text), err
}

// knownSettings returns the settings of all verbs, which may be in one file.
func knownSettings(cmd *cli.Command) map[string]bool {
	known := make(map[string]bool)
	for _, verb := range cmd.Root().Commands {
		for _, flag := range verb.Flags {
			if settable(flag) {
				known[settingOf(flag.Names()[0])] = true
			}
		}
	}
	return known
}

// unsettable returns the flags of all verbs that are no settings, by what somebody may take for one.
func unsettable(cmd *cli.Command) map[string]string {
	flags := make(map[string]string)
	for old, now := range formerly {
		flags[settingOf(old)] = settingOf(strings.TrimPrefix(now, "--"))
	}
	for _, verb := range cmd.Root().VisibleCommands() {
		for _, flag := range verb.VisibleFlags() {
			if name := flag.Names()[0]; name != configFlag && !settable(flag) {
				flags[settingOf(name)] = "--" + name
				flags[settingOf(strings.ReplaceAll(name, "-", ""))] = "--" + name
			}
		}
	}
	return flags
}

// misspelt says which variables of the environment have no effect although they differ little from a setting. What is
// near none may be somebody else's: in a pod beside a service that is called redlock, Kubernetes sets REDLOCK_PORT.
func misspelt(environ []string, known map[string]bool, flags map[string]string) (warnings []string) {
	settings := append(slices.Sorted(maps.Keys(known)), settingOf(configFlag))
	used := append([]string{"REDLOCK_NAME", "REDLOCK_OWNER", "REDLOCK_TOKEN"}, settings...)
	for _, entry := range environ {
		key, value, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(key, settingOf("")) || value == "" || slices.Contains(used, key) {
			continue
		}
		if meant := meantBy(key, settings, flags); meant != "" {
			warnings = append(warnings, fmt.Sprintf("%s is no setting and has no effect%s", key, meant))
		}
	}
	return warnings
}

// meantBy suggests the setting that differs little from what was typed, or the flag that is none; or nothing.
func meantBy(typed string, settings []string, flags map[string]string) string {
	own := func(setting string) string { return strings.TrimPrefix(setting, settingOf("")) }
	if at := slices.IndexFunc(settings, func(setting string) bool { return slipped(own(typed), own(setting)) }); at >= 0 {
		return didYouMean(settings[at])
	}
	if flag, ok := flags[typed]; ok {
		return didYouMean(flag)
	}
	return ""
}

// parseConfig reads lines of the form KEY=VALUE, as systemd and Docker do. A key that is not known is an error, unless
// known is nil: a misspelt TTL would be the default's, and nobody would notice. No error cites a line: it may have a
// password in it.
func parseConfig(text string, known map[string]bool, flags map[string]string) (map[string]string, error) {
	values := make(map[string]string)
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		_, again := values[key]
		switch {
		case !ok || strings.ContainsFunc(key, notInKey):
			return nil, fmt.Errorf("line %d: want SETTING=VALUE", number)
		case known != nil && !known[key]:
			meant := meantBy(key, slices.Sorted(maps.Keys(known)), flags)
			return nil, fmt.Errorf("line %d: there is no setting %s%s", number, key, meant)
		case again:
			return nil, fmt.Errorf("line %d: %s for the second time", number, key)
		}
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		values[key] = value
	}
	return values, nil
}

func notInKey(r rune) bool {
	return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && (r < '0' || r > '9')
}
