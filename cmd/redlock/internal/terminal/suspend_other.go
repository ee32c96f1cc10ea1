//go:build !unix

package terminal

import (
	"context"
	"os"
)

func catchStop(chan<- os.Signal) {}

// Suspend does nothing where no shell stops and continues jobs.
func Suspend() bool { return false }

func awaitForeground(context.Context, *os.File) {}
