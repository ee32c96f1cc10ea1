package redisconn

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/lua"
)

// HELLO takes no round trip of its own if there are scripts to ask for, and comes after the handshake.
func TestHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.modern = true
		f.answer("SCRIPT EXISTS", "*1\r\n:1\r\n")
		config := f.config()
		config.Scripts = []*lua.Script{first.Script}
		config.Handshake = func(do Do) error {
			_, err := do([]any{"TIME"})
			f.mu.Lock()
			f.writes = 0
			f.mu.Unlock()
			return err
		}
		c := start(t, "redis://fake", config)
		synctest.Wait()
		f.wants(t, "TIME", "HELLO 3", "SCRIPT EXISTS first")
		if up, err := c.State(); !up || err != nil || f.writes != 1 {
			t.Errorf("connected %t, %v, after %d writes", up, err, f.writes)
		}
	})
}

// A server that refuses HELLO, whatever the reason, or answers something else, takes requests in RESP2.
func TestHelloIsRefused(t *testing.T) {
	for _, reply := range []string{
		"-ERR unknown command\r\n", "-NOPROTO unsupported protocol version\r\n", noPerm, "+OK\r\n",
		"*2\r\n$5\r\nproto\r\n:2\r\n", "*0\r\n", "%1\r\n:1\r\n:3\r\n", "$-1\r\n",
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.modern = true
			f.answerAll("HELLO", reply)
			c := start(t, "redis://fake", f.config())
			synctest.Wait()
			r := c.send(native)
			synctest.Wait()
			r.wants("OK")
			f.upgrade(false)
			listenTo(t, c.Conn)
			f.wants(t, "HELLO 3", "ECHO #0", "ECHO hello", "SUBSCRIBE wake")
			if f.attempts() != 2 {
				t.Errorf("%q: %d connections, want two", reply, f.attempts())
			}
		})
	}
}

// A proxy that breaks the connection at HELLO, or says nothing, is not asked again for an hour.
func TestHelloBreaksTheConnection(t *testing.T) {
	for _, reply := range []string{hangUp, silence, "what?\r\n"} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake()
			f.modern = true
			f.answer("HELLO", reply)
			config := f.config()
			var reasons []string
			var c *client
			config.OnChange = func() {
				if _, err := c.State(); err != nil {
					reasons = append(reasons, err.Error())
				}
			}
			c = &client{Conn: must(New("redis://user:secret@fake", config))(t), t: t}
			c.Start()
			t.Cleanup(c.end)
			time.Sleep(2 * time.Second)
			if up, err := c.State(); !up || err != nil || f.attempts() != 2 {
				t.Errorf("%q: connected %t, %v, %d attempts", reply, up, err, f.attempts())
			}
			if len(reasons) != 1 || !strings.Contains(reasons[0], "at HELLO 3") || strings.Contains(reasons[0], "secret") {
				t.Errorf("%q: the reasons were %q", reply, reasons)
			}
			f.wants(t, "AUTH user secret", "HELLO 3", "AUTH user secret")
			time.Sleep(plainFor)
			f.cut()
			time.Sleep(time.Second)
			f.wants(t, "AUTH user secret", "HELLO 3")
		})
	}
}

// What breaks the connection after the reply to HELLO is not HELLO's fault; nor is Close.
func TestHelloIsNotToBlame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.modern = true
		f.answer("SCRIPT EXISTS", hangUp)
		f.answer("SCRIPT LOAD", hangUp)
		config := f.config()
		config.Scripts = []*lua.Script{first.Script}
		c := start(t, "redis://fake", config)
		time.Sleep(time.Second)
		ask, load := "SCRIPT EXISTS first", "SCRIPT LOAD first"
		f.wants(t, "HELLO 3", ask, "HELLO 3", ask, load, "HELLO 3", ask, load)
		if up, err := c.State(); !up || err != nil {
			t.Errorf("connected %t, %v", up, err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.answer("HELLO", silence)
		c := start(t, "redis://fake", f.config())
		synctest.Wait()
		if c.Close(); !c.plainUntil.IsZero() {
			t.Error("HELLO is to blame for Close")
		}
	})
}

// A server that says more than it was asked ends the connection.
func TestTooManyRepliesToHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.answerAll("HELLO", "-ERR no\r\n+OK\r\n")
		c := start(t, "redis://fake", f.config())
		synctest.Wait()
		if up, err := c.State(); up || !errors.Is(err, errUnasked) {
			t.Errorf("connected %t, %v", up, err)
		}
	})
}
