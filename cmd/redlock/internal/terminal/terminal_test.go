package terminal

import (
	"bytes"
	"os"
	"testing"
)

func TestBar(t *testing.T) {
	for value, want := range map[int]string{
		0:   "░░░░▏        ",
		25:  "█░░░▏        ",
		60:  "██▍░▏        ",
		100: "████▏        ",
		150: "████▏██      ",
		300: "████▏████████",
		400: "████▏████████",
	} {
		if got := Colours(false).Bar(value, 100, 300, 12); got != want {
			t.Errorf("bar of %d: got %q, want %q", value, got, want)
		}
	}
	if got, want := Colours(true).Bar(150, 100, 300, 3), "\x1b[32m█\x1b[0m▏\x1b[31m▌\x1b[0m "; got != want {
		t.Errorf("in colour: got %q, want %q", got, want)
	}
}

func TestPaint(t *testing.T) {
	for _, c := range []struct {
		colours      Colours
		colour, want string
	}{
		{true, Red, "\x1b[31mtext\x1b[0m"}, {true, "", "text"}, {false, Red, "text"},
	} {
		if got := c.colours.Paint(c.colour, "text"); got != c.want {
			t.Errorf("colours %v, %q: got %q, want %q", c.colours, c.colour, got, c.want)
		}
	}
	for mark, colour := range map[string]string{Good: Green, Up: Green, Bad: Red, Down: Red, Neutral: Dim} {
		if got, want := Colours(true).Mark(mark), Colours(true).Paint(colour, mark); got != want {
			t.Errorf("mark %s: got %q, want %q", mark, got, want)
		}
	}
}

// Neither a pipe nor memory is a terminal: no colours, no width, nothing redrawn.
func TestElsewhere(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if Is(w) || Is(&bytes.Buffer{}) || NewPrinter(w).width != 0 || bool(coloursOn(w)) || NewScreen(w).Live {
		t.Error("a pipe or memory is taken for a terminal")
	}
	if got := NewScreen(w).Width(); got != 80 {
		t.Errorf("width to draw for: got %d, want 80", got)
	}
}
