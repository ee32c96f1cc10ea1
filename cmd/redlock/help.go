package main

import (
	"context"
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

// nodesTopic is what "redlock help nodes" is about: the flags that most verbs share. Their own help leaves them out, or
// it would be mostly that.
const nodesTopic = "nodes"

// A flag of another category than the verb's, which has none, belongs to a topic.
const helpTemplate = `NAME:
   {{if .Category}}redlock help {{.Name}} - {{.Usage}}{{else}}{{template "helpNameTemplate" .}}{{end}}

USAGE:
   {{template "usageTemplate" .}}

OPTIONS:{{$more := false}}{{range .VisibleFlags}}{{if ne .GetCategory $.Category}}{{$more = true}}{{else}}
   {{wrap .String 6}}{{end}}{{end}}{{if and $more (not .Category)}}

   For --nodes, --ttl, settings and the like see "redlock help nodes".{{end}}{{if .Description}}

DESCRIPTION:
   {{template "descriptionTemplate" .}}{{end}}
`

// nodesHelp is a verb that only has help.
func nodesHelp() *cli.Command {
	return &cli.Command{
		Name: nodesTopic, Category: nodesTopic, Hidden: true,
		Usage:     "the flags that verbs share, and settings",
		UsageText: "redlock VERB [flags] …",
		Description: strings.TrimSpace(`
All verbs have them but demo, version and completion, which ask no node.

SETTINGS
   The environment can stand in for a flag with a value: REDLOCK_NODE_TIMEOUT
   for --node-timeout; and for two without: REDLOCK_NO_NODE_INFO=true
   and REDLOCK_ALLOW_EVICTION=true. So can a file of lines such as
   REDLOCK_TTL=20s, which --config or REDLOCK_CONFIG names. Flags go before
   the environment, and that before the file. Keep passwords out of flags:
   others see those.`),
		Flags:  withNodes(),
		Action: func(_ context.Context, cmd *cli.Command) error { return noVerb(cmd.Root(), cmd.Name) },
	}
}

func init() {
	cli.FlagStringer = describeFlag
	cli.CommandHelpTemplate, cli.SubcommandHelpTemplate = helpTemplate, helpTemplate
}

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
	if args[len(args)-1] == completionFlag { // "redlock help r" is completed as "redlock r"
		return slices.Concat(args[:1], args[2:])
	}
	return slices.Concat(args[:1], args[2:], []string{"--help"})
}

// completionFlag is what shells add to a line that they want completed; the library's.
const completionFlag = "--generate-shell-completion"

// completesFlags completes the flags of a verb that runs a command, and nothing from the lock's name on: what follows
// is the command.
func completesFlags(ctx context.Context, cmd *cli.Command) {
	if cmd.Args().Len() < 2 {
		cli.DefaultCompleteWithFlags(ctx, cmd)
	}
}

// likeOurs makes a verb of the one that prints scripts for shells, which is the library's.
func likeOurs(cmd *cli.Command) {
	cmd.Hidden = false
	cmd.Usage = "print a script with which a shell completes flags"
	cmd.UsageText = "redlock completion bash|zsh|fish|pwsh"
	cmd.Description = strings.TrimSpace(`
In ~/.bashrc, with the package bash-completion; in ~/.zshrc, after compinit:
  source <(redlock completion bash)
  source <(redlock completion zsh)
Once, for fish; and for PowerShell, whose profile must then run the script:
  redlock completion fish > ~/.config/fish/completions/redlock.fish
  redlock completion pwsh > redlock.ps1

EXIT CODES
   0     printed
   64    wrong usage`)
	cmd.OnUsageError = misused
	cmd.Action = func(context.Context, *cli.Command) error {
		return usagef(`want one shell: bash, zsh, fish or pwsh; see "redlock completion --help"`)
	}
	for _, shell := range cmd.Commands {
		script := shell.Action
		shell.OnUsageError = misused
		shell.Action = func(ctx context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return usagef("completion takes one argument, got %q as well", cmd.Args().First())
			}
			return script(ctx, cmd)
		}
	}
}
