package redisconn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// listener records what a subscription has called.
type listener struct {
	messages []string
	denied   int
	needed   atomic.Bool
	met      atomic.Int32
	refuses  atomic.Bool // in the handshake
}

// listenTo listens until the test ends.
func listenTo(t *testing.T, c *Conn) *listener {
	t.Helper()
	l := &listener{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := c.Subscribe(ctx, &Subscription{
		Channel: "wake", Needed: l.needed.Load, Denied: func(error) { l.denied++ },
		Message: func(message string, main bool) {
			if main {
				message = "main: " + message
			}
			l.messages = append(l.messages, message)
		},
		Handshake: func(do Do) error {
			l.met.Add(1)
			if replies, err := do([]any{"ECHO", "hello"}); err != nil || replies[0] != "OK" {
				return fmt.Errorf("%v, %w", replies, err)
			}
			if l.refuses.Load() {
				return errors.New("somebody else")
			}
			return nil
		},
	})
	t.Cleanup(func() {
		cancel()
		ended() // without any passing of virtual time
	})
	synctest.Wait()
	return l
}

// wants checks all messages so far, and how often a second connection was made for them.
func (l *listener) wants(t *testing.T, met int32, messages ...string) {
	t.Helper()
	synctest.Wait()
	if !slices.Equal(l.messages, messages) || l.met.Load() != met {
		t.Errorf("got %q, met %d times; want %q, %d", l.messages, l.met.Load(), messages, met)
	}
}

// listenBySecond listens over a second connection until the test ends. There is no first one.
func listenBySecond(t *testing.T, f *fake) *listener {
	t.Helper()
	c := cases.Must(New("redis://fake", f.config()))(t)
	c.protocol = resp2
	return listenTo(t, c)
}

func message(text string) string {
	return fmt.Sprintf("*3\r\n$7\r\nmessage\r\n$4\r\nwake\r\n$%d\r\n%s\r\n", len(text), text)
}

// Messages are passed on in order, also over a new connection.
func TestSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := listenBySecond(t, f)
		f.wants(t, "ECHO hello", "SUBSCRIBE wake")
		f.say(message("one") + message("two"))
		synctest.Wait()
		f.cut()
		time.Sleep(100 * ms)
		f.wants(t, "ECHO hello", "SUBSCRIBE wake")
		f.say(message("three"))
		synctest.Wait()
		f.refuse(true)
		f.cut()
		time.Sleep(time.Minute)
		f.refuse(false)
		time.Sleep(time.Second)
		f.cut()
		time.Sleep(20 * ms) // the first attempt after a success comes soon
		f.wants(t, "ECHO hello", "SUBSCRIBE wake", "ECHO hello", "SUBSCRIBE wake")
		if l.wants(t, 4, "one", "two", "three"); l.denied != 0 {
			t.Errorf("denied %d times", l.denied)
		}
	})
}

// If the user has no permission, the next attempt follows in a minute; if the server is not ready or has too many
// clients, in about a second.
func TestSubscribeThatFails(t *testing.T) {
	for _, c := range []struct {
		name        string
		get         setup
		denied      int
		least, most int // attempts in three minutes and a half
	}{
		{"not permitted", answersAll("SUBSCRIBE", noPerm), 4, 4, 4},
		{"refused", answersAll("SUBSCRIBE", "-LOADING no\r\n"), 0, 200, 430},
		{"hung up on", answersAll("ECHO", hangUp), 0, 200, 430},
		{"cannot be reached", func(f *fake, _ *Config) { f.refuse(true) }, 0, 200, 430},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			c.get(f, nil)
			t.Cleanup(func() { time.Sleep(10 * ms) }) // runs last: the server may be about to hang up
			l := listenBySecond(t, f)
			for began := time.Now(); time.Since(began) < 210*time.Second && f.attempts() <= c.most; {
				time.Sleep(time.Second)
			}
			synctest.Wait()
			if got := f.attempts(); got < c.least || got > c.most || l.denied != c.denied || len(l.messages) > 0 {
				t.Errorf("%s: %d attempts, denied %d times", c.name, got, l.denied)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		l := listenBySecond(t, f)
		l.refuses.Store(true)
		f.cut()
		time.Sleep(100 * ms)
		l.refuses.Store(false)
		time.Sleep(200 * ms)
		got := strings.Join(f.received(), ", ")
		if l.met.Load() < 3 || !strings.HasSuffix(got, "ECHO hello, ECHO hello, SUBSCRIBE wake") {
			t.Errorf("met %d times: %s", l.met.Load(), got)
		}
	})
}

// listenOver returns a fake and a listener over the main connection, or over a second one.
func listenOver(t *testing.T, main bool) (*fake, *listener) {
	t.Helper()
	if main {
		f, c := connect(t, modern)
		return f, listenTo(t, c.Conn)
	}
	f := newFake()
	return f, listenBySecond(t, f)
}

