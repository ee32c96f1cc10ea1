package sim

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// Conn is one end of an in-memory connection: a net.Conn whose bytes take virtual time.
type Conn struct {
	in, out       *pipe
	local, remote addr

	mu            sync.Mutex // protects the following fields
	closed        bool
	writeDeadline time.Time
}

type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

// Read returns what has arrived, as read(2) would: io.EOF after the peer's Close, ECONNRESET after its end or a cut.
func (c *Conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := c.in.read(b)
	return n, c.wrap("read", err)
}

// Write never blocks. Nil says what a kernel's nil says: that the bytes are on their way, not that they arrive.
func (c *Conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	late := !c.writeDeadline.IsZero() && !time.Now().Before(c.writeDeadline)
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return 0, c.wrap("write", errClosed)
	case late:
		return 0, c.wrap("write", os.ErrDeadlineExceeded)
	}
	n, err := c.out.write(b)
	return n, c.wrap("write", err)
}

// Close ends the connection in order: the peer reads what was written before, then io.EOF.
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return c.wrap("close", errClosed)
	}
	c.closed = true
	c.out.finish(io.EOF)
	c.in.snap(errClosed)
	return nil
}

// abort ends the connection as the death of a process does: the peer reads what is in flight, then ECONNRESET.
func (c *Conn) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.out.finish(syscall.ECONNRESET)
	c.in.snap(errClosed)
}

// LocalAddr returns the name of this end.
func (c *Conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the name of the other end.
func (c *Conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines; see net.Conn.
func (c *Conn) SetDeadline(t time.Time) error {
	_ = c.SetWriteDeadline(t)
	return c.SetReadDeadline(t)
}

// SetReadDeadline also wakes a Read that is under way.
func (c *Conn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(t)
	return nil
}

// SetWriteDeadline matters to later Writes only, since none ever blocks.
func (c *Conn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	c.writeDeadline = t
	c.mu.Unlock()
	return nil
}

// wrap gives errors the form that the net package gives them, so that errors.Is and net.Error work as on a real socket.
func (c *Conn) wrap(op string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // io.EOF is passed on bare, as net.Conn does
		return err
	}
	if errno, ok := err.(syscall.Errno); ok { //nolint:errorlint // ours, never wrapped
		err = os.NewSyscallError(op, errno)
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}
