package sim

import (
	"strconv"
	"strings"
)

// The replies that are of another type in RESP3. Commands and scripts know RESP2 alone, and a reply is changed on its
// way to a client that has asked for RESP3.
type (
	verbatim string // text
	double   string
	dict     []any // keys and values in turn
	pushed   []any // out of turn
)

// inRESP3 returns the reply to a command as RESP3 has it.
func inRESP3(args []string, reply any) any {
	name := strings.ToLower(args[0])
	switch v := reply.(type) {
	case string:
		switch name {
		case "info":
			return verbatim(v)
		case "zscore", "zincrby":
			return double(v)
		}
	case []any:
		switch {
		case name == "hello", name == "hgetall", name == "config":
			return dict(v)
		case strings.HasPrefix(name, "zr") && strings.EqualFold(args[len(args)-1], "withscores"):
			pairs := make([]any, 0, len(v)/2)
			for i := 0; i+1 < len(v); i += 2 {
				pairs = append(pairs, []any{v[i], double(v[i+1].(string))})
			}
			return pairs
		}
	}
	return reply
}

// appendReply3 encodes a reply as RESP3.
func appendReply3(b []byte, reply any) []byte {
	head := func(kind byte, n int) []byte {
		return append(strconv.AppendInt(append(b, kind), int64(n), 10), "\r\n"...)
	}
	var list []any
	switch v := reply.(type) {
	case nil:
		return append(b, "_\r\n"...)
	case verbatim:
		return append(append(append(head('=', len(v)+4), "txt:"...), v...), "\r\n"...)
	case double:
		return append(append(append(b, ','), v...), "\r\n"...)
	case []any:
		b, list = head('*', len(v)), v
	case dict:
		b, list = head('%', len(v)/2), v
	case pushed:
		b, list = head('>', len(v)), v
	default:
		return appendReply(b, reply)
	}
	for _, x := range list {
		b = appendReply3(b, x)
	}
	return b
}
