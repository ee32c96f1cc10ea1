//go:build !unix

package terminal

import "os"

func catchStop(chan<- os.Signal) {}

// Suspend does nothing where no shell stops and continues jobs.
func Suspend() bool { return false }
