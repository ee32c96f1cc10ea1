package faultproxy

import (
	"bytes"
	"net"
	"sync/atomic"
	"time"
)

// chunk is what one read brought.
type chunk struct {
	data []byte
	at   time.Time
}

// pipe carries one direction until its source ends, and then tells the
// destination, behind the bytes that are still on their way.
func (p *Proxy) pipe(l *link, d Direction, from, to net.Conn) {
	chunks := make(chan chunk, 2048) // what a held network has room for, and 50 ms of the fastest one
	var waiting atomic.Int32         // chunks that are not written yet; the reader alone adds to them
	p.handlers.Go(func() {
		defer close(chunks)
		for buf := make([]byte, 16<<10); ; {
			n, err := from.Read(buf)
			switch {
			case n == 0:
			case waiting.Load() == 0 && p.passes(l, d): // by the shortest way: a benchmark counts its microseconds
				if _, err := to.Write(buf[:n]); err != nil {
					return
				}
			default:
				waiting.Add(1)
				select {
				// A copy: what waits takes no more room than it is long.
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
				break // the other pipe learns of it by itself
			}
		}
		waiting.Add(-1)
	}
	if !p.admit(l, d, time.Now()) {
		<-l.over // the end of a stream is lost like its bytes
	}
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may be closed already
	}
}

// passes reports whether bytes may go on without further ado.
func (p *Proxy) passes(l *link, d Direction) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.treatments[d].kind == passed && !l.lossy[d]
}

// admit waits until bytes that were read at some time may go on. It reports false when they are lost.
func (p *Proxy) admit(l *link, d Direction, at time.Time) bool {
	for {
		p.mu.Lock()
		t, changed := p.treatments[d], p.changed
		if t.kind == dropped {
			l.lossy[d] = true
		}
		lost := l.lossy[d]
		p.mu.Unlock()

		var due <-chan time.Time
		switch {
		case lost:
			return false
		case t.kind == passed:
			return true
		case t.kind == delayed:
			left := time.Until(at.Add(t.delay))
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
	lossy  [2]bool       // by Direction: bytes are missing; protected by Proxy.mu
	ended  bool          // protected by Proxy.mu
	over   chan struct{} // closed by end
}

// ending is how a connection ends.
type ending bool

const (
	finish ending = false // both sides read to the end
	reset  ending = true  // both sides get an error
)

// end ends the connection, once; Proxy.mu is held.
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
	_ = l.client.Close() // of no interest: it is over
	_ = l.server.Close()
}

// abort closes a connection with a reset instead of an orderly end.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
