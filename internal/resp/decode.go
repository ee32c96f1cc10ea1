package resp

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Decoder decodes replies to the types that redigo uses: int64, string, []byte, nil and []any of these, and
// [redis.Error], which may be an element of an array. What RESP3 adds becomes what RESP2 would have said, but for a
// Push, and ZRANGE WITHSCORES and its like, which nests. Not redigo's decoder: each lock has ten replies, so this one
// takes all that have come at a time; and redigo believes what a server announces, so that a few bytes end the process.
type Decoder struct {
	Strict bool // the server may be anything yet: replies have maxStrict bytes at most, and nothing is cut short
	Large  int  // counts the bytes of replies that are unusually large, and those that were cut

	r      *bufio.Reader
	from   io.Reader
	filled bool // a read has filled the buffer since Take began: there was more
	full   int  // how many more calls of Take filled the buffer than did not
}

// The sizes of the decoder's buffer, which grows if replies often fill it: thousands of idle connections need little.
const (
	smallBuffer = 1 << 10
	largeBuffer = 1 << 14
	growAfter   = 8 // see Decoder.full
)

// Push is what RESP3 sends out of turn.
type Push []any

// Reply is one reply. An error reply has Err, and no Value.
type Reply struct {
	Value any
	Err   error
}

// The largest reply that is accepted. Usual ones have a few thousand bytes at most.
const (
	maxReply     = 1 << 23   // bytes of memory, about: surveys of the largest semaphores, in one group, take four million
	maxStrict    = 1 << 18   // likewise, in a handshake: INFO takes a few thousand, the lists of a hundred fleets 50,000
	maxAnnounced = 512 << 20 // bytes of a bulk string: Redis's own limit
	maxDepth     = 8         // of nested arrays: expected replies have two
)

// maxBulk is how much of a bulk string is kept. Expected ones are shorter. But if a caller locks a name that is the key
// of another application, that key's value is reported as the holder's owner, and it may be long. That must not end a
// connection that all locks share, unless there is so much of it that reading takes too long: see Large.
const maxBulk = 1 << 16

// The memory that a value takes beside its bytes: the element of its array, and what that points to.
const element, boxed = 16, 24

// long has the types of replies that go on after their first line.
const long = "*$%~>|=!"

// NewDecoder returns a Decoder of what r brings.
func NewDecoder(r io.Reader) *Decoder {
	d := &Decoder{from: r}
	d.r = bufio.NewReaderSize(d, smallBuffer)
	return d
}

// Read implements io.Reader for the decoder's buffer.
func (d *Decoder) Read(p []byte) (int, error) {
	n, err := d.from.Read(p)
	d.filled = d.filled || n == len(p)
	return n, err
}

// Wait waits for a reply to begin. An idle connection's goroutine waits here, not deeper: its stack has half the size.
func (d *Decoder) Wait() error {
	_, err := d.r.Peek(1)
	return err
}

// Take waits for a reply, and appends it and those that have come already to all. An error ends the connection.
func (d *Decoder) Take(all []Reply) ([]Reply, error) {
	for {
		most := maxReply
		if d.Strict {
			most = maxStrict
		}
		budget := most
		value, err := d.next(&budget, maxDepth)
		if took := most - budget; took > maxStrict {
			d.Large += took
		}
		if err != nil && !IsError(err) {
			return all, err
		}
		all = append(all, Reply{value, err})
		if !d.ready() {
			d.adapt()
			return all, nil
		}
	}
}

// adapt gives the decoder a larger buffer if it needs one.
func (d *Decoder) adapt() {
	if d.full++; !d.filled {
		d.full = max(0, d.full-2)
	}
	d.filled = false
	if d.full >= growAfter && d.r.Size() < largeBuffer && d.r.Buffered() == 0 {
		d.r = bufio.NewReaderSize(d, largeBuffer)
	}
}

// ready reports whether a complete reply of one line has come. The decoder might have to wait for the rest of others.
func (d *Decoder) ready() bool {
	got, _ := d.r.Peek(d.r.Buffered()) // cannot fail
	return len(got) > 2 && (strings.IndexByte(long, got[0]) < 0 || got[1] == '-') && bytes.IndexByte(got, '\n') > 0
}

