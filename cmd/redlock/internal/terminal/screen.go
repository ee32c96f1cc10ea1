package terminal

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
)

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
)

// Screen is where lines stay and, if it is live, a few below them change.
type Screen struct {
	Colours
	// Live is whether lines can change in place. Set by NewScreen; it may be cleared before anything is printed.
	Live bool

	key     byte
	pressed func() // is called when key is, with mu held

	mu     sync.Mutex // guards the fields below, and is held while we are stopped
	keys   *keys      // nil: none is read
	out    io.Writer
	below  Drawing
	drawn  int  // how many of its lines stand on the screen now
	width  int  // for which they were drawn
	hidden bool // the cursor, since the first of them was drawn
}

// Drawing draws lines that change. nil: there are none.
type Drawing func(width, height int) []string

// NewScreen returns a Screen that writes to out, and is live where out is a terminal that can do it.
func NewScreen(out io.Writer) *Screen {
	return &Screen{Colours: coloursOn(out), Live: rewrites(out), out: out}
}

// Width is that of the terminal, or what is usual where there is none.
func (s *Screen) Width() int {
	width, _ := s.Room()
	return width
}

// Room is what there is for lines that change: above them is an empty line, and below them the cursor.
func (s *Screen) Room() (width, height int) {
	if width, height = size(s.out); width == 0 {
		width, height = usualWidth, usualHeight
	}
	return width, max(height-2, 1)
}

// OnKey has do called when a key is pressed while lines change, if in is a terminal. It comes before Animate.
func (s *Screen) OnKey(in *os.File, key byte, do func()) {
	s.keys, s.key, s.pressed = keysOf(in), key, do
}

// Print prints lines that stay, above those that change.
func (s *Screen) Print(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw(lines)
}

// Animate shows what below draws, and draws it again and again until the returned function is called, which removes
// it. The screen must be live.
func (s *Screen) Animate(below Drawing) (stop func()) {
	s.mu.Lock()
	s.below = below
	s.mu.Unlock()
	end := Repeat(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.draw(nil); s.keys.pressed(s.key) {
			s.pressed()
		}
	})
	return func() {
		end()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.below = nil
		s.keys.restore()
		s.draw(nil)
		s.showCursor()
	}
}

// Repeat calls do as often as the eye can follow, until the returned function is called; that returns when do has.
func Repeat(do func()) (stop func()) {
	quit := make(chan struct{})
	var repeating sync.WaitGroup
	repeating.Go(func() {
		tick := time.NewTicker(60 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				do()
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		repeating.Wait()
	}
}

// HeedStops has Ctrl-Z stop us with the cursor shown, until the returned function is called. That should be last: once
// caught, Ctrl-Z does nothing by itself. What ends ctx ends us, and is not stopped any more.
func (s *Screen) HeedStops(ctx context.Context) (end func()) {
	if !s.Live {
		return func() {}
	}
	stops, continued := make(chan os.Signal, 1), make(chan os.Signal, 1)
	catchStop(stops, continued)
	var heeding sync.WaitGroup
	heeding.Go(func() {
		for {
			select {
			case <-continued: // from a stop that we could not hear of; the next one is not undone by it
			case _, open := <-stops:
				if !open {
					return
				}
				if !s.suspend(ctx, continued) {
					continue
				}
				select {
				case <-stops: // another key, or another of our group that stopped it as we did: undone, too
				default:
				}
			}
		}
	})
	return func() {
		signal.Stop(stops) // nothing is sent from now on
		signal.Stop(continued)
		close(stops)
		heeding.Wait()
	}
}

// suspend gives the terminal to the shell, and goes on below what was written there meanwhile. The cursor is hidden by
// the next lines that are drawn, and not here: what has continued us may be about to end us. It returns false if
// nothing has stopped us.
func (s *Screen) suspend(ctx context.Context, continued <-chan os.Signal) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.showCursor()
	s.keys.restore()
	if !suspend(ctx, continued) {
		return false
	}
	s.drawn = 0
	if tty, ok := s.out.(*os.File); ok {
		awaitForeground(ctx, continued, tty)
	}
	return true
}

// showCursor gives the cursor back. The caller has s.mu.
func (s *Screen) showCursor() {
	if s.hidden {
		io.WriteString(s.out, showCursor)
		s.hidden = false
	}
}

// draw prints lines that stay where the changing ones were, and those below, in one write: no flicker. The caller has
// s.mu.
func (s *Screen) draw(lines []string) {
	var b strings.Builder
	if s.below != nil && !s.hidden {
		b.WriteString(hideCursor)
		s.hidden = true
	}
	width, height := s.Room()
	switch {
	case s.drawn == 0:
	case width < s.width, height+1 < s.drawn:
		b.WriteString("\x1b[H\x1b[J") // the terminal may have broken them, or scrolled: nobody knows where they begin
	default:
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", s.drawn)
	}
	s.drawn, s.width = 0, width
	for _, line := range lines {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if s.below != nil {
		below := append([]string{""}, s.below(width, height)...)
		for _, line := range below {
			b.WriteString(line + "\n")
		}
		s.drawn = len(below)
	}
	io.WriteString(s.out, b.String()) // nobody to tell
}
