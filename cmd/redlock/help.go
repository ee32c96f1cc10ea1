package main

import (
	"context"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

// Help is written for terminals of 80 columns: descriptions are, by hand, and flags are broken here.
const (
	helpWidth = 80
	flagWidth = 31 // of "   --password-command COMMAND  ", the widest
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
   for --node-timeout; and for three without: REDLOCK_NO_RESTART_GUARD=true,
   REDLOCK_NO_NODE_INFO=true and REDLOCK_ALLOW_EVICTION=true. So can a file
   of lines such as REDLOCK_TTL=20s, which --config or REDLOCK_CONFIG names.
   Flags go before the environment, and that before the file. Keep passwords
   out of flags: others see those.`),
		Flags:  withNodes(),
		Action: func(_ context.Context, cmd *cli.Command) error { return noVerb(cmd.Root(), cmd.Name) },
	}
}

func init() {
	describe := cli.FlagStringer
	cli.FlagStringer = func(flag cli.Flag) string { // the library would break lines before it aligns what is behind tabs
		head, usage, _ := strings.Cut(describe(flag), "\t")
		return head + "\t" + strings.Join(terminal.Wrap(strings.Fields(usage), helpWidth-flagWidth), "\n   \t")
	}
	cli.CommandHelpTemplate, cli.SubcommandHelpTemplate = helpTemplate, helpTemplate
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
	cmd.Hidden, cmd.Usage = false, "print a script with which a shell completes flags"
	cmd.UsageText = "redlock completion bash|zsh|fish|pwsh"
	cmd.Description = "bash needs the package bash-completion.\n" + cmd.Description
	cmd.Action = func(context.Context, *cli.Command) error {
		return usagef(`want one shell: bash, zsh, fish or pwsh; see "redlock completion --help"`)
	}
	for _, cmd := range append(cmd.Commands, cmd) {
		cmd.OnUsageError = misused
	}
}
