package redisconn

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// A server that lacks a script gets the source, once.
func TestAskScript(t *testing.T) {
	online(t, func(t *testing.T, f *fake, c *client) {
		told := ""
		heard := func(reply any, err error) { told += fmt.Sprintf("%v %v", reply, err) }
		call := Call{Script: first.Script, Args: []any{1, "key", "arg"}, Heard: heard}
		asks := func(call Call, want string, commands ...string) {
			t.Helper()
			told = ""
			c.AskScript(call)
			c.settle()
			if !strings.HasPrefix(told, want) || strings.Count(told, "nil") > 1 {
				t.Errorf("told %q, want %q", told, want)
			}
			f.wants(t, commands...)
		}
		const byDigest, bySource = "EVALSHA first 1 key arg", "EVAL first 1 key arg"
		f.answer("EVALSHA", ":7\r\n", "-NOPERM no\r\n", noScript, noScript, noScript)
		f.answer("EVAL", ":8\r\n", noScript)
		f.answer("GET", noScript)
		asks(call, "7 <nil>", byDigest)
		asks(call, "NOPERM no <nil>", byDigest)
		asks(call, "8 <nil>", byDigest, bySource)
		asks(call, "NOSCRIPT ", byDigest, bySource) // a server that never has it
		asks(Call{Args: []any{"GET", "a"}, Heard: heard}, "NOSCRIPT ", "GET a")
		undone := call
		undone.Over = func() bool { return true }
		asks(undone, "<nil> not asked again", byDigest)
		c.Close()
		asks(call, "<nil> not connected")
	})
}

// What costs no round trip of its own: calls go behind the first commands, and as sources behind the next ones.
func TestBehind(t *testing.T) {
	const lacking = redis.Error("NOSCRIPT")
	broken := errors.New("broken")
	for _, c := range []struct {
		replies    [][]any // to each Do; nil: the connection breaks
		sent, told string
		over       bool
	}{
		{[][]any{{"now", 1, 2}, {"then"}}, "TIME EVALSHA GET, TIME", "1 2 ", true},
		{[][]any{{"now", lacking, 2}, {"then", 1}, {"later"}}, "TIME EVALSHA GET, TIME EVAL, TIME", "2 1 ", false},
		{[][]any{{"now", lacking, 2}, {"then"}}, "TIME EVALSHA GET, TIME", "2 " + errOver.Error() + " ", true},
		{[][]any{{"now", lacking, lacking}, {"then", lacking}}, "TIME EVALSHA GET, TIME EVAL", "NOSCRIPT NOSCRIPT ", false},
		{[][]any{nil}, "TIME EVALSHA GET", "broken broken ", false},
	} {
		var sent []string
		told, at := "", 0
		heard := func(reply any, err error) {
			if err != nil {
				reply = err
			}
			told += fmt.Sprint(reply) + " "
		}
		ask := Behind(func(commands ...[]any) ([]any, error) {
			var names []string
			for _, command := range commands {
				names = append(names, command[0].(string))
			}
			sent = append(sent, strings.Join(names, " "))
			if c.replies[at] == nil {
				return nil, broken
			}
			return c.replies[at], nil
		},
			Call{Script: first.Script, Args: []any{0}, Heard: heard, Over: func() bool { return c.over }},
			Call{Args: []any{"GET"}, Heard: heard},
		)
		for ; at < len(c.replies); at++ {
			got, err := ask([]any{"TIME"})
			if r := c.replies[at]; (r == nil) != errors.Is(err, broken) || r != nil && (len(got) != 1 || got[0] != r[0]) {
				t.Errorf("%v: got %v, %v", r, got, err)
			}
		}
		if got := strings.Join(sent, ", "); got != c.sent || told != c.told {
			t.Errorf("%v: sent %q and told %q, want %q and %q", c.replies, got, told, c.sent, c.told)
		}
	}
}
