// Package terminal draws: in colour, in tables, in sentences that end at the edge, and in lines that change in place.
//
// It knows how wide a terminal is, how to take back what was written, how to read keys, and how to give the terminal to
// the shell that asks for it; and what to leave out where there is no terminal. It must not know what is drawn: no
// locks, no nodes and no verbs.
package terminal

import (
	"io"
	"os"
	"runtime"

	"golang.org/x/term"
)

// Is says whether out is a terminal. On Windows nothing is: not every console there understands escape sequences, and
// plain lines are always readable.
func Is(out io.Writer) bool {
	if a, ok := out.(*Aside); ok {
		out = a.out
	}
	f, ok := out.(*os.File)
	return ok && runtime.GOOS != "windows" && term.IsTerminal(int(f.Fd()))
}

// rewrites says whether what is written to out can be taken back: it understands escape sequences.
func rewrites(out io.Writer) bool { return os.Getenv("TERM") != "dumb" && Is(out) }

// size is that of the terminal that out is, read anew each time: it may be resized. 0, 0: out is none.
func size(out io.Writer) (width, height int) {
	if !Is(out) {
		return 0, 0
	}
	width, height, err := term.GetSize(int(out.(*os.File).Fd()))
	if err != nil || width <= 0 {
		width = usualWidth
	}
	if err != nil || height <= 0 {
		height = usualHeight
	}
	return width, height
}

// The size of a terminal that does not tell its own.
const usualWidth, usualHeight = 80, 24

// Colours is whether to write in colour: on a terminal, unless NO_COLOR is set (no-color.org).
type Colours bool

func coloursOn(out io.Writer) Colours { return Colours(rewrites(out) && os.Getenv("NO_COLOR") == "") }

// The few colours that there are.
const (
	Bold   = "1"
	Dim    = "2"
	Red    = "31"
	Green  = "32"
	Yellow = "33"
)

// Paint returns text in a colour; "" is none.
func (c Colours) Paint(colour, text string) string {
	if !c || colour == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}
