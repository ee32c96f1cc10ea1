//go:build !unix

package terminal

import (
	"context"
	"os"
)

func catchStop(_, _ chan<- os.Signal) {}

// Suspend does nothing where no shell stops and continues jobs.
func Suspend() {}

func suspend(context.Context, <-chan os.Signal) bool { return false }

func awaitForeground(context.Context, <-chan os.Signal, *os.File) {}
