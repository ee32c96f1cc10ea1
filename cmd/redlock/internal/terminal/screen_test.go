package terminal

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What changes is drawn over, what is printed meanwhile stays above it, and at the end nothing of it is left.
func TestAnimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &Screen{Live: true, out: &out}
		count := 0
		stop := s.Animate(func(width, height int) []string {
			count++
			return []string{fmt.Sprintf("%d of %d×%d", count, width, height)}
		})
		s.Print("one   ")
		time.Sleep(61 * time.Millisecond)
		synctest.Wait()
		s.Print("two", "three")
		stop()
		s.Print("four")
		const back = "\x1b[2A\r\x1b[J" // two lines up: an empty one stands above what changes
		want := hideCursor + "one\n\n1 of 80×22\n" + back + "\n2 of 80×22\n" +
			back + "two\nthree\n\n3 of 80×22\n" + back + showCursor + "four\n"
		if got := out.String(); got != want {
			t.Errorf("got\n%q, want\n%q", got, want)
		}
	})
}

func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		count := 0
		stop := Repeat(func() { count++ })
		time.Sleep(time.Second)
		stop()
		if count != 16 {
			t.Errorf("in a second: got %d times, want 16", count)
		}
		time.Sleep(time.Second)
		if count != 16 {
			t.Error("it goes on")
		}
	})
}

// Where nothing can be taken back, lines stay as they were printed, and Ctrl-Z is none of our business.
func TestScreenElsewhere(t *testing.T) {
	var out bytes.Buffer
	s := NewScreen(&out)
	defer s.HeedStops(t.Context())()
	s.Print("one", "two  ")
	if got := out.String(); s.Live || got != "one\ntwo\n" || strings.Contains(got, "\x1b") {
		t.Errorf("got %q", got)
	}
}
