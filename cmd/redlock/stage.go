package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// stage is where the demo is shown: lines that stay and, on a terminal, a few below them that change. Elsewhere
// those are printed now and then.
type stage struct {
	ink
	live  bool       // redrawing in place
	width func() int // of the terminal
	start time.Time
	state func(width int) []string // draws the changing lines

	mu    sync.Mutex // guards the fields below
	out   io.Writer
	drawn int       // changing lines now on the screen
	told  time.Time // when the state was last printed, if not live
	was   string    // what it was then
}

func newStage(out io.Writer) *stage {
	s := &stage{ink: inkOn(out), live: redraws(out), out: out, start: time.Now(), width: func() int { return 80 }}
	if f, ok := out.(*os.File); ok && s.live {
		s.width = func() int { return columns(f) }
	}
	return s
}

// act begins a part of the story.
func (s *stage) act(title string, intro ...string) {
	lines := []string{"", s.paint(bold, title)}
	for _, line := range intro {
		lines = append(lines, s.paint(dim, line))
	}
	s.print(append(lines, "")...)
}

// say tells what has just happened.
func (s *stage) say(mark, format string, args ...any) {
	at := fmt.Sprintf("%6.2fs", time.Since(s.start).Seconds())
	s.print(fmt.Sprintf("%s  %s %s", s.paint(dim, at), s.mark(mark), fmt.Sprintf(format, args...)))
}

// detail adds to what was said.
func (s *stage) detail(format string, args ...any) {
	s.print(strings.Repeat(" ", 11) + fmt.Sprintf(format, args...))
}

func (s *stage) print(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draw(lines, true)
}

// refresh brings the changing lines up to date.
func (s *stage) refresh() {
	const seldom = 500 * time.Millisecond
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.live:
		s.draw(nil, true)
	case s.state != nil && time.Since(s.told) >= seldom:
		if is := strings.Join(s.state(s.width()), ", "); is != s.was {
			s.told, s.was = time.Now(), is
			fmt.Fprintf(s.out, "%6.2fs  %s %s\n", time.Since(s.start).Seconds(), neutral, is)
		}
	}
}

// animate keeps the changing lines moving until the returned function is called, which removes them.
func (s *stage) animate(state func(width int) []string) (stop func()) {
	s.mu.Lock()
	s.state, s.told, s.was = state, time.Now(), ""
	if s.live {
		io.WriteString(s.out, hideCursor)
	}
	s.mu.Unlock()

	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(60 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.refresh()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		s.mu.Lock()
		defer s.mu.Unlock()
		s.draw(nil, false)
		s.state = nil
		if s.live {
			io.WriteString(s.out, showCursor)
		}
	}
}

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
)

// heedStops has Ctrl-Z stop us with the cursor shown, until the returned function is called. That should be last: once
// caught, Ctrl-Z does nothing by itself.
func (s *stage) heedStops() (end func()) {
	if !s.live {
		return func() {}
	}
	stops := make(chan os.Signal, 1)
	catchStop(stops)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stops:
				s.suspend()
			case <-quit:
				return
			}
		}
	}()
	return func() {
		signal.Stop(stops)
		close(quit)
		<-done
	}
}

// suspend gives the terminal to the shell, and goes on below what was written there meanwhile.
func (s *stage) suspend() {
	s.mu.Lock() // held while we are stopped: nothing is drawn between
	defer s.mu.Unlock()
	if s.state != nil {
		io.WriteString(s.out, showCursor)
	}
	if suspend() {
		s.drawn = 0
	}
	if s.state != nil {
		io.WriteString(s.out, hideCursor)
	}
}

// draw prints lines that stay where the changing ones were, and those below, in one write: no flicker.
func (s *stage) draw(lines []string, state bool) {
	var b strings.Builder
	if s.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\r\x1b[J", s.drawn)
		s.drawn = 0
	}
	for _, line := range lines {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	if s.live && state && s.state != nil {
		below := append([]string{""}, s.state(s.width())...)
		for _, line := range below {
			b.WriteString(line + "\n")
		}
		s.drawn = len(below)
	}
	io.WriteString(s.out, b.String()) // nobody to tell
}

// bar draws value in cells, a unit of `full` being as wide as mark cells, and what lies beyond it in red.
func (s *stage) bar(value, full, most, cells int) string {
	const eighths = " ▏▎▍▌▋▊▉█"
	fill := func(n int) string { // n eighths of a cell
		text := strings.Repeat("█", n/8)
		if n%8 > 0 {
			text += string([]rune(eighths)[n%8])
		}
		return text
	}
	width := func(n int) int { return n * cells * 8 / most }
	limit := width(full) / 8 * 8
	if value <= full {
		inside := fill(min(width(value), limit))
		rest := limit/8 - utf8.RuneCountInString(inside)
		return s.paint(green, inside) + s.paint(dim, strings.Repeat("░", rest)) + "▏" + strings.Repeat(" ", cells-limit/8)
	}
	over := fill(width(min(value, most)) - limit)
	rest := cells - limit/8 - utf8.RuneCountInString(over)
	return s.paint(green, fill(limit)) + "▏" + s.paint(red, over) + strings.Repeat(" ", max(rest, 0))
}
