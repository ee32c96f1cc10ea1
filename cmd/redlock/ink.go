package main

import (
	"io"
	"os"
)

// ink is whether to write in colour: on a terminal, unless NO_COLOR is set (no-color.org).
type ink bool

func inkOn(out io.Writer) ink { return ink(redraws(out) && os.Getenv("NO_COLOR") == "") }

// redraws says whether what is written can be taken back: on a terminal that understands escape sequences.
func redraws(out io.Writer) bool { return os.Getenv("TERM") != "dumb" && onTerminal(out) }

func onTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && isTerminal(f)
}

// The few colours that there are.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (i ink) paint(colour, text string) string {
	if !i || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Marks in front of what happened.
const (
	good    = "✓"
	bad     = "✗"
	up      = "●"
	down    = "○"
	neutral = "·"
)

func (i ink) mark(m string) string {
	switch m {
	case good, up:
		return i.paint(green, m)
	case bad, down:
		return i.paint(red, m)
	}
	return i.paint(dim, m)
}
