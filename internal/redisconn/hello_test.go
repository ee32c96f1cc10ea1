package redisconn

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/resp"
)

// HELLO takes no round trip of its own if there are scripts to ask for, and comes after the handshake.
func TestHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, c := connect(t, modern, loads(first), answers("SCRIPT EXISTS", "*1\r\n:1\r\n"), func(f *fake, config *Config) {
			config.Handshake = func(do Do) error {
				_, err := do([]any{"TIME"})
				f.mu.Lock()
				f.writes = 0
				f.mu.Unlock()
				return err
			}
		})
		f.wants(t, "TIME", "HELLO 3", "SCRIPT EXISTS first")
		if c.is(up, nil); f.writes != 1 {
			t.Errorf("connected after %d writes, want one", f.writes)
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
			f, c := connect(t, modern, answersAll("HELLO", reply))
			c.send(native).wants("OK")
			f.upgrade(false)
			listenTo(t, c.Conn)
			f.wants(t, "HELLO 3", "ECHO #0", "ECHO hello", "SUBSCRIBE wake")
			f.wantsAttempts(t, 2)
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
			var reasons []string
			c := start(t, "redis://user:secret@fake", f.config(), func(_ bool, err error) {
				if err != nil {
					reasons = append(reasons, err.Error())
				}
			})
			time.Sleep(2 * time.Second)
			c.is(up, nil)
			f.wantsAttempts(t, 2)
			if len(reasons) != 1 || !strings.Contains(reasons[0], "at HELLO: ") || strings.Contains(reasons[0], "secret") {
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
		f, c := connect(t, modern, loads(first), answers("SCRIPT EXISTS", hangUp), answers("SCRIPT LOAD", hangUp))
		time.Sleep(time.Second)
		ask, load := "SCRIPT EXISTS first", "SCRIPT LOAD first"
		f.wants(t, "HELLO 3", ask, "HELLO 3", ask, load, "HELLO 3", ask, load)
		c.is(up, nil)
	})
	synctest.Test(t, func(t *testing.T) {
		_, c := connect(t, answers("HELLO", silence))
		if c.Close(); !c.dialer.plainUntil.IsZero() {
			t.Error("HELLO is to blame for Close")
		}
	})
}

// A server that says more than it was asked ends the connection.
func TestTooManyRepliesToHello(t *testing.T) {
	for answer, want := range map[string]error{
		"-ERR no\r\n+OK\r\n": errUnasked, ">1\r\n+x\r\n:bad\r\n%1\r\n+proto\r\n:3\r\n": resp.ErrBadReply,
	} {
		synctest.Test(t, func(t *testing.T) {
			_, c := connect(t, modern, answersAll("HELLO", answer))
			c.is(down, want)
		})
	}
}

// A user that has no permission to load scripts can still use them, also where the server does not know SCRIPT.
func TestScriptsThatMayNotBeLoaded(t *testing.T) {
	both := []string{"SCRIPT LOAD first", "SCRIPT LOAD second"}
	for refusal, tried := range map[string][]string{
		noPerm: both,
		"-ERR unknown subcommand 'LOAD'. Try SCRIPT HELP.\r\n":                   both,
		"-ERR unknown command 'SCRIPT', with args beginning with: 'EXISTS' \r\n": nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			f, c := connect(t, loads(first, second), answersAll("SCRIPT", refusal), answers("EVALSHA", noScript))
			c.send(first, "a").wants("as usual")
			f.wants(t, slices.Concat([]string{"SCRIPT EXISTS first second"}, tried,
				[]string{"EVALSHA first 1 a #0", "EVAL first 1 a #0"})...)
		})
	}
}

// A server gets only the scripts that it does not have. One that cannot say gets all.
func TestScriptsThatTheServerHas(t *testing.T) {
	for reply, want := range map[string][]string{
		"*2\r\n:1\r\n:0\r\n": {"SCRIPT LOAD third"},
		"*2\r\n:1\r\n:1\r\n": nil,
		"*1\r\n:1\r\n":       {"SCRIPT LOAD third"},
		"-ERR no\r\n":        {"SCRIPT LOAD first", "SCRIPT LOAD third"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, c := connect(t, loads(first, third), answers("SCRIPT", reply))
			c.is(up, nil)
			f.wants(t, append([]string{"SCRIPT EXISTS first third"}, want...)...)
		})
	}
}

// Whatever answers HELLO: a connection speaks RESP3 only if it says so.
func FuzzHello(f *testing.F) {
	for _, seed := range []string{
		"%1\r\n+proto\r\n:3\r\n", "*2\r\n$5\r\nproto\r\n:2\r\n", "*1\r\n+proto\r\n", "-NOPROTO no\r\n",
		":3\r\n", "$-1\r\n", "%-1\r\n", "*2\r\n*0\r\n*1\r\n-ERR\r\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, wire string) {
		all, err := resp.NewDecoder(strings.NewReader(wire)).Take(nil)
		if err == nil && speaksRESP3(all[0].Value) && !(strings.Contains(wire, "proto") && strings.Contains(wire, ":3")) {
			t.Errorf("%q: taken for RESP3", wire)
		}
	})
}
