package redisconn

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// There must be one source of credentials.
func TestCredentialsBesideThoseOfTheURL(t *testing.T) {
	config := Config{Credentials: func(context.Context, string) (string, string, error) { return "", "", nil }}
	for url, fits := range map[string]bool{
		"redis://fake": true, "unix:///fake": true,
		"redis://hunter2@fake": false, "redis://:hunter2@fake": false, "redis://hunter2:@fake": false,
		"unix://ann:hunter2@/fake": false,
	} {
		_, err := New(url, config)
		if (err == nil) != fits || err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: got %v", url, err)
		}
	}
}

// Drain returns when all requests are answered. Meanwhile only undos are accepted.
func TestDrain(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		f.answerAll("EVALSHA", silence)
		r, refused := c.send(first, "a"), c.send(undo, "b")
		drained := make(chan struct{})
		go func() {
			c.Drain(t.Context())
			close(drained)
		}()
		synctest.Wait()
		late, undone := c.send(first, "c"), c.send(undo, "d")
		if late.fails(ErrClosed); isClosed(drained) {
			t.Error("it does not wait for answers")
		}
		f.say(":1\r\n")
		f.say(busy)
		f.say(":1\r\n")
		r.wants("as usual")
		if !refused.isDone() || !undone.isDone() || !isClosed(drained) {
			t.Errorf("undos are done with %t, %t, drained %t", refused.isDone(), undone.isDone(), isClosed(drained))
		}
	})
}

// Drain sends postponed undos once more.
func TestDrainSendsWhatIsPostponed(t *testing.T) {
	for _, recovers := range []bool{true, false} {
		online(t, func(t *testing.T, f *fake, c *client) {
			f.answerAll("EVALSHA", busy)
			again, over := c.send(undo, "a"), c.send(another, "b")
			synctest.Wait()
			f.received()
			over.end()
			if recovers {
				f.recover()
			}
			takes(t, 0, func() { c.Drain(t.Context()) })
			f.wants(t, "EVALSHA undo 1 a #0")
			if !again.isDone() || !over.isDone() {
				t.Errorf("recovers %t: done with %t, %t", recovers, again.isDone(), over.isDone())
			}
		})
	}
}

// With an unresponsive server, Drain waits no longer than its ctx, and Close does not wait.
func TestDrainingAndClosingAreBounded(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		f.answerAll("EVALSHA", silence)
		r, u := c.send(first, "a"), c.send(undo, "b")
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		takes(t, 100*ms, func() { c.Drain(ctx) })
		takes(t, 0, c.Stop)
		takes(t, 0, c.Close)
		f.wantsAttempts(t, 1)
		r.fails(ErrDown)
		u.fails(ErrDown)
		c.Drain(t.Context()) // after Close
	})
	online(t, func(t *testing.T, f *fake, c *client) { // where the server is away, there is nothing to wait for
		f.answerAll("EVALSHA", silence)
		c.send(undo, "a")
		synctest.Wait()
		f.refuse(true)
		time.AfterFunc(100*ms, f.cut)
		begun := time.Now()
		c.Drain(t.Context())
		if took := time.Since(begun); took < 100*ms || took > 130*ms { // when the next attempt to connect is refused
			t.Errorf("it took %v", took)
		}
	})
	for _, stuckAt := range []string{"dial", "AUTH", "SCRIPT", "ECHO"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.answerAll(stuckAt, silence)
			config := f.config()
			config.Handshake, config.Scripts = echo, append(config.Scripts, first.Script)
			if stuckAt == "dial" {
				config.Dial = nobody
			}
			c := start(t, "redis://:secret@fake", config)
			time.Sleep(100 * ms)
			c.is(down, ErrDown)
			takes(t, 0, c.Close)
		})
	}
}

// Close delivers what was written to a server that reads slowly, and fails the rest.
func TestCloseWhileTheServerReadsNothing(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		stuck(f, c)
		r := c.send(first, "a")
		c.Close()
		r.fails(ErrDown)
		if r.fails(io.ErrClosedPipe); !r.isDone() {
			t.Error("not done with")
		}
		f.resume()
	})
}

// Over sockets that break again and again, each request gets one reply, and all undos arrive.
func TestManyCallersShareAConnection(t *testing.T) {
	f := newFake()
	config := patient()
	config.Scripts = append(config.Scripts, first.Script, undo.Script)
	c := start(t, "redis://"+f.listen(t, nil), config)
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for n := range 100 {
				key := fmt.Sprint(i, "/", n)
				r := c.send(first, key)
				u := c.send(undo, key)
				cases.Eventually(t, "two replies", func() bool { return r.isTold() && u.isTold() })
				if i == 0 && n%10 == 9 {
					f.cut()
				}
			}
		})
	}
	callers.Wait()
	cases.Eventually(t, "all is done with", func() bool { return c.Backlog() == 0 && c.rounds[len(c.rounds)-1].isDone() })
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	c.Drain(ctx)
	undone := map[string]bool{}
	for _, command := range f.received() {
		words := strings.Fields(command)
		for _, word := range words[1:] {
			if words[0] != "SCRIPT" && words[1] == "undo" {
				undone[word] = true
			} else if undone[word] && strings.Contains(word, "/") {
				t.Errorf("%s is sent behind its undo", word)
			}
		}
	}
	for _, r := range c.rounds {
		if number := fmt.Sprint("#", r.Node); r.Command == undo && !undone[number] {
			t.Errorf("undo %s was never sent", number)
		}
	}
}
