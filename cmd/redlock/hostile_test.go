package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/resp"
	"github.com/quorumlock/redlock/redlocktest"
)

// evil sets a terminal's title, colours, turns the direction of what follows, begins lines, rings; it has C1 as UTF-8
// and as a byte.
const evil = "\x1b]0;PWNED\x07\x1b[31mred \u202e gnihtemos \u2066\u009b31m\u0085\x9b31m tab\there \rbell\x07\x7f"

// lies are what a hostile node answers: what is on the wire, or "" for what the master behind it says.
var lies = map[string]func(command []string) string{
	"the truth":     func([]string) string { return "" }, // about what another client has written
	"errors":        func([]string) string { return "-ERR " + evil + "\r\n" },
	"codes":         func([]string) string { return "-" + evil + "\r\n" },
	"long errors":   func([]string) string { return "!60000\r\n" + strings.Repeat(evil+"\n", 1000)[:60000] + "\r\n" },
	"texts":         func([]string) string { return bulk(evil) },
	"statuses":      func([]string) string { return "+" + evil + "\r\n" },
	"arrays":        func([]string) string { return "*4\r\n" + strings.Repeat(bulk(evil), 4) },
	"garbage":       func([]string) string { return evil + "\r\n" },
	"web":           func([]string) string { return "HTTP/1.1 400 " + evil + "\r\n\r\n" },
	"script errors": scripts("-ERR " + evil + "\r\n"),
	"script texts":  scripts(bulk(evil)),
	"script arrays": scripts("*4\r\n" + strings.Repeat(bulk(evil), 4)),
	"takers":        scripts("*1\r\n*4\r\n:0\r\n" + bulk(evil) + ":5000\r\n" + bulk(evil)),
	"inform": func(command []string) string {
		if !strings.EqualFold(command[0], "info") {
			return ""
		}
		return bulk(strings.NewReplacer("{}", strings.ReplaceAll(evil, "\r", "")).Replace("role:master{}\r\n" +
			"redis_version:7{}\r\nredis_mode:{}\r\nmaster_host:{}\r\nmaster_port:{}\r\nuptime_in_seconds:99999\r\n" +
			"run_id:0123456789012345678901234567890123456789\r\nmaster_replid:0123456789012345678901234567890123456789\r\n" +
			"maxmemory:9\r\nmaxmemory_policy:noevic{}tion\r\naof_enabled:1\r\n"))
	},
	"settle": func(command []string) string {
		if !strings.EqualFold(command[0], "config") {
			return ""
		}
		return "*2\r\n" + bulk(command[2]) + bulk(evil)
	},
}

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

func scripts(reply string) func([]string) string {
	return func(command []string) string {
		if strings.HasPrefix(strings.ToLower(command[0]), "eval") {
			return reply
		}
		return ""
	}
}

// hostile returns the address of a node that lies; what is no lie, the master says.
func hostile(t *testing.T, master string, lie func(command []string) string) string {
	t.Helper()
	listener := cases.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				behind, err := net.Dial("tcp", master)
				if err != nil {
					return
				}
				defer behind.Close()
				converse(conn, behind, lie)
			}()
		}
	}()
	return listener.Addr().String()
}

