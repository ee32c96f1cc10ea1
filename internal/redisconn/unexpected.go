package redisconn

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// UnexpectedError says that a reply is not of the kind that its command has. What sends it is no Redis server, or
// something between changes what the server says.
type UnexpectedError struct{ reply string }

// Unexpected returns the error for such a reply. It has no more than the beginning: a reply may be long, or a secret.
func Unexpected(reply any) error {
	var b strings.Builder
	describe(&b, reply)
	return UnexpectedError{b.String()}
}

// Error shows the beginning of the reply.
func (e UnexpectedError) Error() string { return "unexpected reply " + e.reply }

// shownReply is how many bytes of a reply are shown, about; shownText is how many of each text in it.
const shownReply, shownText = 60, 30

func describe(b *strings.Builder, reply any) {
	switch v := reply.(type) {
	case []any:
		b.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				b.WriteByte(' ')
			}
			if b.Len() >= shownReply {
				b.WriteString("…")
				break
			}
			describe(b, element)
		}
		b.WriteByte(']')
	case redis.Error:
		b.WriteString("an error") // its text may quote what was sent
	case []byte:
		b.WriteString(beginning(string(v)))
	case string:
		if quoted := beginning(v); quoted != `"`+v+`"` {
			b.WriteString(quoted)
		} else {
			b.WriteString(v) // a status
		}
	default:
		text := fmt.Sprint(v)
		b.WriteString(text[:min(len(text), shownReply)])
	}
}

func beginning(text string) string {
	if len(text) <= shownText {
		return strconv.Quote(text)
	}
	return strconv.Quote(text[:shownText]) + "…"
}
