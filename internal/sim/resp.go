package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The replies of a node, before encoding: Status, Error, int64, string (bulk), nil (null bulk) and []any of these; and
// those that are of another type in RESP3. Scripts know RESP2 alone.
type (
	// Status is a RESP simple string.
	Status string
	// Error is a RESP error, code first.
	Error string

	verbatim string // text
	dict     []any  // keys and values in turn
	pushed   []any  // out of turn
)

func (e Error) Error() string { return string(e) }

// OK is the commonest Status.
const OK = Status("OK")

// appendReply encodes a reply for a client that speaks RESP3, or RESP2.
func appendReply(b []byte, reply any, resp3 bool) []byte {
	head := func(kind byte, n int) []byte {
		return append(strconv.AppendInt(append(b, kind), int64(n), 10), "\r\n"...)
	}
	line := func(text string) []byte { return append(append(b, text...), "\r\n"...) }
	list := func(kind byte, size int, values []any) []byte {
		if !resp3 {
			kind, size = '*', len(values)
		}
		b := head(kind, size)
		for _, v := range values {
			b = appendReply(b, v, resp3)
		}
		return b
	}
	switch v := reply.(type) {
	case nil:
		if resp3 {
			return line("_")
		}
		return line("$-1")
	case Status:
		return line("+" + string(v))
	case Error:
		return line("-" + string(v))
	case int64:
		return head(':', int(v))
	case string:
		return append(append(head('$', len(v)), v...), "\r\n"...)
	case verbatim:
		if !resp3 {
			return appendReply(b, string(v), false)
		}
		return append(append(head('=', len(v)+4), "txt:"+v...), "\r\n"...)
	case []any:
		return list('*', len(v), v)
	case dict:
		return list('%', len(v)/2, v)
	case pushed:
		return list('>', len(v), v)
	}
	panic(fmt.Sprintf("sim: reply of type %T", reply))
}

var errProtocol = errors.New("sim: malformed request")

// readRequest reads one array of bulk strings. Inline commands are not part of the model.
func readRequest(r *bufio.Reader) ([]string, error) {
	n, err := readLength(r, '*')
	if err != nil {
		return nil, err
	}
	if n > 1024*1024 {
		return nil, errProtocol
	}
	args := make([]string, 0, max(n, 0))
	for range n {
		size, err := readLength(r, '$')
		if err != nil {
			return nil, err
		}
		if size < 0 || size > 512<<20 {
			return nil, errProtocol
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		if b[size] != '\r' || b[size+1] != '\n' {
			return nil, errProtocol
		}
		args = append(args, string(b[:size]))
	}
	return args, nil
}

func readLength(r *bufio.Reader, kind byte) (int, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	if len(line) < 4 || line[0] != kind || line[len(line)-2] != '\r' {
		return 0, errProtocol
	}
	n, err := strconv.Atoi(string(line[1 : len(line)-2]))
	if err != nil {
		return 0, errProtocol
	}
	return n, nil
}
