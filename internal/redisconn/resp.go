package redisconn

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// Encoder puts commands into the form of the wire: an array of bulk strings, as every request is
// (https://redis.io/docs/latest/develop/reference/protocol-spec/). Commands are encoded here since there are ten of
// them to a lock: through redigo, that took a sixth of a client's time.
type Encoder struct {
	buf  []byte // commands
	args []byte // the arguments of the command that is begun
	n    int    // how many these are
}

// Add appends an argument to the command that is begun.
func (e *Encoder) Add(arg any) {
	switch v := arg.(type) {
	case string:
		e.AddString(v)
	case []byte:
		e.args = AppendBulk(e.args, v)
		e.n++
	case int:
		e.AddInt(int64(v))
	case int64:
		e.AddInt(v)
	default:
		e.AddString(fmt.Sprint(v))
	}
}

// AddString appends an argument.
func (e *Encoder) AddString(text string) {
	e.args = AppendBulk(e.args, text)
	e.n++
}

// AddInt appends a number.
func (e *Encoder) AddInt(n int64) {
	var digits [20]byte
	e.args = AppendBulk(e.args, strconv.AppendInt(digits[:0], n, 10))
	e.n++
}

// AddEncoded appends n arguments that are encoded already.
func (e *Encoder) AddEncoded(args []byte, n int) {
	e.args = append(e.args, args...)
	e.n += n
}

// AddJoined appends an argument of that size in bytes, which join appends.
func (e *Encoder) AddJoined(size int, join func(b []byte) []byte) {
	e.args = append(join(appendHead(e.args, '$', size)), '\r', '\n')
	e.n++
}

// end appends the command to those that wait to be flushed.
func (e *Encoder) end() {
	e.buf = append(appendHead(e.buf, '*', e.n), e.args...)
	e.args, e.n = e.args[:0], 0
}

// AppendBulk appends an argument, encoded.
func AppendBulk[T string | []byte](b []byte, text T) []byte {
	b = append(appendHead(b, '$', len(text)), text...)
	return append(b, '\r', '\n')
}

func appendHead(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}

// decoder reads what a server says once its connection is set up: int64, string, []byte, nil and []any of these,
// as redigo has them, and [redis.Error], which inside an array is an element
// (https://redis.io/docs/latest/develop/reference/protocol-spec/). In place of redigo's reader since five nodes answer
// each lock twice: what has come together is taken together, and nobody can announce more than maxReply.
type decoder struct {
	r *bufio.Reader
}

// reply is one reply, or the error that it is.
type reply struct {
	value any
	err   error
}

// maxReply bounds a reply, in bytes or so. Ours have a few thousand; a group of surveys of the largest semaphores has
// four million.
const maxReply = 1 << 23

// maxBulk is how much of a bulk string is kept. Ours are shorter; but somebody may lock the name of a key of another
// application, and its value is then told as that of the holder: no reason to give up a connection that all locks
// share.
const maxBulk = 1 << 16

// maxAnnounced is how long a bulk string may be at all: Redis' own limit.
const maxAnnounced = 512 << 20

// maxDepth bounds arrays in arrays. Ours have two.
const maxDepth = 8

func newDecoder(r io.Reader) *decoder { return &decoder{bufio.NewReaderSize(r, 1<<14)} }

// take waits for a reply, and appends it to all together with those that are there already. An error is
// the connection's.
func (d *decoder) take(all []reply) ([]reply, error) {
	for {
		budget := maxReply
		value, err := d.next(&budget, maxDepth)
		if err != nil && !isErrorReply(err) {
			return all, err
		}
		all = append(all, reply{value, err})
		if !d.ready() {
			return all, nil
		}
	}
}

// ready reports whether a whole reply of one line has come already.
func (d *decoder) ready() bool {
	there, _ := d.r.Peek(d.r.Buffered()) // cannot fail
	return len(there) > 2 && (there[0] != '*' && there[0] != '$' || there[1] == '-') && bytes.IndexByte(there, '\n') > 0
}

var errGarbled = errors.New("redlock: the node does not speak the Redis protocol")

func (d *decoder) next(budget *int, depth int) (any, error) {
	line, err := d.r.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || err != nil {
		return nil, errGarbled
	}
	first, text := line[0], line[1:len(line)-2]
	if *budget -= len(text); *budget < 0 {
		return nil, errGarbled
	}
	switch first {
	case '+':
		if string(text) == "OK" {
			return okReply, nil
		}
		return string(text), nil
	case '-':
		return nil, redis.Error(text)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err != nil:
		return nil, errGarbled
	case first == ':':
		return n, nil
	case first != '$' && first != '*':
		return nil, errGarbled
	case n == -1:
		return nil, nil
	case n < 0:
		return nil, errGarbled
	case first == '$' && n <= maxAnnounced:
		return d.bulk(int(n), budget)
	case first == '*' && n <= int64(*budget) && depth > 0:
		return d.array(int(n), budget, depth-1)
	}
	return nil, errGarbled
}

var okReply any = "OK"

func (d *decoder) bulk(n int, budget *int) (any, error) {
	kept := min(n, maxBulk)
	if *budget -= kept; *budget < 0 {
		return nil, errGarbled
	}
	b := make([]byte, kept+2)
	if _, err := io.ReadFull(d.r, b[:kept]); err != nil {
		return nil, err
	}
	if _, err := d.r.Discard(n - kept); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(d.r, b[kept:]); err != nil {
		return nil, err
	}
	if b[kept] != '\r' || b[kept+1] != '\n' {
		return nil, errGarbled
	}
	return b[:kept:kept], nil
}

func (d *decoder) array(n int, budget *int, depth int) (any, error) {
	const word = 16 // what an element takes
	if *budget -= n * word; *budget < 0 {
		return nil, errGarbled
	}
	list := make([]any, n)
	for i := range list {
		value, err := d.next(budget, depth)
		if err != nil && !isErrorReply(err) {
			return nil, err
		}
		if list[i] = value; err != nil {
			list[i] = err
		}
	}
	return list, nil
}
