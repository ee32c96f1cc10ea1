package redlock

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// wire is the network connection under redigo. As long as the connection is being set up
// redigo has it for itself. Then it is in batches: commands are
// gathered into one system call. redigo still reads the replies; its read deadlines, one for every
// reply, are ignored.
//
// Commands are put into their form here since there are ten of them to a lock:
// through redigo, that took a sixth of a client's time.
type wire struct {
	net.Conn
	batching bool
	buf      []byte // owned by the writer
}

// batch begins to gather commands. Called before the writer and the reader start.
func (w *wire) batch() {
	_ = w.Conn.SetDeadline(time.Time{})
	w.batching = true
}

// send appends a command: an array of bulk strings, as every request is
// (https://redis.io/docs/latest/develop/reference/protocol-spec/).
func (w *wire) send(command string, args []any) {
	b := appendLine(w.buf, '*', len(args)+1)
	b = appendBulk(b, command)
	for _, arg := range args {
		switch v := arg.(type) {
		case *string:
			b = appendBulk(b, *v)
		case string:
			b = appendBulk(b, v)
		case []byte:
			b = appendBulk(b, v)
		case int:
			b = appendNumber(b, int64(v))
		case int64:
			b = appendNumber(b, v)
		default:
			b = appendBulk(b, fmt.Sprint(v))
		}
	}
	w.buf = b
}

func appendLine(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}

func appendBulk[T string | []byte](b []byte, text T) []byte {
	b = append(appendLine(b, '$', len(text)), text...)
	return append(b, '\r', '\n')
}

func appendNumber(b []byte, n int64) []byte {
	var digits [20]byte
	return appendBulk(b, strconv.AppendInt(digits[:0], n, 10))
}

func (w *wire) flush() error {
	if len(w.buf) == 0 {
		return nil
	}
	_, err := w.Conn.Write(w.buf)
	if cap(w.buf) > 1<<18 {
		w.buf = nil // a rare flood need not stay in memory
	}
	w.buf = w.buf[:0]
	return err
}

// SetReadDeadline does nothing in batches: the node's watchdog sees to silence.
func (w *wire) SetReadDeadline(t time.Time) error {
	if w.batching {
		return nil
	}
	return w.Conn.SetReadDeadline(t)
}