func converse(client, master net.Conn, lie func([]string) string) {
	commands, replies := resp.NewDecoder(client), bufio.NewReader(master)
	var to resp.Encoder
	for {
		all, err := commands.Take(nil)
		for _, one := range all {
			args, _ := redis.Strings(one.Value, nil)
			if len(args) == 0 {
				return
			}
			said := lie(args)
			if said == "" {
				words := make([]any, len(args))
				for i, arg := range args {
					words[i] = arg
				}
				to.Command(words...)
				if to.Flush(master) == nil {
					said = reply(replies)
				}
			}
			if _, err := io.WriteString(client, said); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// reply reads a reply as it is on the wire.
func reply(r *bufio.Reader) string {
	line, _ := r.ReadString('\n')
	if line == "" {
		return ""
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch line[0] {
	case '$', '=':
		if n < 0 {
			return line
		}
		text := make([]byte, n+2)
		_, _ = io.ReadFull(r, text)
		return line + string(text)
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for range n {
			line += reply(r)
		}
	}
	return line
}

// until ends what it is the context of when something is written.
type until struct {
	text bytes.Buffer
	end  context.CancelFunc
}

func (u *until) Write(p []byte) (int, error) {
	u.end()
	return u.text.Write(p)
}

// Whatever a node says, and whatever another client has written, nothing reaches a terminal but text, and no more of
// it than people can read.
func TestNothingButTextIsPrinted(t *testing.T) {
	long := strings.Repeat("x", 1<<16)
	verbs := [][]string{
		{"doctor"},
		{"status", "name"},
		{"run", "--no-wait", "name", "true"}, // also of one hostile node of three
		{"top", "name", "long", evil},
		{"ls"},
		{"status", "long"},
		{"status", evil},
		{"watch", "name"},
		{"watch", evil},
		{"wait", "--wait=10ms"},
		{"run", "--no-wait", evil, "true"},
		{"run", "--wait=100ms", "name", "true"},
		{"run", "--no-wait", "long", "true"},
		{"once", "--no-wait", "name", "true"},
		{"unlock", "--force", "--yes", "name"},
		{"unlock", "--force", "--yes", evil},
		{"unlock", "--force", "--yes", "--older-than=1ms", ""},
		{"forget", "name"},
	}
	for name, lie := range lies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := redlocktest.New(t, 3)
			for _, hostiles := range []int{1, 3} {
				var nodes []string
				for i := range 3 {
					master := cases.Must(redis.Dial("tcp", c.Addr(i)))(t)
					defer master.Close()
					const ours = "019ab329-007b-774b-9d2c-b27dc6a4f0b1"
					for key, owner := range map[string]string{"name": evil, "long": long, evil: ours} {
						cases.Must(master.Do("SET", key, owner, "PX", 60000))(t)
						cases.Must(master.Do("SET", "redlock:value:"+key, owner[:min(len(owner), 36)]+" "+evil+long, "PX", 60000))(t)
						cases.Must(master.Do("ZADD", "redlock:tokens", 1, key))(t)
					}
					nodes = append(nodes, c.Addr(i))
					if i < hostiles {
						nodes[i] = hostile(t, c.Addr(i), lie)
					}
				}
				for i, verb := range verbs {
					if hostiles == 1 && i > 2 {
						break
					}
					for _, form := range [][]string{nil, {"--json"}}[:1+hostiles/3] {
						args := slices.Concat([]string{
							"redlock", verb[0], "--nodes=" + strings.Join(nodes, ","),
							"--node-timeout=1s", "--no-restart-guard",
						}, form, verb[1:])
						ctx, end := context.WithCancel(t.Context())
						out, said := &until{end: func() {}}, &until{end: func() {}}
						if verb[0] == "watch" {
							out.end, said.end = end, end
						}
						run(ctx, args, out, said)
						end()
						judge(t, args, form != nil, out.text.String(), said.text.String())
					}
				}
			}
		})
	}
}

func judge(t *testing.T, args []string, object bool, texts ...string) {
	t.Helper()
	for _, text := range texts {
		bad := func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }
		if at := strings.IndexFunc(text, bad); at >= 0 || !utf8.ValidString(text) {
			t.Errorf("%q: not text at %d of %q", args[1:], at, text)
		}
		if !object && len(text) > 10<<10 {
			t.Errorf("%q: %d bytes", args[1:], len(text))
		}
		for in := json.NewDecoder(strings.NewReader(text)); object && in.More(); {
			var any json.RawMessage
			if err := in.Decode(&any); err != nil {
				t.Errorf("%q: %v: %s", args[1:], err, text)
				break
			}
		}
	}
}
