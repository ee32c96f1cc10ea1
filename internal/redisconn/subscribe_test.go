package redisconn

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// modern returns a fake that speaks RESP3, and a client that is connected to it, in virtual time.
func modern(t *testing.T) (*fake, *client) {
	t.Helper()
	f := newFake()
	f.modern = true
	c := start(t, "redis://fake", f.config())
	synctest.Wait()
	return f, c
}

func pushed(text string) string { return ">" + message(text)[1:] }

// One connection takes requests and messages, and the next one after it subscribes by itself.
func TestMessagesComeOverTheMainConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := modern(t)
		f.wants(t, "HELLO 3")
		l := listenTo(t, c.Conn)
		f.wants(t, "SUBSCRIBE wake", "PING")
		f.answer("ECHO #0", pushed("one")+"+OK\r\n"+pushed("two"))
		r := c.send(native)
		synctest.Wait()
		r.wants("OK")
		f.cut()
		time.Sleep(100 * ms)
		f.wants(t, "ECHO #0", "HELLO 3", "SUBSCRIBE wake", "PING")
		f.say(pushed("three"))
		synctest.Wait()
		want := []string{"main: one", "main: two", "main: three"}
		if !slices.Equal(l.messages, want) || f.attempts() != 2 || l.met.Load() != 0 {
			t.Errorf("got %q, %d connections", l.messages, f.attempts())
		}
	})
}

// SUBSCRIBE goes ahead of what is sent after Subscribe.
func TestSubscribeGoesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := modern(t)
		f.received()
		ended := c.Subscribe(t.Context(), &Subscription{Channel: "wake"})
		c.send(native)
		synctest.Wait()
		f.wants(t, "SUBSCRIBE wake", "PING", "ECHO #0")
		c.Close()
		t.Cleanup(ended)
	})
}

// The subscription follows when the server, or the proxy in front of it, speaks another protocol from the next
// connection on.
func TestASubscriptionFollowsTheProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t)
		l := listenTo(t, c.Conn)
		f.wants(t, "ECHO hello", "SUBSCRIBE wake")
		f.upgrade(true)
		c.fail(c.link, errUnasked) // the second connection is left alone
		time.Sleep(100 * ms)
		f.wants(t, "HELLO 3", "SUBSCRIBE wake", "PING")
		if f.sessions[1].SetDeadline(time.Time{}) == nil {
			if _, err := f.sessions[1].Write([]byte("x")); err == nil {
				t.Error("the second connection is still open")
			}
		}
		f.say(pushed("one"))
		synctest.Wait()
		f.upgrade(false)
		f.cut()
		time.Sleep(100 * ms)
		f.wants(t, "ECHO hello", "SUBSCRIBE wake")
		f.say(message("two"))
		synctest.Wait()
		if !slices.Equal(l.messages, []string{"main: one", "two"}) || f.attempts() != 5 {
			t.Errorf("got %q, %d connections", l.messages, f.attempts())
		}
	})
}

// If there is no connection yet, nothing is subscribed to: which protocol it will be is not known.
func TestSubscribeBeforeTheFirstConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.modern = true
		f.refuse(true)
		c := start(t, "redis://fake", f.config())
		l := listenTo(t, c.Conn)
		time.Sleep(time.Second)
		f.refuse(false)
		time.Sleep(4 * time.Second) // the longest pause
		f.wants(t, "HELLO 3", "SUBSCRIBE wake", "PING")
		if l.met.Load() != 0 {
			t.Error("a second connection")
		}
	})
}

// A refusal is an error reply, in order with all others. If the user has no permission, the next attempt follows in a
// minute; if the server is not ready, within a second.
func TestARefusedSubscriptionIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		reply       string
		denied      int
		least, most int // attempts in three minutes and a half
	}{
		{noPerm, 4, 4, 4},
		{"-LOADING no\r\n", 0, 200, 430},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, cl := modern(t)
			f.answerAll("SUBSCRIBE", c.reply)
			f.received()
			l := listenTo(t, cl.Conn)
			for range 210 {
				time.Sleep(time.Second)
				r := cl.send(native)
				synctest.Wait()
				r.wants("OK")
			}
			got := strings.Count(strings.Join(f.received(), " "), "SUBSCRIBE")
			if got < c.least || got > c.most || l.denied != c.denied || f.attempts() != 1 {
				t.Errorf("%q: %d attempts, denied %d times, %d connections", c.reply, got, l.denied, f.attempts())
			}
			f.recover()
			time.Sleep(time.Minute)
			f.say(pushed("at last"))
			synctest.Wait()
			if !slices.Equal(l.messages, []string{"main: at last"}) {
				t.Errorf("%q: got %q", c.reply, l.messages)
			}
		})
	}
}

// A refusal is not overlooked, even if it comes before anybody waits for it.
func TestAnEarlyRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := modern(t)
		f.answer("SUBSCRIBE", "-LOADING no\r\n")
		f.received()
		c.mu.Lock()
		c.channel = "wake"
		c.sendSubscribe()
		c.startWriter()
		c.mu.Unlock()
		synctest.Wait()
		<-c.news
		listenTo(t, c.Conn)
		time.Sleep(100 * ms)
		f.wants(t, "SUBSCRIBE wake", "PING", "SUBSCRIBE wake", "PING")
	})
}

