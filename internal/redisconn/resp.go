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

// Encoder encodes commands in RESP, each as an array of bulk strings
// (https://redis.io/docs/latest/develop/reference/protocol-spec/). Not redigo's encoder: a lock takes ten commands, and
// to encode them with redigo took a sixth of a client's CPU time.
type Encoder struct {
	buf  []byte // complete commands
	args []byte // the arguments of the next command
	n    int    // how many arguments that is
}

// Add appends an argument to the next command.
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

// AddString appends a string argument.
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

// AddJoined appends one argument, which join appends in parts. size is its size in bytes.
func (e *Encoder) AddJoined(size int, join func(b []byte) []byte) {
	e.args = append(join(appendHead(e.args, '$', size)), '\r', '\n')
	e.n++
}

// end completes the command.
func (e *Encoder) end() {
	e.buf = append(appendHead(e.buf, '*', e.n), e.args...)
	e.args, e.n = e.args[:0], 0
}

// AppendBulk appends a bulk string.
func AppendBulk[T string | []byte](b []byte, text T) []byte {
	b = append(appendHead(b, '$', len(text)), text...)
	return append(b, '\r', '\n')
}

func appendHead(b []byte, kind byte, n int) []byte {
	return append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n')
}

// decoder decodes replies in RESP (https://redis.io/docs/latest/develop/reference/protocol-spec/), to the types that
// redigo uses: int64, string, []byte, nil and []any of these, and [redis.Error], which may be an element of an array.
// What RESP3 adds becomes what the server would have said in RESP2, so that callers need not know the protocol; only
// ZRANGE WITHSCORES and its like, which nests in RESP3, differs. A push is a push. Not redigo's decoder: each lock has
// ten replies, so this one takes all that have come at a time; and a server must not make a client allocate more than
// maxReply.
type decoder struct {
	r      *bufio.Reader
	from   io.Reader
	filled bool // a read has filled the buffer since take began: there was more
	full   int  // how many more calls of take filled the buffer than did not
}

// The sizes of the decoder's buffer. It grows if the replies often fill it: thousands of idle connections need little
// memory, and a busy one needs few system calls.
const (
	smallBuffer = 1 << 10
	largeBuffer = 1 << 14
	growAfter   = 8 // see decoder.full
)

// push is what RESP3 sends out of turn.
type push []any

// reply is one reply. An error reply has err, and no value.
type reply struct {
	value any
	err   error
}

// maxReply is about the largest reply that is accepted, in bytes. Usual replies have a few thousand bytes at most; that
// to a group of surveys of the largest semaphores has four million.
const maxReply = 1 << 23

// maxBulk is how much of a bulk string is kept. Expected ones are shorter. But if a caller locks a name that is the key
// of another application, that key's value is reported as the holder's owner, and it may be long. That must not end a
// connection that all locks share.
const maxBulk = 1 << 16

// maxAnnounced is the longest bulk string that is accepted: Redis's own limit.
const maxAnnounced = 512 << 20

// maxDepth bounds nested arrays. Expected replies have a depth of two.
const maxDepth = 8

func newDecoder(r io.Reader) *decoder {
	d := &decoder{from: r}
	d.r = bufio.NewReaderSize(d, smallBuffer)
	return d
}

// Read implements io.Reader for the decoder's buffer.
func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	d.filled = d.filled || n == len(p)
	return n, err
}

// wait waits for the beginning of a reply. The goroutine of an idle connection waits here and not deeper in the
// decoder: its stack can then have half the size.
func (d *decoder) wait() error {
	_, err := d.r.Peek(1)
	return err
}

// take waits for a reply, and appends it to all, together with the replies that have come already. An error ends the
// connection.
func (d *decoder) take(all []reply) ([]reply, error) {
	for {
		budget := maxReply
		value, err := d.next(&budget, maxDepth)
		if err != nil && !isErrorReply(err) {
			return all, err
		}
		all = append(all, reply{value, err})
		if !d.ready() {
			d.adapt()
			return all, nil
		}
	}
}

