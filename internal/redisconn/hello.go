package redisconn

import (
	"errors"
	"fmt"
	"time"
)

// RESP3 lets a connection take commands while it is subscribed, so that a client needs no second connection. Servers
// before Redis 6 and some proxies do not speak it; then the link stays with RESP2, which each connection begins with.

// plainFor is how long no HELLO is sent to a server after one that broke a connection. A proxy may close the connection
// at a command that it does not know, and would do so for ever.
const plainFor = time.Hour

// greet asks for RESP3, and in the same round trip for replies to more commands, which it returns. It stays with RESP2
// if the server refuses.
func (c *Conn) greet(l *link, commands ...[]any) ([]any, error) {
	if c.config.Now().Before(c.plainUntil) {
		return l.exchange(commands...)
	}
	replies, err := l.exchange(append([][]any{{"HELLO", 3}}, commands...)...)
	if len(replies) == 0 {
		c.avoidRESP3()
		return nil, fmt.Errorf("at HELLO 3: %w", err)
	}
	l.resp3 = speaksRESP3(replies[0])
	return replies[1:], err
}

// avoidRESP3 makes the next connections stay with RESP2. It is called by the goroutine of run.
func (c *Conn) avoidRESP3() {
	if c.ctx.Err() == nil { // at Stop, the connection ends for another reason
		c.plainUntil = c.config.Now().Add(plainFor)
	}
}

// speaksRESP3 reads the reply to HELLO, names and values in turn.
func speaksRESP3(reply any) bool {
	said, _ := reply.([]any)
	for i := 0; i+1 < len(said); i += 2 {
		if text(said[i]) == "proto" {
			return said[i+1] == int64(3)
		}
	}
	return false
}

// text returns a string of a reply, "" for anything else.
func text(value any) string {
	switch v := value.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	}
	return ""
}

// exchange sends commands over a connection that redigo has left and that takes no requests yet, and returns the
// replies. If it fails, it returns those that had come.
func (l *link) exchange(commands ...[]any) ([]any, error) {
	for _, command := range commands {
		for _, arg := range command {
			l.encoder.Add(arg)
		}
		l.encoder.end()
	}
	err := l.flush()
	var got []reply
	var replies []any
	for err == nil && len(replies) < len(commands) {
		got, err = l.decoder.take(got[:0])
		for _, r := range got {
			if _, ok := r.value.(push); ok {
				continue // nothing is subscribed to yet
			}
			if r.err != nil {
				r.value = r.err
			}
			replies = append(replies, r.value)
		}
	}
	if err == nil && len(replies) > len(commands) {
		err = errUnasked
	}
	switch {
	case err == nil:
		l.patience.answered()
	case l.patience.isOver():
		err = noReply(l.patience.limit)
	}
	return replies, err
}

var errUnasked = errors.New("a reply without a request")
