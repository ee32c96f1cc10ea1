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
	c := must(New("redis://fake", f.config()))(t)
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
	synctest.Test(t, func(t *testing.T) { // a message answers a ping, too
		f := newFake()
		l := listenBySecond(t, f)
		l.needed.Store(true)
		f.answerAll("PING", silence)
		for range 10 {
			time.Sleep(time.Second - 1)
			f.say(message("x"))
			time.Sleep(time.Nanosecond)
		}
		l.wants(t, 1, slices.Repeat([]string{"x"}, 10)...)
	})
}