// adapt gives the decoder a larger buffer if it needs one.
func (d *decoder) adapt() {
	if d.full++; !d.filled {
		d.full = max(0, d.full-2)
	}
	d.filled = false
	if d.full >= growAfter && d.r.Size() < largeBuffer && d.r.Buffered() == 0 {
		d.r = bufio.NewReaderSize(d, largeBuffer)
	}
}

// ready reports whether a complete reply of one line has come. An array or a bulk string does not count: the decoder
// might have to wait for its rest.
func (d *decoder) ready() bool {
	there, _ := d.r.Peek(d.r.Buffered()) // cannot fail
	return len(there) > 2 && (!isLong(there[0]) || there[1] == '-') && bytes.IndexByte(there, '\n') > 0
}

// isLong reports whether a reply of this type goes on after its first line.
func isLong(first byte) bool {
	switch first {
	case '*', '$', '%', '~', '>', '|', '=', '!':
		return true
	}
	return false
}

var errBadReply = errors.New("bad reply: the node does not speak the Redis protocol")

func (d *decoder) next(budget *int, depth int) (any, error) {
	line, err := d.r.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || err != nil {
		return nil, errBadReply
	}
	first, text := line[0], line[1:len(line)-2]
	if *budget -= len(text); *budget < 0 {
		return nil, errBadReply
	}
	switch first {
	case '+':
		if string(text) == "OK" {
			return okReply, nil
		}
		return string(text), nil
	case '-':
		return nil, redis.Error(text)
	case '_', ',', '(', '#':
		return scalar(first, text)
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	switch {
	case err != nil:
		return nil, errBadReply
	case first == ':':
		return n, nil
	case n == -1 && (first == '$' || first == '*'):
		return nil, nil
	case n < 0:
		return nil, errBadReply
	case first == '$' && n <= maxAnnounced:
		return d.bulk(int(n), budget)
	case first == '*' && n <= int64(*budget) && depth > 0:
		return d.array(int(n), budget, depth-1)
	}
	return d.long3(first, n, budget, depth)
}

// scalar reads the types of one line that RESP3 adds.
func scalar(first byte, text []byte) (any, error) {
	switch {
	case first == '_' && len(text) == 0:
		return nil, nil
	case first == '#' && string(text) == "t":
		return int64(1), nil
	case first == '#' && string(text) == "f":
		return int64(0), nil
	case (first == ',' || first == '(') && len(text) > 0:
		return bytes.Clone(text), nil
	}
	return nil, errBadReply
}

// long3 reads the types of several lines that RESP3 adds.
func (d *decoder) long3(first byte, n int64, budget *int, depth int) (any, error) {
	switch {
	case (first == '=' || first == '!') && n <= maxAnnounced:
		value, err := d.bulk(int(n), budget)
		if err != nil {
			return nil, err
		}
		said := value.([]byte)
		switch {
		case first == '!':
			return nil, redis.Error(said)
		case len(said) < 4 || said[3] != ':':
			return nil, errBadReply
		}
		return said[4:], nil // without the format, such as txt:
	case depth == 0 || n > int64(*budget)/2:
		return nil, errBadReply
	case first == '~':
		return d.array(int(n), budget, depth-1)
	case first == '%':
		return d.array(2*int(n), budget, depth-1)
	case first == '>' && depth == maxDepth: // not within another reply
		list, err := d.array(int(n), budget, depth-1)
		if err != nil {
			return nil, err
		}
		return push(list.([]any)), nil
	case first == '|': // attributes, which the reply follows
		if _, err := d.array(2*int(n), budget, depth-1); err != nil {
			return nil, err
		}
		return d.next(budget, depth-1)
	}
	return nil, errBadReply
}

var okReply any = "OK"

func (d *decoder) bulk(n int, budget *int) (any, error) {
	kept := min(n, maxBulk)
	if *budget -= kept; *budget < 0 {
		return nil, errBadReply
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
		return nil, errBadReply
	}
	return b[:kept:kept], nil
}

func (d *decoder) array(n int, budget *int, depth int) (any, error) {
	const word = 16 // bytes of memory for an element
	if *budget -= n * word; *budget < 0 {
		return nil, errBadReply
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
