package terminal

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Screen is where lines stay and, if it is live, a few below them change.
type Screen struct {
	Colours
	// Live is whether lines can change in place. Set by NewScreen; it may be cleared before anything is printed.
	Live bool

	key     byte
	pressed func() // is called when key is, with mu held

	mu     sync.Mutex // guards the fields below, and is held while we are stopped by a key
	keys   *keys      // nil: none is read
	out    io.Writer
	below  Drawing
	drawn  []string  // its lines that stand on the screen now
	width  int       // for which they were drawn
	at     time.Time // when they were last known to be right
	behind int       // how often it was seen that the terminal is another's
}

// Drawing draws lines that change. nil: there are none.
type Drawing func(width, height int) []string

// NewScreen returns a Screen that writes to out, and is live where out is a terminal that can do it.
func NewScreen(out io.Writer) *Screen {
	return &Screen{Colours: coloursOn(out), Live: rewrites(out), out: out}
}

// Room is what there is for lines that change: above them is an empty line, and below them the cursor. Where there is
// no terminal, it is that of a usual one.
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
// it. The screen must be live. In the background it stops us, as a shell's jobs are stopped that read.
func (s *Screen) Animate(below Drawing) (stop func()) {
	s.mu.Lock()
	s.below = below
	s.mu.Unlock()
	quit := make(chan struct{})
	var drawing sync.WaitGroup
	drawing.Go(func() {
		tick := time.NewTicker(60 * time.Millisecond) // the eye can follow
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.tick()
			case <-quit:
				return
			}
		}
	})
	return func() {
		close(quit)
		drawing.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.below = nil
		s.keys.restore()
		s.draw(nil)
	}
}

// tick reads keys and draws what has changed.
func (s *Screen) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ours() {
		return
	}
	pressed, stopped := s.keys.pressed(s.key)
	if pressed {
		s.pressed()
	}
	if stopped { // the terminal may be another's
		s.drawn = nil
	} else {
		s.draw(nil)
	}
}

// ours says whether the terminal is, and stops us if it is not. That has time: what has continued us may be about to
// end us, which takes a moment to be heard. The caller has s.mu.
func (s *Screen) ours() bool {
	const hearing = 5 // looks
	tty, ok := s.out.(*os.File)
	if !ok || foreground(tty) {
		s.behind = 0
		return true
	}
	s.drawn = nil
	if s.behind++; s.behind == hearing {
		s.behind = 0
		background()
	}
	return false
}

// draw prints lines that stay where the changing ones were, and those below if they have changed, in one write: no
// flicker. Who has not drawn for long was stopped, and a shell may have written there since. The caller has s.mu.
func (s *Screen) draw(lines []string) {
	const long = time.Second
	var b strings.Builder
	var below []string
	width, height := s.Room()
	if s.below != nil {
		below = append([]string{""}, s.below(width, height)...)
	}
	switch {
	case s.drawn == nil || time.Since(s.at) > long:
	case width < s.width, height+1 < len(s.drawn):
		b.WriteString("\x1b[H\x1b[J") // the terminal may have broken them, or scrolled: nobody knows where they begin
	case lines == nil && slices.Equal(below, s.drawn):
		s.at = time.Now()
		return
	default:
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", len(s.drawn))
	}
	end := "\n"
	if s.keys != nil {
		end = "\r\n" // a terminal in raw mode adds nothing
	}
	s.drawn, s.width, s.at = below, width, time.Now()
	for _, line := range lines {
		b.WriteString(strings.TrimRight(line, " ") + end)
	}
	for _, line := range below {
		b.WriteString(line + end)
	}
	io.WriteString(s.out, b.String()) // nobody to tell
}
