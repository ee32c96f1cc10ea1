package redisconn

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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

// The server gets requests about one key in the order in which they were sent, whatever else is in the batch.
func TestTheServerGetsWhatIsAboutAKeyInOrder(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		stuck(f, c)
		sent, keysOf := map[string][]string{}, map[string][]string{}
		for i, k := range []*Command{first, second, undo, first, another, undo, second, third, third, spare, first, undo} {
			keys := strings.Fields([]string{"a", "b", "a b", "b", "a", "c a", "c"}[i%7])
			number := fmt.Sprint("#", c.send(k, keys...).Node)
			keysOf[number] = keys
			for _, key := range keys {
				sent[key] = append(sent[key], number)
			}
		}
		f.resume()
		synctest.Wait()
		got := map[string][]string{}
		for _, command := range f.received() {
			for word := range strings.FieldsSeq(command) {
				for _, key := range keysOf[word] {
					got[key] = append(got[key], word)
				}
			}
		}
		if !maps.EqualFunc(got, sent, slices.Equal) {
			t.Errorf("got  %v\nwant %v", got, sent)
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

// A script's reply that does not fit the number of keys is an error.
func TestAReplyThatIsNoneIsAnError(t *testing.T) {
	online(t, func(_ *testing.T, f *fake, c *client) {
		for reply, want := range map[string]string{
			":2\r\n": "unexpected reply 2", "+OK\r\n": "unexpected reply OK", "$-1\r\n": "unexpected reply <nil>",
			"*2\r\n:1\r\n:1\r\n": "unexpected reply [1 1]", "*1\r\n$2\r\nok\r\n": "[ok]", ":1\r\n": "as usual",
		} {
			f.answer("EVALSHA", reply)
			c.send(first, "a").wants(want)
		}
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
