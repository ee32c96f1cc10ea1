package redisconn

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// stuck has a request written that the server does not read on, so that what is sent until f.resume is one batch.
func stuck(f *fake, c *client) {
	f.pause()
	c.send(native)
	synctest.Wait()
}

// What is sent together is written together, and the requests of one script are one call of it.
func TestABatchIsOneWriteAndOneCallOfEachScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		stuck(f, c)
		c.send(first, "a")
		c.send(third, "b", "c")
		c.send(first, "d")
		c.send(native)
		c.send(third, "e")
		writes := f.writes
		f.resume()
		synctest.Wait()
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

// Whatever is sent together, the server gets what is about one key in the order in which it was sent.
func TestTheServerGetsWhatIsAboutAKeyInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
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

// An undo takes effect behind what it undoes, even where the server has not read that yet.
func TestAnUndoStandsBehindWhatItUndoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		stuck(f, c)
		for _, k := range []*Command{first, undo, first, undo} {
			c.send(k, "a")
		}
		f.resume()
		synctest.Wait()
		f.wants(t, "ECHO #0", "EVALSHA first 1 a #1", "EVALSHA undo 1 a #2", "EVALSHA first 1 a #3", "EVALSHA undo 1 a #4")
	})
}

// A server that has not got a script is sent its source, once.
func TestNoScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		f.answer("EVALSHA first", noScript)
		r := c.send(first, "a")
		synctest.Wait()
		r.wants("as usual")
		f.wants(t, "EVALSHA first 1 a #0", "EVAL first 1 a #0")

		c.send(first, "a")
		synctest.Wait()
		f.wants(t, "EVALSHA first 1 a #1")

		f.answer("EVALSHA first", noScript)
		f.answer("EVAL first", noScript)
		r = c.send(first, "a")
		synctest.Wait()
		r.wants(strings.Trim(noScript, "-\r\n"))
		f.wants(t, "EVALSHA first 1 a #2", "EVAL first 1 a #2")
	})
}

// What is over is not sent again: its undo may be on its way already, and must stay behind what it undoes.
func TestWhatIsOverIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		stuck(f, c)
		ended, waited, undone, undoing := c.send(first, "a"), c.send(first, "b"), c.send(undo, "c"), c.send(undo, "d")
		ended.end()
		undone.end()
		f.answerAll("EVALSHA", noScript)
		f.resume()
		synctest.Wait()
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

// One reply that no request waits for, and nobody knows whose the next ones are.
func TestAReplyThatNobodyAskedForEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		f.answer("EVALSHA", ":1\r\n:1\r\n")
		r := c.send(first, "a")
		synctest.Wait()
		r.wants("as usual")
		if up, err := c.State(); up || err == nil || !strings.Contains(err.Error(), "a reply without a request") {
			t.Errorf("connected %t, %v", up, err)
		}
		time.Sleep(time.Second)
		c.send(first, "a")
		synctest.Wait()
		c.rounds[1].wants("as usual")
	})
}

// A connection outlives the server's being a master, and what was learnt in the handshake is void then.
func TestAReplicaIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		stuck(f, c)
		f.answer("EVALSHA first", readOnly)
		c.send(first, "a")
		c.send(second, "b")
		f.resume()
		synctest.Wait()
		c.rounds[1].wants(strings.Trim(readOnly, "-\r\n"))
		up, err := c.State()
		if up || !errors.Is(err, ErrDown) || !strings.Contains(err.Error(), "no longer a master: READONLY") {
			t.Errorf("connected %t, %v", up, err)
		}
		time.Sleep(time.Second)
		if f.attempts() != 2 {
			t.Errorf("%d connections, want a second one", f.attempts())
		}
	})
}

// A script's reply that is not one for each key says nothing.
func TestAReplyThatIsNoneIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		for reply, want := range map[string]string{
			":2\r\n": "unexpected reply 2", "+OK\r\n": "unexpected reply OK", "$-1\r\n": "unexpected reply <nil>",
			"*2\r\n:1\r\n:1\r\n": "unexpected reply [1 1]", "*1\r\n$2\r\nok\r\n": "[ok]", ":1\r\n": "as usual",
		} {
			f.answer("EVALSHA", reply)
			r := c.send(first, "a")
			synctest.Wait()
			r.wants(want)
		}
	})
}

// What cannot be answered fails at once: nobody waits for a server that is away, silent or overloaded. Undos are taken
// all the same.
func TestWhatCannotBeAnsweredFailsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		get  func(ctx context.Context, f *fake, c *client)
		want error
	}{
		{"away", func(_ context.Context, f *fake, _ *client) { f.refuse(true); f.cut(); synctest.Wait() }, ErrDown},
		{"silent", func(_ context.Context, f *fake, c *client) {
			f.answer("EVALSHA", silence)
			c.send(first, "a")
			time.Sleep(300 * time.Millisecond)
		}, ErrTimeout},
		{"overloaded", func(_ context.Context, f *fake, c *client) {
			stuck(f, c)
			for range maxQueue - 1 {
				c.send(native)
			}
		}, ErrBusy},
		{"draining", func(ctx context.Context, _ *fake, c *client) { c.Drain(ctx) }, ErrClosed},
		{"closed", func(_ context.Context, _ *fake, c *client) { c.Close() }, ErrDown},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, client := connect(t)
				c.get(t.Context(), f, client)
				r, taken := client.offer(first, "x")
				if r.fails(c.want); taken || !r.isDone() {
					t.Errorf("taken %t, done with %t", taken, r.isDone())
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
