package main

import (
	"context"
	"fmt"
	"slices"
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
	"lock": "run", "flock": "run", "exec": "run", "acquire": "run", "release": "unlock", "list": "ls",
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

// slipped reports whether b may have been typed as a: a letter is wrong, too many or missing, two have changed places,
// or two of many are wrong.
func slipped(a, b string) bool {
	switch distance(a, b) {
	case 1:
		return len(b) > 2
	case 2:
		return len(b) > 5 || sameLetters(a, b)
	default:
		return false
	}
}

// sameLetters reports whether a and b are the same but for the order.
func sameLetters(a, b string) bool {
	sorted := func(s string) []rune { return slices.Sorted(slices.Values([]rune(s))) }
	return slices.Equal(sorted(a), sorted(b))
}

func didYouMean(this string) string { return " (did you mean " + this + "?)" }

// distance is how many letters must be added, left out or replaced to make b of a (Levenshtein).
func distance(a, b string) int {
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		diagonal := last[0]
		last[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = last[j+1]
			last[j+1] = min(cost, last[j]+1, last[j+1]+1)
		}
	}
	return last[len(b)]
}
