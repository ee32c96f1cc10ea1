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
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		f.answer("GET", "$1\r\n7\r\n", "-WRONGTYPE no\r\n", "$-1\r\n")
		got, err := c.Do(
			t.Context(), []any{"GET", "a"}, []any{"GET", []byte("b")}, []any{"GET", 3}, []any{"GET", time.Second, int64(4)},
		)
		want := []any{[]byte("7"), redis.Error("WRONGTYPE no"), nil, "OK"}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		f.wants(t, "GET a", "GET b", "GET 3", "GET 1s 4")
		if got, err = c.Do(t.Context()); got != nil || err != nil {
			t.Errorf("no commands: got %v, %v", got, err)
		}

		f.answer("GET", "+OK\r\n", hangUp)
		if got, err = c.Do(t.Context(), []any{"GET", "a"}, []any{"GET", "b"}); got != nil || !errors.Is(err, ErrDown) {
			t.Errorf("the connection breaks: got %v, %v", got, err)
		}
		if got, err = c.Do(t.Context(), []any{"GET", "a"}); got != nil || !errors.Is(err, ErrDown) {
			t.Errorf("not connected: got %v, %v", got, err)
		}
		time.Sleep(time.Second)
		f.answerAll("GET", silence)
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		if got, err = c.Do(ctx, []any{"GET", "a"}); got != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("its caller leaves: got %v, %v", got, err)
		}
		began := time.Now()
		got, err = c.Do(t.Context(), []any{"GET", "a"})
		if took := time.Since(began); got != nil || !errors.Is(err, ErrTimeout) || took > 250*ms {
			t.Errorf("silent: got %v, %v after %s", got, err, took)
		}
	})
}

// Ask does not wait: its commands are sent in order with all other requests.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
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
		synctest.Wait()
		f.wants(t, "ECHO #0", "ECHO #1", "TIME", "GET a", "ECHO #2")
		c.Close()
		c.Ask(then, []any{"TIME"}, []any{"TIME"})
		if len(told) != 2 || told[0] != "[[1 2] OK] <nil>" || !strings.HasPrefix(told[1], "[] not connected: ") {
			t.Errorf("told %q", told)
		}
	})
}
