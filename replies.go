package redlock

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/gomodule/redigo/redis"
)

// replies reads what a node says once its connection is set up: int64, string, []byte, nil and []any of these,
// as redigo has them, and [redis.Error], which inside an array is an element
// (https://redis.io/docs/latest/develop/reference/protocol-spec/). In place of redigo's reader since five nodes answer each lock twice:
// what has come together is taken together, and nobody can announce more than maxReply.
type replies struct {
	r *bufio.Reader
}

// reply is one reply, or the error that it is.
type reply struct {
	value any
	err   error
}

// maxReply bounds a reply, in bytes or so. Ours have a few thousand; a group of surveys of the largest semaphores has four
// million.
const maxReply = 1 << 23

// maxBulk is how much of a bulk string is kept. Ours are shorter; but somebody may lock the name of a key of another
// application, and its value is then told as that of the holder: no reason to give up a connection that all locks share.
const maxBulk = 1 << 16

// maxAnnounced is how long a bulk string may be at all: Redis' own limit.
const maxAnnounced = 512 << 20

// maxDepth bounds arrays in arrays. Ours have two.
const maxDepth = 8

func newReplies(r io.Reader) *replies { return &replies{bufio.NewReaderSize(r, 1<<14)} }

// take waits for a reply, and appends it to all together with those that are there already. An error is
// the connection's.
func (p *replies) take(all []reply) ([]reply, error) {
	for {
		budget := maxReply
		value, err := p.next(&budget, maxDepth)
		if err != nil && !isServerError(err) {
			return all, err
		}
		all = append(all, reply{value, err})
		if !p.ready() {
			return all, nil
		}
	}
}

// ready reports whether a whole reply of one line has come already.
func (p *replies) ready() bool {
	there, _ := p.r.Peek(p.r.Buffered()) // cannot fail
	return len(there) > 2 && (there[0] != '*' && there[0] != '$' || there[1] == '-') && bytes.IndexByte(there, '\n') > 0
}

var errGarbled = errors.New("redlock: the node does not speak the Redis protocol")

func (p *replies) next(budget *int, depth int) (any, error) {
	line, err := p.r.ReadSlice('\n')
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
		return p.bulk(int(n), budget)
	case first == '*' && n <= int64(*budget) && depth > 0:
		return p.array(int(n), budget, depth-1)
	}
	return nil, errGarbled
}

var okReply any = "OK"

func (p *replies) bulk(n int, budget *int) (any, error) {
	kept := min(n, maxBulk)
	if *budget -= kept; *budget < 0 {
		return nil, errGarbled
	}
	b := make([]byte, kept+2)
	if _, err := io.ReadFull(p.r, b[:kept]); err != nil {
		return nil, err
	}
	if _, err := p.r.Discard(n - kept); err != nil {
		return nil, err
	}
	if _, err := io.ReadFull(p.r, b[kept:]); err != nil {
		return nil, err
	}
	if b[kept] != '\r' || b[kept+1] != '\n' {
		return nil, errGarbled
	}
	return b[:kept:kept], nil
}

func (p *replies) array(n int, budget *int, depth int) (any, error) {
	const word = 16 // what an element takes
	if *budget -= n * word; *budget < 0 {
		return nil, errGarbled
	}
	list := make([]any, n)
	for i := range list {
		value, err := p.next(budget, depth)
		if err != nil && !isServerError(err) {
			return nil, err
		}
		if list[i] = value; err != nil {
			list[i] = err
		}
	}
	return list, nil
}
