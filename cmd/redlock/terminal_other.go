//go:build !unix

package main

import "os"

// Not every console elsewhere understands escape sequences: plain lines are always readable.
func isTerminal(*os.File) bool { return false }

func columns(*os.File) int { return 80 }
