package resp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// IsError reports whether the server itself sent the error, so that the connection is sound.
func IsError(err error) bool {
	_, ok := err.(redis.Error) //nolint:errorlint // redigo never wraps it, and every reply passes here
	return ok
}

// Code returns the code of an error reply, its first word: NOPERM, OOM …, or ERR; "" if err is none. MAXCLIENTS stands
// for "max number of clients reached", which has no code. Before Redis 7, a script's error is quoted inside an ERR.
func Code(err error) string {
	var said redis.Error
	if !errors.As(err, &said) {
		return ""
	}
	reply := string(said)
	if strings.Contains(reply, "max number of clients") {
		return "MAXCLIENTS"
	}
	code, rest, _ := strings.Cut(reply, " ")
	if strings.HasPrefix(rest, "Error running script") {
		if _, quoted, ok := strings.Cut(rest, ": -"); ok {
			code, _, _ = strings.Cut(quoted, " ")
		}
	}
	if len(code) > 32 || strings.ContainsFunc(code, notInCode) {
		return "ERR"
	}
	return code
}

func notInCode(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') }

// UnexpectedError is for a reply that is not of its command's kind: it comes from no Redis server, or was changed.
type UnexpectedError struct{ reply string }

// Unexpected returns the error for such a reply. It has no more than the beginning: a reply may be long, or a secret.
func Unexpected(reply any) error {
	var b strings.Builder
	describe(&b, reply)
	return UnexpectedError{b.String()}
}

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
