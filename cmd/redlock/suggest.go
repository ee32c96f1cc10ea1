package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"
)

// suggestion says which flag or verb may have been meant, or nothing. The library knows the nearest, which may be far.
func suggestion(typed, nearest string) string {
	a, b := strings.Trim(typed, "-"), strings.Trim(nearest, "-")
	near := slipped(a, b) ||
		min(len(a), len(b)) > 2 && len(a) > 3 && (strings.Contains(b, a) || strings.Contains(a, b))
	if a == "" || b == "" || !near {
		return ""
	}
	return didYouMean(nearest)
}

// otherWords are what some call a verb.
var otherWords = map[string]string{
	"lock": "run", "flock": "run", "exec": "run", "acquire": "run", "elect": "run", "release": "unlock", "list": "ls",
}

// formerly is what to write in place of flags that are gone.
var formerly = map[string]string{
	"restart-guard": "--max-ttl", "fence-retention": "--max-ttl", "kill-after": "--term-before",
}

func noVerb(app *cli.Command, typed string) error {
	near := suggestion(typed, cli.SuggestCommand(app.VisibleCommands(), typed))
	if verb, ok := otherWords[typed]; ok {
		near = didYouMean(verb)
	}
	return usagef(`no verb %q%s; "redlock --help" lists them`, typed, near)
}

// misused says in plain words, and with a suggestion, what the flags' parser has to complain about.
func misused(_ context.Context, cmd *cli.Command, err error, _ bool) error {
	text := err.Error()
	if name, unknown := strings.CutPrefix(text, "flag provided but not defined: -"); unknown {
		text = noFlag(cmd, name)
	} else if value, rest, wrong := strings.Cut(text, " for flag -"); wrong {
		name, _, _ := strings.Cut(rest, ": ")
		text = fmt.Sprintf("%s for --%s: want %s", value, name, wanted(flagOf(cmd, name)))
		if number, _ := strconv.Unquote(strings.TrimPrefix(value, "invalid value ")); strings.Contains(rest, "missing unit") {
			text += didYouMean(number + "s")
		}
	}
	return usagef(`%s; see "%s --help"`, text, cmd.FullName())
}

func noFlag(cmd *cli.Command, name string) string {
	if name, _, _ = strings.Cut(name, "="); cmd.Root() == cmd {
		for _, verb := range cmd.VisibleCommands() {
			if flagOf(verb, name) != nil {
				return fmt.Sprintf("--%s stands behind the verb: redlock VERB --%s", name, name)
			}
		}
	}
	if now, gone := formerly[name]; gone {
		return "no flag --" + name + didYouMean(now)
	}
	if len(name) > 1 {
		return "no flag --" + name + suggestion(name, cli.SuggestFlag(cmd.Flags, name, false))
	}
	text := "no flag -" + name
	for _, flag := range cmd.Flags { // the verb's own come first: flock's -n is --no-wait, and not --nodes
		if long := flag.Names()[0]; strings.HasPrefix(long, name) {
			return text + didYouMean("--"+long)
		}
	}
	return text
}

// flagOf is nil if the verb has no such flag.
func flagOf(cmd *cli.Command, name string) cli.Flag {
	for _, flag := range cmd.Flags {
		if flag.Names()[0] == name {
			return flag
		}
	}
	return nil
}

// slipped reports whether b may have been typed as a: one slip, or two in a long word.
func slipped(a, b string) bool {
	n := slips(a, b)
	return n == 1 && len(b) > 2 || n == 2 && len(b) > 5
}

func didYouMean(this string) string { return " (did you mean " + this + "?)" }

// slips counts the letters that must be added, left out, replaced or swapped with the next to make b of a.
func slips(a, b string) int {
	least := make([][]int, len(a)+1) // for the first letters of both
	for i := range least {
		least[i] = make([]int, len(b)+1)
		for j := range least[i] {
			switch {
			case i == 0 || j == 0:
				least[i][j] = i + j
			case a[i-1] == b[j-1]:
				least[i][j] = least[i-1][j-1]
			default:
				least[i][j] = 1 + min(least[i-1][j-1], least[i-1][j], least[i][j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					least[i][j] = min(least[i][j], 1+least[i-2][j-2])
				}
			}
		}
	}
	return least[len(a)][len(b)]
}
