package terminal

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// What a terminal is asked, and what the environment forbids.
func TestTerminal(t *testing.T) {
	f, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("no pseudo-terminals here: %v", err)
	}
	defer f.Close()
	for columns, want := range map[uint16]int{0: 80, 80: 80, 123: 123} { // 0: it does not know
		at := unix.Winsize{Row: columns / 2, Col: columns}
		if err := unix.IoctlSetWinsize(int(f.Fd()), unix.TIOCSWINSZ, &at); err != nil {
			t.Fatal(err)
		}
		if got := NewScreen(f).Width(); got != want {
			t.Errorf("%d columns: got %d, want %d", columns, got, want)
		}
		if _, got := NewScreen(f).Room(); got != max(int(at.Row), 24)-2 {
			t.Errorf("%d rows: got %d", at.Row, got)
		}
		if got := NewPrinter(f).width; got != want {
			t.Errorf("%d columns: a printer's width: got %d, want %d", columns, got, want)
		}
	}
	for _, c := range []struct {
		term, noColour string
		live           bool
		colours        Colours
	}{
		{"xterm", "", true, true}, {"xterm", "1", true, false}, {"dumb", "", false, false},
	} {
		t.Setenv("TERM", c.term)
		t.Setenv("NO_COLOR", c.noColour)
		if s := NewScreen(f); s.Live != c.live || s.Colours != c.colours || !Is(f) {
			t.Errorf("TERM=%s NO_COLOR=%s: got live %v, colours %v", c.term, c.noColour, s.Live, s.Colours)
		}
	}
}