// A half-open connection is closed within two time limits, while a caller waits for a message.
func TestAHalfOpenSubscriptionIsReplaced(t *testing.T) {
	well, silent := func(*fake) {}, func(f *fake) { f.answerAll("PING", silence) }
	for _, c := range []struct {
		name     string
		main     bool
		needed   bool
		get      func(f *fake)
		attempts int
		pings    bool
	}{
		{"all is well", false, true, well, 1, true},
		{"no caller waits", false, false, silent, 1, false},
		{"it says nothing", false, true, silent, 2, true},
		{"it does not even read", false, true, (*fake).pause, 2, false},
		{"all is well, over the main one", true, true, well, 1, true},
		{"no caller waits, over the main one", true, false, silent, 1, false},
		{"it says nothing, over the main one", true, true, silent, 2, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, l := listenOver(t, c.main)
			l.needed.Store(c.needed)
			f.received()
			c.get(f)
			time.Sleep(2*time.Second + 300*ms)
			if len(f.gate) > 0 {
				f.resume()
			}
			time.Sleep(100 * ms)
			f.wantsAttempts(t, c.attempts)
			if got := f.received(); strings.Contains(fmt.Sprint(got), "PING") != c.pings {
				t.Errorf("%s: the server got %q", c.name, got)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) { // a message is no answer
		f := newFake()
		l := listenBySecond(t, f)
		l.needed.Store(true)
		f.answerAll("PING", silence)
		for range 19 {
			time.Sleep(100 * ms)
			f.say(message("x"))
		}
		time.Sleep(200 * ms)
		l.wants(t, 2, slices.Repeat([]string{"x"}, 19)...)
	})
}

// What a server says unasked is no sign of life: one that answers nothing else is unresponsive, and gets a new
// connection.
func TestMessagesAreNoAnswers(t *testing.T) {
	online3(t, func(t *testing.T, f *fake, c *client) {
		listenTo(t, c.Conn)
		f.answerAll("EVALSHA", silence)
		c.send(first, "a")
		for range 12 {
			time.Sleep(100 * ms)
			f.say(pushed("x"))
		}
		c.is(up, ErrTimeout)
		time.Sleep(100 * ms)
		f.wantsAttempts(t, 2)
	})
}

// A server that says more than can be read loses the connection, and is not connected to again and again: each
// handshake would have a price.
func TestAFloodEndsTheConnection(t *testing.T) {
	other, long := ">2\r\n$10\r\ninvalidate\r\n*0\r\n", strings.Repeat("x", 1<<16)
	for _, c := range []struct {
		main  bool
		what  string
		times int
		ends  bool
	}{
		{true, other, maxRest, false},
		{true, other, maxRest + 1, true},
		{true, pushed("x"), maxMessages, false},
		{true, pushed("x"), maxMessages + 1, true},
		{true, pushed(long), maxLarge/len(long) + 1, true},
		{false, message("x"), maxMessages, false},
		{false, message("x"), maxMessages + 1, true},
		{false, "*2\r\n$4\r\npong\r\n$0\r\n\r\n", maxRest + 1, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, _ := listenOver(t, c.main)
			time.Sleep(10 * ms)
			f.say(strings.Repeat(c.what, c.times))
			time.Sleep(900 * ms)
			if got := f.attempts(); (got > 1) != c.ends {
				t.Errorf("%t, %d times %.40q: %d attempts", c.main, c.times, c.what, got)
			}
		})
	}
	online3(t, func(_ *testing.T, f *fake, c *client) {
		f.answerAll("PING", strings.Repeat(other, maxRest+1)+"+PONG\r\n")
		for range 600 {
			time.Sleep(100 * ms)
			c.Ask(func([]any, error) {}, []any{"PING"})
		}
		if got := f.attempts(); got < 10 || got > 200 {
			t.Errorf("%d attempts in a minute, want one a second, about", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.answerAll("SUBSCRIBE", "*3\r\n$9\r\nsubscribe\r\n$4\r\nwake\r\n:1\r\n"+strings.Repeat(message("x"), maxMessages+1))
		listenBySecond(t, f)
		time.Sleep(3 * time.Second)
		if got := f.attempts(); got < 5 || got > 20 {
			t.Errorf("%d attempts of a second connection in three seconds", got)
		}
	})
}

// online3 is online with a fake that speaks RESP3.
func online3(t *testing.T, test func(t *testing.T, f *fake, c *client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t, modern)
		f.wants(t, "HELLO 3")
		test(t, f, c)
	})
}

// asPush makes a push of a list.
func asPush(list string) string { return ">" + list[1:] }

func pushed(text string) string { return asPush(message(text)) }

// One connection takes requests and messages, and the next one after it subscribes by itself.
func TestMessagesComeOverTheMainConnection(t *testing.T) {
	online3(t, func(t *testing.T, f *fake, c *client) {
		l := listenTo(t, c.Conn)
		f.wants(t, "SUBSCRIBE wake", "PING")
		f.answer("ECHO #0", pushed("one")+"+OK\r\n"+pushed("two"))
		c.send(native).wants("OK")
		f.cut()
		time.Sleep(100 * ms)
		f.wants(t, "ECHO #0", "HELLO 3", "SUBSCRIBE wake", "PING")
		f.say(pushed("three"))
		l.wants(t, 0, "main: one", "main: two", "main: three")
		f.wantsAttempts(t, 2)
	})
}

