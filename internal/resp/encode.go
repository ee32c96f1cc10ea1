// Package resp is the protocol's bytes: it encodes commands and reads replies
// (https://redis.io/docs/latest/develop/reference/protocol-spec/), and tells error replies and odd ones apart.
//
// It knows RESP2 and RESP3, how large a reply may be, what error codes say; no connections, and not what commands mean.
package resp

import (
	"fmt"
	"io"
	"strconv"
)

// Encoder encodes commands, each as an array of bulk strings. Not redigo's encoder: a lock takes ten commands, and to
// encode them with redigo took a sixth of a client's CPU time.
type Encoder struct {
	commands []byte // complete
	args     []byte // the arguments of the next command
	n        int    // how many arguments that is
}

// Arg appends an argument to the next command.
func (e *Encoder) Arg(arg any) {
	switch v := arg.(type) {
	case string:
		e.ArgString(v)
	case []byte:
		e.args = AppendBulk(e.args, v)
		e.n++
	case int:
		e.ArgInt(int64(v))
	case int64:
		e.ArgInt(v)
	default:
		e.ArgString(fmt.Sprint(v))
	}
}

// ArgString appends a string argument.
func (e *Encoder) ArgString(text string) {
	e.args = AppendBulk(e.args, text)
	e.n++
}

// ArgInt appends a number.
func (e *Encoder) ArgInt(n int64) {
	var digits [20]byte
	e.args = AppendBulk(e.args, strconv.AppendInt(digits[:0], n, 10))
	e.n++
}

// ArgEncoded appends n arguments that are encoded already.
func (e *Encoder) ArgEncoded(args []byte, n int) {
	e.args = append(e.args, args...)
	e.n += n
}

// ArgJoined appends one argument, which join appends in parts. size is its size in bytes.
func (e *Encoder) ArgJoined(size int, join func(b []byte) []byte) {
	e.args = append(join(appendHead(e.args, '$', size)), '\r', '\n')
	e.n++
}

// End completes the command.
func (e *Encoder) End() {
	e.commands = append(appendHead(e.commands, '*', e.n), e.args...)
	e.args, e.n = e.args[:0], 0
}

// Command appends a whole command.
func (e *Encoder) Command(args ...any) {
	for _, arg := range args {
		e.Arg(arg)
	}
	e.End()
}

// Encoded appends complete commands that are encoded already.
func (e *Encoder) Encoded(commands []byte) { e.commands = append(e.commands, commands...) }

// Bytes returns the commands, which are valid until the next use of the Encoder.
func (e *Encoder) Bytes() []byte { return e.commands }

// Flush writes the commands with one call, if there are any, and begins anew.
func (e *Encoder) Flush(w io.Writer) error {
	if len(e.commands) == 0 {
		return nil
	}
	_, err := w.Write(e.commands)
	if cap(e.commands)+cap(e.args) > 1<<18 {
		e.commands, e.args = nil, nil // a rare large batch is not kept in memory
	}
	e.commands = e.commands[:0]
	return err
}

// AppendBulk appends a bulk string.
func AppendBulk[T string | []byte](b []byte, text T) []byte {
	b = append(appendHead(b, '$', len(text)), text...)
	return append(b, '\r', '\n')
}

func appendHead(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}
