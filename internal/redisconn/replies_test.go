package redisconn

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/resp"
)

// Values that are too long to be a lock's are skipped, but not without end.
func TestLongValuesAreSkippedWithinBounds(t *testing.T) {
	const long = maxLarge/2 + 1<<17
	for _, pause := range []time.Duration{0, time.Second} {
		var said []io.Reader
		for range 2 {
			value := io.LimitReader(endless{}, long)
			said = append(said, strings.NewReader(fmt.Sprintf("$%d\r\n", long)), value, strings.NewReader("\r\n"))
		}
		w, now := &wire{decoder: resp.NewDecoder(io.MultiReader(said...))}, time.Now()
		if _, err := w.take(nil, func() time.Time { return now }); err != nil {
			t.Fatal(err)
		}
		_, err := w.take(nil, func() time.Time { return now.Add(pause) })
		if errors.Is(err, errLarge) != (pause == 0) {
			t.Errorf("two long values, %v between them: got %v", pause, err)
		}
	}
}

// endless brings bytes without end.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// One reply answers all requests of a group: each gets the part about its own keys.
func TestAReplyIsDividedAmongTheRequestsOfAGroup(t *testing.T) {
	list := sorted([]*Request{about(first, "a"), about(first, "b", "c", "d"), about(first, "e"), about(first, "f", "g")})
	if len(list) != 1 || list[0].keys != 7 {
		t.Fatalf("%d groups, the first of %d keys; want one of 7", len(list), list[0].keys)
	}
	seven := []any{int64(1), "b", nil, []any{}, int64(5), int64(6), int64(7)}
	for _, c := range []struct {
		reply any
		want  [4]any // nil: the usual result
		err   string // for all
	}{
		{seven, [4]any{seven[:1], seven[1:4], seven[4:5], seven[5:7]}, ""},
		{int64(7), [4]any{}, ""},
		{int64(4), [4]any{}, "unexpected reply 4"},
		{[]any{"x"}, [4]any{}, "unexpected reply [x]"},
	} {
		list[0].answered = 0
		for _, r := range list[0].requests {
			r.replied = false
		}
		got := (&Conn{}).divide(list[0], resp.Reply{Value: c.reply}, nil)
		for i, want := range c.want {
			d := got[i]
			if d.to != list[0].requests[i] || !d.first {
				t.Errorf("%v: part %d goes to another", c.reply, i)
			}
			if (d.err != nil) != (c.err != "") || d.err != nil && d.err.Error() != c.err || !reflect.DeepEqual(d.reply, want) {
				t.Errorf("%v: request %d gets %v, %v, want %v, %s", c.reply, i, d.reply, d.err, want, c.err)
			}
		}
	}
}

// A server that lacks a script is sent its source, once.
func TestNoScript(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		f.answer("EVALSHA first", noScript)
		c.send(first, "a").wants("as usual")
		f.wants(t, "EVALSHA first 1 a #0", "EVAL first 1 a #0")

		c.send(first, "a")
		f.wants(t, "EVALSHA first 1 a #1")

		f.answer("EVALSHA first", noScript)
		f.answer("EVAL first", noScript)
		c.send(first, "a").wants(strings.Trim(noScript, "-\r\n"))
		f.wants(t, "EVALSHA first 1 a #2", "EVAL first 1 a #2")
	})
}

// A request that is over is not sent again: its undo may have been sent already, and must stay behind it.
func TestWhatIsOverIsNotSentAgain(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		stuck(f, c)
		ended, waited, undone, undoing := c.send(first, "a"), c.send(first, "b"), c.send(undo, "c"), c.send(undo, "d")
		ended.end()
		undone.end()
		f.answerAll("EVALSHA", noScript)
		f.resume()
		for _, r := range []*round{ended, undone} {
			r.wants(strings.Trim(noScript, "-\r\n"))
		}
		for _, r := range []*round{waited, undoing} {
			r.wants("as usual")
		}
		f.wants(t,
			"ECHO #0", "EVALSHA first 2 a b #1 #2", "EVALSHA undo 2 c d #3 #4",
			"EVAL first 1 b #2", "EVAL undo 1 d #4",
		)
	})
}

// After a reply without a request, nobody knows which requests the next replies answer.
func TestAReplyThatNobodyAskedForEndsTheConnection(t *testing.T) {
	online(t, func(_ *testing.T, f *fake, c *client) {
		f.answer("EVALSHA", ":1\r\n:1\r\n")
		c.send(first, "a").wants("as usual")
		c.is(down, errUnasked, "a reply without a request")
		time.Sleep(time.Second)
		c.send(first, "a").wants("as usual")
	})
}

// When a server becomes a replica, its connections stay open, but their handshake is void.
func TestAReplicaIsGivenUp(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		stuck(f, c)
		f.answer("EVALSHA first", readOnly)
		r := c.send(first, "a")
		c.send(second, "b")
		f.resume()
		r.wants(strings.Trim(readOnly, "-\r\n"))
		c.is(down, ErrDown, "no longer a master: READONLY")
		time.Sleep(time.Second)
		f.wantsAttempts(t, 2)
	})
}
