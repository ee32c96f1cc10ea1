package sim

import (
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// pipe is one direction of a connection: a queue of chunks, each with the instant at which the reader may have it. It
// never blocks a writer, as a kernel's socket buffer does not for requests of this size, and it keeps FIFO order
// whatever the delays.
type pipe struct {
	delay func(now time.Time) time.Duration // pure function of the instant, see doc.go

	mu       sync.Mutex // protects the following fields
	readable *sync.Cond // signalled when a reader should look again
	chunks   []chunk
	last     time.Time   // delivery instant of the newest chunk; later chunks never overtake it
	held     bool        // chunks stay where they are until release
	dead     bool        // black hole: what is written is gone, for ever (a gap in a TCP stream cannot be mended)
	end      error       // what the reader gets after the last chunk: io.EOF or a reset
	endAt    time.Time   // not before this instant
	broken   error       // what the reader gets at once, and the writer, too, unless it is errClosed: the reader has left
	deadline time.Time   // the reader's
	alarm    *time.Timer // wakes the reader for the next chunk or the deadline
}

type chunk struct {
	at   time.Time
	data []byte
}

func newPipe(delay func(time.Time) time.Duration) *pipe {
	p := &pipe{delay: delay}
	p.readable = sync.NewCond(&p.mu)
	return p
}

func (p *pipe) write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.dead, p.broken == errClosed: //nolint:errorlint // a mark, set below
		return len(b), nil // the reader is gone; the writer learns it from its own read, once the news has travelled
	case p.broken != nil:
		return 0, p.broken
	case p.end != nil:
		return 0, syscall.EPIPE
	}
	now := time.Now()
	p.chunks = append(p.chunks, chunk{at: p.stamp(now), data: append([]byte(nil), b...)})
	p.readable.Broadcast()
	return len(b), nil
}

// stamp returns the delivery instant of something sent now, and remembers it. Caller holds mu.
func (p *pipe) stamp(now time.Time) time.Time {
	if at := now.Add(p.delay(now)); at.After(p.last) {
		p.last = at
	}
	return p.last
}

func (p *pipe) read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		now := time.Now()
		if p.broken != nil {
			return 0, p.broken
		}
		if !p.deadline.IsZero() && !now.Before(p.deadline) {
			return 0, os.ErrDeadlineExceeded
		}
		next := p.deadline
		if !p.held {
			if len(p.chunks) > 0 {
				if !p.chunks[0].at.After(now) {
					return p.take(b, now), nil
				}
				next = earlier(next, p.chunks[0].at)
			} else if p.end != nil {
				if !p.endAt.After(now) {
					return 0, p.end
				}
				next = earlier(next, p.endAt)
			}
		}
		p.wake(next, now)
		p.readable.Wait()
	}
}

// take copies every chunk that has arrived by now into b, as one read(2) would. Caller holds mu.
func (p *pipe) take(b []byte, now time.Time) int {
	n := 0
	for n < len(b) && len(p.chunks) > 0 && !p.chunks[0].at.After(now) {
		c := &p.chunks[0]
		k := copy(b[n:], c.data)
		n += k
		if c.data = c.data[k:]; len(c.data) > 0 {
			break
		}
		c.data = nil
		p.chunks = p.chunks[1:]
	}
	return n
}

// wake arranges that the reader looks again at the given instant. Caller holds mu.
func (p *pipe) wake(at, now time.Time) {
	switch {
	case at.IsZero():
		if p.alarm != nil {
			p.alarm.Stop()
		}
	case p.alarm == nil:
		p.alarm = time.AfterFunc(at.Sub(now), func() {
			p.mu.Lock()
			p.readable.Broadcast()
			p.mu.Unlock()
		})
	default:
		p.alarm.Reset(at.Sub(now))
	}
}

// finish ends the stream in order: the reader gets what was sent before, then err.
func (p *pipe) finish(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end != nil || p.broken != nil || p.dead {
		return // a FIN falls into the black hole like everything else
	}
	p.end, p.endAt = err, p.stamp(time.Now())
	p.readable.Broadcast()
}

// snap breaks the stream at once: what was in flight is gone.
func (p *pipe) snap(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return
	}
	p.broken, p.chunks = err, nil
	if p.alarm != nil {
		p.alarm.Stop()
	}
	p.readable.Broadcast()
}

// release lets held chunks go. Each gets a fresh delay counted from now: connections released at one instant would
// otherwise deliver at one instant, and the scheduler would order them.
func (p *pipe) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.held {
		return
	}
	p.held = false
	now := time.Now()
	p.floor(now.Add(p.delay(now)))
	p.readable.Broadcast()
}

// postpone lets what is in flight arrive later.
func (p *pipe) postpone(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.floor(now.Add(late + p.delay(now)))
	p.readable.Broadcast()
}

// floor has what was sent arrive then at the earliest. Caller holds mu.
func (p *pipe) floor(floor time.Time) {
	for i := range p.chunks {
		if p.chunks[i].at.Before(floor) {
			p.chunks[i].at = floor
		}
	}
	if p.end != nil && p.endAt.Before(floor) {
		p.endAt = floor
	}
	if p.last.Before(floor) {
		p.last = floor
	}
}

func (p *pipe) setDeadline(t time.Time) {
	p.mu.Lock()
	p.deadline = t
	p.readable.Broadcast()
	p.mu.Unlock()
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// errClosed is what net.Conn promises after one's own Close.
var errClosed error = net.ErrClosed
