package redisconn

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestDo(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		f.answer("GET", "$1\r\n7\r\n", "-WRONGTYPE no\r\n", "$-1\r\n")
		got, err := c.Do(
			t.Context(), []any{"GET", "a"}, []any{"GET", []byte("b")}, []any{"GET", 3}, []any{"GET", time.Second, int64(4)},
		)
		want := []any{[]byte("7"), redis.Error("WRONGTYPE no"), nil, "OK"}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		f.wants(t, "GET a", "GET b", "GET 3", "GET 1s 4")
		gets := func(ctx context.Context, want error, commands ...[]any) {
			t.Helper()
			if got, err := c.Do(ctx, commands...); got != nil || !errors.Is(err, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		}
		get := []any{"GET", "a"}
		gets(t.Context(), nil) // no commands
		f.answer("GET", "+OK\r\n", hangUp)
		gets(t.Context(), ErrDown, get, get) // the connection breaks
		gets(t.Context(), ErrDown, get)      // not connected
		time.Sleep(time.Second)
		f.answerAll("GET", silence)
		ctx, leave := context.WithTimeout(t.Context(), 100*ms)
		defer leave()
		gets(ctx, context.DeadlineExceeded, get)
		takes(t, 250*ms, func() { gets(t.Context(), ErrTimeout, get) })
	})
}

// Ask does not wait: its commands are sent in order with all other requests.
func TestAsk(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		stuck(f, c)
		c.send(native)
		var told []string
		then := func(replies []any, err error) { told = append(told, fmt.Sprint(replies, err)) }
		c.Ask(then, []any{"TIME"}, []any{"GET", "a"})
		c.send(native)
		f.answer("TIME", "*2\r\n:1\r\n:2\r\n")
		if len(told) > 0 {
			t.Errorf("told %v before the replies came", told)
		}
		f.resume()
		f.wants(t, "ECHO #0", "ECHO #1", "TIME", "GET a", "ECHO #2")
		c.Close()
		c.Ask(then, []any{"TIME"}, []any{"TIME"})
		synctest.Wait()
		if len(told) != 2 || told[0] != "[[1 2] OK] <nil>" || !strings.HasPrefix(told[1], "[] not connected: ") {
			t.Errorf("told %q", told)
		}
	})
}
