package main

import (
	"strings"

	"github.com/urfave/cli/v3"
)

// suggestion says which flag or verb may have been meant, or nothing. The library knows the nearest, which may be far.
func suggestion(typed, nearest string) string {
	a, b := strings.Trim(typed, "-"), strings.Trim(nearest, "-")
	near := distance(a, b) <= 2 || len(a) > 3 && (strings.Contains(b, a) || strings.Contains(a, b))
	if a == "" || b == "" || !near {
		return ""
	}
	return " (did you mean " + nearest + "?)"
}

// meant completes the parser's complaint about a flag that does not exist.
func meant(cmd *cli.Command, complaint string) string {
	_, flag, unknown := strings.Cut(complaint, "no flag --")
	if !unknown {
		return ""
	}
	flag, _, _ = strings.Cut(flag, "=")
	return suggestion(flag, cli.SuggestFlag(cmd.Flags, flag, false))
}

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
