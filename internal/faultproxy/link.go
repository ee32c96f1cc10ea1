package faultproxy

import (
	"bytes"
	"net"
	"sync/atomic"
	"time"
)

// chunk is the data of one read.
type chunk struct {
	data []byte
	at   time.Time
}

// pipe forwards one direction until its source ends. Then it closes that direction of the destination, after the bytes
// that it still has to forward.
func (p *Proxy) pipe(l *link, d Direction, from, to net.Conn) {
	chunks := make(chan chunk, 2048) // bounds what Hold keeps; enough for 50 ms of the fastest network
	var waiting atomic.Int32         // chunks not written yet; only the reader adds to them
	p.handlers.Go(func() {
		defer close(chunks)
		for buf := make([]byte, 16<<10); ; {
			n, err := from.Read(buf)
			switch {
			case n == 0:
			case waiting.Load() == 0 && p.passes(l, d): // without a second goroutine, whose delay a benchmark would measure
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			default:
				waiting.Add(1)
				select {
				// A copy, so that a waiting chunk takes no more memory than its bytes.
				case chunks <- chunk{bytes.Clone(buf[:n]), time.Now()}:
				case <-l.over:
					return
				}
			}
			if err != nil {
				return
			}
		}
	})
	for c := range chunks {
		if p.admit(l, d, c.at) {
			if _, err := to.Write(c.data); err != nil {
				break // the other pipe finds out by itself
			}
		}
		waiting.Add(-1)
	}
	if !p.admit(l, d, time.Now()) {
		<-l.over // the end of a stream is dropped like its bytes
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}

// passes reports whether a direction has no fault and has lost no bytes.
func (p *Proxy) passes(l *link, d Direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults[d].kind == none && !l.lossy[d]
}

// admit waits until bytes that were read at the given time may be forwarded. It returns false if they are lost.
func (p *Proxy) admit(l *link, d Direction, at time.Time) bool {
	for {
		p.mu.Lock()
		f, changed := p.faults[d], p.changed
		if f.kind == dropped {
			l.lossy[d] = true
		}
		lost := l.lossy[d]
		p.mu.Unlock()

		var due <-chan time.Time
		switch {
		case lost:
			return false
		case f.kind == none:
			return true
		case f.kind == delayed:
			left := time.Until(at.Add(f.delay))
			if left <= 0 {
				return true
			}
			due = time.After(left)
		}
		select {
		case <-due:
			return true
		case <-changed:
		case <-l.over:
			return false
		}
	}
}

// link is one connection through the proxy.
type link struct {
	client *net.TCPConn
	server net.Conn
	lossy  [2]bool       // by Direction: bytes were dropped; protected by Proxy.mu
	ended  bool          // protected by Proxy.mu
	over   chan struct{} // closed by end
}

// ending is how a connection ends.
type ending bool

const (
	finish ending = false // both sides read to the end
	reset  ending = true  // both sides get an error
)

// end ends the connection, once. It is called with Proxy.mu held.
func (l *link) end(how ending) {
	if l.ended {
		return
	}
	l.ended = true
	close(l.over)
	if how == reset {
		abort(l.client)
		abort(l.server)
		return
	}
	_ = l.client.Close() // errors do not matter: the connection has ended
	_ = l.server.Close()
}

// abort closes a connection with a reset.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