// The subscription follows when the server, or the proxy in front of it, speaks another protocol from the next
// connection on.
func TestASubscriptionFollowsTheProtocol(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
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
		l.wants(t, 2, "main: one", "two")
		f.wantsAttempts(t, 5)
	})
}

// If there is no connection yet, nothing is subscribed to: which protocol it will be is not known.
func TestSubscribeBeforeTheFirstConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t, modern, func(f *fake, _ *Config) { f.refuse(true) })
		l := listenTo(t, c.Conn)
		time.Sleep(time.Second)
		f.refuse(false)
		time.Sleep(4 * time.Second) // the longest pause
		f.wants(t, "HELLO 3", "SUBSCRIBE wake", "PING")
		l.wants(t, 0)
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
		online3(t, func(t *testing.T, f *fake, cl *client) {
			f.answerAll("SUBSCRIBE", c.reply)
			l := listenTo(t, cl.Conn)
			for range 210 {
				time.Sleep(time.Second)
				cl.send(native).wants("OK")
			}
			got := strings.Count(strings.Join(f.received(), " "), "SUBSCRIBE")
			if f.wantsAttempts(t, 1); got < c.least || got > c.most || l.denied != c.denied {
				t.Errorf("%q: %d attempts, denied %d times", c.reply, got, l.denied)
			}
			f.recover()
			time.Sleep(time.Minute)
			f.say(pushed("at last"))
			l.wants(t, 0, "main: at last")
		})
	}
}

// A refusal is not overlooked, even if it comes before anybody waits for it.
func TestAnEarlyRefusal(t *testing.T) {
	online3(t, func(t *testing.T, f *fake, c *client) {
		f.answer("SUBSCRIBE", "-LOADING no\r\n")
		c.Hear(&Subscription{Channel: "wake"})
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
		early := pushed("before HELLO") + "%1\r\n+proto\r\n:3\r\n" + pushed("before connected")
		f, c := connect(t, modern, answers("HELLO", early))
		f.answer("SUBSCRIBE", pushed("before SUBSCRIBE"))
		f.answer("PING", silence)
		l := listenTo(t, c.Conn)
		f.say(">3\r\n+subscribe\r\n+wake\r\n:1\r\n+PONG\r\n")
		f.say(">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\na\r\n" + ">0\r\n" + ">3\r\n+message\r\n+other\r\n+x\r\n")
		f.say(">3\r\n+subscribe\r\n+wake\r\n:1\r\n" + pushed("counts"))
		c.send(native).wants("OK")
		f.say(readOnly + pushed("from a replica"))
		l.wants(t, 0, "main: counts")
	})
}

// A server that speaks RESP3 and takes no commands on a subscribed connection gets two connections. What it refused
// meanwhile fails, and undos are sent again.
func TestAServerThatTakesNoCommandsOnceSubscribed(t *testing.T) {
	cannot := "-ERR Can't execute 'evalsha': only (P)SUBSCRIBE / PING / QUIT are allowed in this context\r\n"
	for name, get := range map[string]func(f *fake){
		"it answers as to subscribers": func(f *fake) { f.answer("PING", pong); f.answer("EVALSHA", cannot, cannot) },
		"it pushes the answer":         func(f *fake) { f.answer("PING", asPush(pong)); f.answer("EVALSHA", cannot, cannot) },
		"it confirms as in RESP2":      func(f *fake) { f.answer("SUBSCRIBE", "*"+pushed("x")[1:]) },
	} {
		t.Run(name, func(t *testing.T) {
			online3(t, func(t *testing.T, f *fake, c *client) {
				get(f)
				c.mu.Lock()
				c.channel = "wake"
				c.sendSubscribe() // ahead of both, in one batch
				c.mu.Unlock()
				r, u := c.send(first, "a"), c.send(undo, "b")
				l := listenTo(t, c.Conn)
				time.Sleep(2 * time.Second)
				if !r.isTold() || r.err == nil || !u.isDone() {
					t.Errorf("a request has a reply: %v; or the undo was dropped: %t", r.err, u.isDone())
				}
				got := f.received()
				if n := len(got); n < 3 || !slices.Equal(slices.Sorted(slices.Values(got[n-3:])),
					[]string{"ECHO hello", "EVALSHA undo 1 b #1", "SUBSCRIBE wake"}) {
					t.Errorf("the server got %q", got)
				}
				f.wantsAttempts(t, 3)
				l.wants(t, 1)
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
			online3(t, func(t *testing.T, f *fake, c *client) {
				wants := func(when string, resp3 bool) {
					t.Helper()
					time.Sleep(5 * time.Second)
					c.is(up, nil)
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

// After the end of a subscription no message comes.
func TestNoMessageAfterTheEnd(t *testing.T) {
	online3(t, func(t *testing.T, f *fake, c *client) {
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