// Messages that nothing was subscribed for do not count, nor do other pushes and messages of other channels.
func TestUnaskedMessagesDoNotCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.modern = true
		f.answer("HELLO", pushed("before HELLO")+"%1\r\n+proto\r\n:3\r\n"+pushed("before connected"))
		c := start(t, "redis://fake", f.config())
		synctest.Wait()
		f.answer("SUBSCRIBE", pushed("before SUBSCRIBE"))
		f.answer("PING", silence)
		l := listenTo(t, c.Conn)
		f.say(">3\r\n+subscribe\r\n+wake\r\n:1\r\n+PONG\r\n")
		f.say(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n" + ">0\r\n" + ">3\r\n+message\r\n+other\r\n+x\r\n")
		f.say(">3\r\n+subscribe\r\n+wake\r\n:1\r\n" + pushed("counts"))
		r := c.send(native)
		synctest.Wait()
		r.wants("OK")
		f.say(readOnly + pushed("from a replica"))
		synctest.Wait()
		if !slices.Equal(l.messages, []string{"main: counts"}) {
			t.Errorf("got %q", l.messages)
		}
	})
}

// A server that speaks RESP3 and takes no commands on a subscribed connection gets two connections. What it refused
// meanwhile fails, and undos are sent again.
func TestAServerThatTakesNoCommandsOnceSubscribed(t *testing.T) {
	cannot := "-ERR Can't execute 'evalsha': only (P)SUBSCRIBE / PING / QUIT are allowed in this context\r\n"
	for name, get := range map[string]func(f *fake){
		"it answers as to subscribers": func(f *fake) { f.answer("PING", pong); f.answer("EVALSHA", cannot, cannot) },
		"it pushes the answer":         func(f *fake) { f.answer("PING", ">"+pong[1:]); f.answer("EVALSHA", cannot, cannot) },
		"it confirms as in RESP2":      func(f *fake) { f.answer("SUBSCRIBE", "*"+pushed("x")[1:]) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := modern(t)
				get(f)
				c.mu.Lock()
				c.channel = "wake"
				c.sendSubscribe() // ahead of both, in one batch
				c.mu.Unlock()
				r, u := c.send(first, "a"), c.send(undo, "b")
				l := listenTo(t, c.Conn)
				time.Sleep(2 * time.Second)
				r.mu.Lock()
				if r.err == nil {
					t.Error("a request has a reply")
				}
				r.mu.Unlock()
				if !u.isDone() {
					t.Error("the undo was dropped")
				}
				got := f.received()
				if n := len(got); n < 3 || !slices.Equal(slices.Sorted(slices.Values(got[n-3:])),
					[]string{"ECHO hello", "EVALSHA undo 1 b #1", "SUBSCRIBE wake"}) {
					t.Errorf("the server got %q", got)
				}
				if f.attempts() != 3 || l.met.Load() != 1 {
					t.Errorf("%d connections, met %d times", f.attempts(), l.met.Load())
				}
				time.Sleep(plainFor)
				f.received()
				f.answer("PING", hangUp) // lost once: what was an hour ago does not count
				f.cut()
				time.Sleep(time.Second)
				// The second connection may have come back for a moment before.
				if got := strings.Join(f.received(), ", "); !strings.HasSuffix(got, "HELLO 3, SUBSCRIBE wake, PING") {
					t.Errorf("an hour later the server got %s", got)
				}
			})
		})
	}
}

// A connection that is lost before SUBSCRIBE is answered may be lost by chance: RESP3 is given up if that happens to
// the next one, too.
func TestTwoConnectionsInARowAreLostAtSubscribe(t *testing.T) {
	for name, get := range map[string]func(f *fake){
		"it hangs up":             func(f *fake) { f.answer("SUBSCRIBE", hangUp) },
		"it hangs up at the PING": func(f *fake) { f.answer("PING", hangUp) },
		"it falls silent":         func(f *fake) { f.answer("SUBSCRIBE", silence); f.answer("PING", silence) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, c := modern(t)
				wants := func(when string, resp3 bool) {
					t.Helper()
					time.Sleep(5 * time.Second)
					if up, err := c.State(); !up || err != nil {
						t.Errorf("%s: connected %t, %v", when, up, err)
					}
					if got := strings.Join(f.received(), ", "); strings.HasSuffix(got, "HELLO 3, SUBSCRIBE wake, PING") != resp3 {
						t.Errorf("%s: RESP3 should be %t; the server got %s", when, resp3, got)
					}
				}
				get(f)
				listenTo(t, c.Conn)
				wants("lost once", true)
				get(f)
				f.cut()
				wants("lost once more, after one that was well", true)
				get(f)
				get(f)
				f.cut()
				wants("lost twice in a row", false)
				time.Sleep(plainFor)
				f.cut()
				wants("an hour later", true)
			})
		})
	}
}

// While a caller waits for a message, a half-open connection is found out.
func TestAHalfOpenMainConnectionIsReplacedWhileAMessageIsNeeded(t *testing.T) {
	for _, needed := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			f, c := modern(t)
			l := listenTo(t, c.Conn)
			l.needed.Store(needed)
			f.received()
			f.answerAll("PING", silence)
			time.Sleep(3 * time.Second)
			if got := f.attempts() > 1; got != needed {
				t.Errorf("needed %t, replaced %t", needed, got)
			}
		})
	}
}

// After the end of a subscription no message comes.
func TestNoMessageAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := modern(t)
		heard := 0
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		ended := c.Subscribe(ctx, &Subscription{
			Channel: "wake", Needed: func() bool { return true }, Message: func(string, bool) { heard++ },
		})
		synctest.Wait()
		f.say(pushed("x"))
		synctest.Wait()
		cancel()
		ended()
		f.say(pushed("y"))
		synctest.Wait()
		if heard != 1 {
			t.Errorf("heard %d messages, want one", heard)
		}
	})
}
