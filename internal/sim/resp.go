package sim

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
)

// The replies of a node, before encoding: Status, Error, int64, string (bulk), nil (null bulk) and []any of these.

// Status is a RESP simple string.
type Status string

// Error is a RESP error, code first.
type Error string

func (e Error) Error() string { return string(e) }

// OK is the commonest Status.
const OK = Status("OK")

// appendReply encodes a reply as RESP2.
func appendReply(b []byte, reply any) []byte {
	switch v := reply.(type) {
	case nil:
		return append(b, "$-1\r\n"...)
	case Status:
		b = append(b, '+')
		b = append(b, v...)
	case Error:
		b = append(b, '-')
		b = append(b, v...)
	case int64:
		b = append(b, ':')
		b = strconv.AppendInt(b, v, 10)
	case string:
		b = append(b, '$')
		b = strconv.AppendInt(b, int64(len(v)), 10)
		b = append(b, "\r\n"...)
		b = append(b, v...)
	case []any:
		b = append(b, '*')
		b = strconv.AppendInt(b, int64(len(v)), 10)
		b = append(b, "\r\n"...)
		for _, x := range v {
			b = appendReply(b, x)
		}
		return b
	default:
		panic(fmt.Sprintf("sim: reply of type %T", reply))
	}
	return append(b, "\r\n"...)
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
