package terminal

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// What changes is drawn over, and only then; what is printed meanwhile stays above it, and at the end nothing of it is
// left. Nothing is drawn over after a pause: a shell may have stopped and continued us.
func TestAnimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		s := &Screen{Live: true, out: &out}
		var count atomic.Int64
		stop := s.Animate(func(width, height int) []string {
			return []string{fmt.Sprintf("%d of %d×%d", count.Load()+1, width, height)}
		})
		s.Print("one   ")
		time.Sleep(time.Minute) // nothing is drawn that stands there
		count.Add(1)
		time.Sleep(61 * time.Millisecond)
		synctest.Wait()
		count.Add(1)
		s.Print("two", "three")
		s.at = s.at.Add(-2 * time.Second) // nobody else runs now
		stop()
		s.Print("four")
		time.Sleep(time.Minute)
		const back = "\x1b[2A\r\x1b[J" // two lines up: an empty one stands above what changes
		want := "one\n\n1 of 80×22\n" + back + "\n2 of 80×22\n" + back + "two\nthree\n\n3 of 80×22\n" + "four\n"
		if got := out.String(); got != want {
			t.Errorf("got\n%q, want\n%q", got, want)
		}
	})
}
