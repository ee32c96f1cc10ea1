package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/urfave/cli/v3"
)

func versionVerb() *cli.Command {
	return &cli.Command{
		Name:      "version",
		Usage:     "print the version, and how this program was built",
		UsageText: "redlock version [--json]",
		Flags:     []cli.Flag{jsonFlag("print one JSON object")},
		Action: func(_ context.Context, cmd *cli.Command) error {
			if cmd.Args().Present() {
				return asJSON(cmd, usagef("version takes no arguments, got %q", cmd.Args().First()))
			}
			b := thisBuild()
			return show(cmd, b, said(b.String()))
		},
	}
}

// build is what the go command recorded when it built this program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the revision is not all
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

func thisBuild() build {
	b := build{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String says the revision where the version, that of a tag, does not.
func (b build) String() string {
	text := "redlock version " + b.Version
	if short := b.Revision[:min(12, len(b.Revision))]; !strings.Contains(b.Version, short) {
		text += ", revision " + short
	}
	return fmt.Sprintf("%s, %s, %s/%s", text, b.Go, b.OS, b.Arch)
}
