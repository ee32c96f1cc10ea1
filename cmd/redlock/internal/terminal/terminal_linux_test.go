package terminal

import (
	"bytes"
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What a terminal is asked, and what the environment forbids. Neither a pipe nor memory is one: no colours, no width,
// nothing redrawn.
func TestTerminal(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("no pseudo-terminals here: %v", err)
	}
	defer f.Close()
	_, pipe, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	for _, c := range []struct {
		out           io.Writer
		columns, rows uint16 // 0: it does not know
		width, height int    // to draw for
	}{
		{f, 0, 0, 80, 22}, {f, 80, 40, 80, 38}, {f, 123, 61, 123, 59}, {pipe, 0, 0, 80, 22}, {&bytes.Buffer{}, 0, 0, 80, 22},
	} {
		at := unix.Winsize{Row: c.rows, Col: c.columns}
		if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &at); err != nil {
			t.Fatal(err)
		}
		if width, height := NewScreen(c.out).Room(); width != c.width || height != c.height {
			t.Errorf("%T of %v: got %d×%d, want %d×%d", c.out, at, width, height, c.width, c.height)
		}
		if got := NewPrinter(c.out).Width; c.out == f && got != c.width || c.out != f && got != 0 {
			t.Errorf("%T of %v: a printer's width: got %d", c.out, at, got)
		}
	}
	for _, c := range []struct {
		out            io.Writer
		term, noColour string
		terminal, live bool
		colours        Colours
	}{
		{f, "xterm", "", true, true, true},
		{f, "xterm", "1", true, true, false},
		{f, "dumb", "", true, false, false},
		{pipe, "xterm", "", false, false, false},
		{&bytes.Buffer{}, "xterm", "", false, false, false},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColour)
		if s := NewScreen(c.out); s.Live != c.live || s.Colours != c.colours || Is(c.out) != c.terminal {
			t.Errorf("%T, TERM=%s NO_COLOR=%s: got live %v, colours %v", c.out, c.term, c.noColour, s.Live, s.Colours)
		}
	}
	for colours, want := range map[Colours]string{true: "\x1b[31mtext\x1b[0m", false: "text"} {
		if got := colours.Paint(Red, "text"); got != want || colours.Paint("", "text") != "text" {
			t.Errorf("colours %v: got %q, want %q", colours, got, want)
		}
	}
}
