// Command redlock uses locks on a majority of Redis masters from the shell. "redlock demo" shows what they
// do, "redlock run" holds one while a command runs. docs/cli.md describes it in full.
//
// Each verb has a file of its name. All share flags.go, settings.go, credentials.go, tls.go, exit.go and json.go; run,
// once and wait share waiting.go; run and once share command*.go, troubles.go and process_*.go; doctor, top, status,
// ls, watch and unlock share columns.go; demo, top and watch share signals.go.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/quorumlock/redlock/cmd/redlock/internal/terminal"
)

func main() {
	os.Exit(int(run(context.Background(), os.Args, os.Stdout, os.Stderr)))
}

// run is main with its surroundings as arguments.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) exitCode {
	said := terminal.NewAside(stderr)
	err := newApp(stdout, said).Run(ctx, helpAsFlag(args))
	text := complaint(err)
	if terminal.Is(stderr) {
		text = unfolded(err)
	}
	if text != "" {
		fmt.Fprintf(said, "redlock: %s\n", text)
	}
	said.Close(2 * time.Second)
	var f *failure
	if errors.As(err, &f) && f.last != nil {
		f.last()
	}
	return codeOf(err)
}

// newApp assembles the verbs.
func newApp(stdout, stderr io.Writer) *cli.Command {
	one := 1
	app := &cli.Command{
		Name:    "redlock",
		Usage:   "distributed locks on a majority of independent Redis masters",
		Version: thisBuild().Version,
		Description: strings.TrimSpace(`
Start with "redlock demo": it needs nothing installed and takes ten seconds.
"redlock VERB --help" describes a verb, its exit codes and examples;
"redlock help nodes" the flags that verbs share, and settings.`),
		Commands: []*cli.Command{
			demoVerb(), runVerb(), onceVerb(), waitVerb(), lsVerb(), statusVerb(), watchVerb(), topVerb(), doctorVerb(),
			unlockVerb(), forgetVerb(), versionVerb(), nodesHelp(),
		},
		StopOnNthArg: &one, // what follows a verb that does not exist are not our flags
		Action: func(_ context.Context, cmd *cli.Command) error {
			if verb := cmd.Args().First(); verb != "" {
				return noVerb(cmd, verb)
			}
			return cli.ShowRootCommandHelp(cmd)
		},
		// Without this, "redlock run help -- …" would show help instead of locking the name "help".
		HideHelpCommand: true,
		// "redlock completion bash" and the like print a script that has the shell ask us what may come next.
		EnableShellCompletion:           true,
		ConfigureShellCompletionCommand: likeOurs,
		Writer:                          stdout,
		ErrWriter:                       stderr,
		// Errors are printed and turned into exit codes in one place: run.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
	}
	for _, cmd := range append(app.Commands, app) {
		cmd.OnUsageError = misused
	}
	return app
}