// ErrBadReply says that what was read is no reply, or a larger one than is accepted.
var ErrBadReply = errors.New("bad reply: the node does not speak the Redis protocol")

func (d *Decoder) next(budget *int, depth int) (any, error) {
	first, text, err := d.line(budget)
	if err != nil {
		return nil, err
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
		return nil, ErrBadReply
	case first == ':':
		return n, nil
	case n == -1 && (first == '$' || first == '*'):
		return nil, nil
	case n < 0:
		return nil, ErrBadReply
	}
	return d.rest(first, n, budget, depth)
}

// line reads the first line of a reply: its type, and what else it says.
func (d *Decoder) line(budget *int) (first byte, text []byte, _ error) {
	line, err := d.r.ReadSlice('\n')
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return 0, nil, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' || err != nil {
		return 0, nil, ErrBadReply
	}
	first, text = line[0], line[1:len(line)-2]
	if *budget -= len(text); first != ':' {
		*budget -= boxed
	}
	if *budget < 0 {
		return 0, nil, ErrBadReply
	}
	return first, text, nil
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
	return nil, ErrBadReply
}

// rest reads what follows the first line, which has announced n bytes or elements.
func (d *Decoder) rest(first byte, n int64, budget *int, depth int) (any, error) {
	switch {
	case first == '$':
		return d.bulk(n, budget)
	case first == '=', first == '!':
		said, err := d.bulk(n, budget)
		switch {
		case err != nil:
			return nil, err
		case first == '!':
			return nil, redis.Error(said)
		case len(said) < 4 || said[3] != ':':
			return nil, ErrBadReply
		}
		return said[4:], nil // without the format, such as txt:
	case depth == 0 || n > int64(*budget)/2:
		return nil, ErrBadReply
	case first == '*', first == '~':
		return d.array(int(n), budget, depth-1)
	case first == '%':
		return d.array(2*int(n), budget, depth-1)
	case first == '>' && depth == maxDepth: // not within another reply
		list, err := d.array(int(n), budget, depth-1)
		return Push(list), err
	case first == '|': // attributes, which the reply follows
		if _, err := d.array(2*int(n), budget, depth-1); err != nil {
			return nil, err
		}
		return d.next(budget, depth-1)
	}
	return nil, ErrBadReply
}

var okReply any = "OK"

func (d *Decoder) bulk(announced int64, budget *int) ([]byte, error) {
	if announced > maxAnnounced {
		return nil, ErrBadReply
	}
	n, kept := int(announced), min(int(announced), maxBulk)
	if d.Strict {
		kept = n
	}
	if *budget -= kept; *budget < 0 {
		return nil, ErrBadReply
	}
	b := make([]byte, kept+2)
	if _, err := io.ReadFull(d.r, b[:kept]); err != nil {
		return nil, err
	}
	if err := d.skip(n - kept); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(d.r, b[kept:]); err != nil {
		return nil, err
	}
	if b[kept] != '\r' || b[kept+1] != '\n' {
		return nil, ErrBadReply
	}
	return b[:kept:kept], nil
}

// skip skips bytes, most of them past the buffer, which is small.
func (d *Decoder) skip(n int) error {
	if n == 0 {
		return nil // as nearly always: io.CopyN would allocate
	}
	d.Large += n
	buffered := min(n, d.r.Buffered())
	_, _ = d.r.Discard(buffered) // cannot fail
	_, err := io.CopyN(io.Discard, d.from, int64(n-buffered))
	return err
}

func (d *Decoder) array(n int, budget *int, depth int) ([]any, error) {
	if *budget -= n * element; *budget < 0 {
		return nil, ErrBadReply
	}
	list := make([]any, n)
	for i := range list {
		value, err := d.next(budget, depth)
		if err != nil && !IsError(err) {
			return nil, err
		}
		if list[i] = value; err != nil {
			list[i] = err
		}
	}
	return list, nil
}
