package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

// Help is written for terminals of 80 columns: descriptions are, by hand, and flags are broken here.
const (
	helpWidth = 80
	flagWidth = 31 // of "   --fence-retention DURATION  ", the widest
)

// settingsHelp is what every verb's help says that has settings.
const settingsHelp = `

SETTINGS
   The environment can stand in for a flag with a value: REDLOCK_NODE_TIMEOUT
   for --node-timeout; and for two without: REDLOCK_NO_NODE_INFO=true
   and REDLOCK_ALLOW_EVICTION=true. So can a file of lines such as
   REDLOCK_TTL=20s, which --config or REDLOCK_CONFIG names. Flags go before
   the environment, and that before the file. Keep passwords out of flags:
   others see those.`

func init() { cli.FlagStringer = describeFlag }

// describeFlag is a flag's name and argument, a tab, and what it is for. The library aligns what stands behind tabs.
func describeFlag(flag cli.Flag) string {
	names := flag.Names()
	head := "--" + names[0]
	for _, short := range names[1:] {
		head += ", -" + short
	}
	doc, ok := flag.(cli.DocGenerationFlag)
	if !ok {
		return head
	}
	// The word in back quotes stands for the flag's argument.
	usage := doc.GetUsage()
	if before, rest, found := strings.Cut(usage, "`"); found {
		word, after, _ := strings.Cut(rest, "`")
		usage = before + word + after
		head += " " + word
	}
	value := doc.GetDefaultText()
	if value == "" && doc.TakesValue() {
		value = doc.GetValue()
	}
	words := strings.Fields(usage)
	if value != "" && value != `""` {
		words = append(words, fmt.Sprintf("(default: %s)", value)) // kept together
	}
	return head + "\t" + strings.Join(terminal.Wrap(words, helpWidth-flagWidth), "\n   \t")
}

// helpAsFlag returns "redlock help" and "redlock help VERB" as people mean them, and other arguments as they are. A
// verb "help" of the library's would take the place of a lock of that name: redlock run help -- ….
func helpAsFlag(args []string) []string {
	if len(args) < 2 || args[1] != "help" {
		return args
	}
	return slices.Concat(args[:1], args[2:], []string{"--help"})
}

// inPlainWords says what the flags' parser has to complain about.
var inPlainWords = strings.NewReplacer(
	"flag provided but not defined: -", "no flag --",
	" for flag -", " for --",
	": time: invalid duration", ": invalid duration",
)

// showCompletion has the help list the verb that prints scripts for shells.
func showCompletion(cmd *cli.Command) {
	cmd.Hidden = false
	cmd.Usage = "print a script with which a shell completes flags"
	cmd.UsageText = "redlock completion bash|zsh|fish|pwsh"
}
