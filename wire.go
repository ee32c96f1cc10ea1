package redlock

import (
	"fmt"
	"net"
	"strconv"
	"time"
)

// wire is the network connection under redigo, which sets it up. Then what is asked is gathered into one
// system call, a batch at a time.
//
// Commands are put into their form here since there are ten of them to a lock:
// through redigo, that took a sixth of a client's time.
type wire struct {
	net.Conn

	// Owned by the writer.
	buf  []byte // commands
	args []byte // the arguments of the command that is begun, and how many
	n    int
}

// batch takes the connection over from redigo, which has read all replies to what it asked, and returns where those to
// batches come. There is no deadline: the node's watchdog sees to silence.
func (w *wire) batch() net.Conn {
	_ = w.SetDeadline(time.Time{})
	return w.Conn
}

// add appends an argument to the command that is begun.
func (w *wire) add(arg any) {
	switch v := arg.(type) {
	case string:
		w.args = appendBulk(w.args, v)
	case []byte:
		w.args = appendBulk(w.args, v)
	case int:
		w.args = appendNumber(w.args, int64(v))
	case int64:
		w.args = appendNumber(w.args, v)
	default:
		w.args = appendBulk(w.args, fmt.Sprint(v))
	}
	w.n++
}

// addForm appends an argument that is in its form already.
func (w *wire) addForm(form []byte) { w.addForms(form, 1) }

func (w *wire) addForms(forms []byte, n int) {
	w.args = append(w.args, forms...)
	w.n += n
}

// end appends the command to those that wait to be flushed: an array of bulk strings, as every request is
// (https://redis.io/docs/latest/develop/reference/protocol-spec/).
func (w *wire) end() {
	w.buf = append(appendLine(w.buf, '*', w.n), w.args...)
	w.args, w.n = w.args[:0], 0
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
	if cap(w.buf)+cap(w.args) > 1<<18 {
		w.buf, w.args = nil, nil // a rare flood need not stay in memory
	}
	w.buf = w.buf[:0]
	return err
}
