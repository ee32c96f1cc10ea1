package terminal

import (
	"io"
	"time"
)

// Aside writes without keeping anybody waiting: who should read may be stuck, and there is a lock to be let go, or a
// command to be ended, all the same.
type Aside struct {
	out   io.Writer
	texts chan []byte // nil: there will be no more
	ended chan struct{}
}

// NewAside returns an Aside that writes to out. The caller calls Close.
func NewAside(out io.Writer) *Aside {
	a := &Aside{out, make(chan []byte, 100), make(chan struct{})}
	go func() {
		defer close(a.ended)
		for text := <-a.texts; text != nil; text = <-a.texts {
			_, _ = a.out.Write(text) // nobody to tell
		}
	}()
	return a
}

// Write never fails. What comes when nobody has read for long is lost.
func (a *Aside) Write(text []byte) (int, error) {
	select {
	case a.texts <- append([]byte{}, text...):
	default:
	}
	return len(text), nil
}

// Close returns when all is written, or nobody has read for the time that is given.
func (a *Aside) Close(patience time.Duration) {
	late := time.After(patience)
	select {
	case a.texts <- nil:
	case <-late:
		return
	}
	select {
	case <-a.ended:
	case <-late:
	}
}
