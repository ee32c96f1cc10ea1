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

// stuck blocks the writer with a request that the server does not read, so that all requests until f.resume are one
// batch.
func stuck(f *fake, c *client) {
	f.pause()
	c.send(native)
	synctest.Wait()
}

// A batch is one write, and the requests of one script are one call of it.
func TestABatchIsOneWriteAndOneCallOfEachScript(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		stuck(f, c)
		c.send(first, "a")
		c.send(third, "b", "c")
		c.send(first, "d")
		c.send(native)
		c.send(third, "e")
		writes := f.writes
		f.resume()
		f.wants(t, "ECHO #0", "EVALSHA first 2 a d #1 #3", "EVALSHA third 4 b c e extra #2 #5", "ECHO #4")
		if got := f.writes - writes; got != 1 {
			t.Errorf("%d writes, want one", got)
		}
		for _, r := range c.rounds {
			if r.Command == native {
				r.wants("OK")
			} else {
				r.wants("as usual")
			}
		}
	})
}

// An undo follows the request that it undoes, even if the server has not read that request yet.
func TestAnUndoStandsBehindWhatItUndoes(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		stuck(f, c)
		for _, k := range []*Command{first, undo, first, undo} {
			c.send(k, "a")
		}
		f.resume()
		f.wants(t, "ECHO #0", "EVALSHA first 1 a #1", "EVALSHA undo 1 a #2", "EVALSHA first 1 a #3", "EVALSHA undo 1 a #4")
	})
}

// Requests to a server that is away, unresponsive or overloaded fail at once. Undos are accepted all the same.
func TestWhatCannotBeAnsweredFailsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		get  func(f *fake, c *client)
		want error
	}{
		{"away", func(f *fake, _ *client) { f.leave() }, ErrDown},
		{"silent", func(f *fake, c *client) {
			f.answer("EVALSHA", silence)
			c.send(first, "a")
			time.Sleep(300 * ms)
		}, ErrTimeout},
		{"overloaded", func(f *fake, c *client) {
			stuck(f, c)
			for range MaxQueue - 1 {
				c.send(native)
			}
		}, ErrBusy},
		{"draining", func(_ *fake, c *client) { c.Drain(c.t.Context()) }, ErrClosed},
		{"closed", func(_ *fake, c *client) { c.Close() }, ErrDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			online(t, func(t *testing.T, f *fake, client *client) {
				c.get(f, client)
				r, taken := client.offer(first, "x")
				told := r.isTold()
				if r.fails(c.want); taken || !told || !r.isDone() {
					t.Errorf("taken %t, told at once %t, done with %t", taken, told, r.isDone())
				}
				if _, taken := client.offer(undo, "x"); !taken {
					t.Error("an undo is not taken")
				}
				if len(f.gate) > 0 {
					f.resume()
				}
			})
		})
	}
}

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
