package conformance

import (
	"bufio"
	"fmt"
	"net"
	"regexp"
	"strings"
	"testing"
)

// resp3Cases are commands that are sent in this order to a connection that has asked for RESP3, and patterns of the
// bytes that come of them. The others are as in the table, which is RESP2's.
var resp3Cases = []struct {
	command []string
	want    string
}{
	{[]string{"HELLO", "9"}, `-NOPROTO [^\r]*\r\n`},
	{[]string{"HELLO", "3"}, `%\d\r\n\$6\r\nserver\r\n(?s:.*)\$5\r\nproto\r\n:3\r\n(?s:.*)`},
	{[]string{"DEL", "absent", "z"}, `:\d\r\n`},
	{[]string{"GET", "absent"}, `_\r\n`},
	{[]string{"MGET", "absent"}, `\*1\r\n_\r\n`},
	{[]string{"ZADD", "z", "1.5", "m"}, `:1\r\n`},
	{[]string{"CONFIG", "GET", "maxmemory-policy"}, `%1\r\n\$16\r\nmaxmemory-policy\r\n\$10\r\nnoeviction\r\n`},
	{[]string{"INFO", "replication"}, `=\d+\r\ntxt:# Replication\r\nrole:master\r\n(?s:.*)`},
	{[]string{"TIME"}, `\*2\r\n\$10\r\n\d+\r\n\$\d\r\n\d+\r\n`},
	{[]string{"EVAL", "return {1, false, 'x'}", "0"}, `\*3\r\n:1\r\n_\r\n\$1\r\nx\r\n`},
	{[]string{"EVAL", "return redis.call('ZSCORE', 'z', 'm')", "0"}, `\$3\r\n1\.5\r\n`},
	{[]string{"EVAL", "return redis.call('GET', 'absent')", "0"}, `_\r\n`},
	{[]string{"SUBSCRIBE", "wake"}, `>3\r\n\$9\r\nsubscribe\r\n\$4\r\nwake\r\n:1\r\n`},
	{[]string{"GET", "absent"}, `_\r\n`},
	// The message comes before or after the reply, depending on the version.
	{[]string{"EVAL", "return redis.call('PUBLISH', 'wake', 'up')", "0"}, `(:1\r\n)?` + aMessage + `(:1\r\n)?`},
}

const aMessage = `>3\r\n\$7\r\nmessage\r\n\$4\r\nwake\r\n\$2\r\nup\r\n`

// RESP3 checks how a node speaks over a connection that has asked for RESP3.
func RESP3(t *testing.T, dial func() net.Conn) {
	t.Helper()
	conn := dial()
	defer conn.Close()
	r := bufio.NewReader(conn)
	for _, c := range resp3Cases {
		// A PING follows: what comes before its reply is the reply to the command.
		got, err := said(conn, r, c.command)
		if err != nil {
			t.Fatalf("%v: %v", c.command, err)
		}
		if !regexp.MustCompile(`^` + c.want + `$`).MatchString(got) {
			t.Errorf("%v: got %q, want a match of %q", c.command, got, c.want)
		}
	}
	other := dial()
	defer other.Close()
	if got, err := said(other, bufio.NewReader(other), []string{"PUBLISH", "wake", "up"}); got != ":1\r\n" || err != nil {
		t.Errorf("PUBLISH: got %q, %v", got, err)
	}
	got, err := said(conn, r, []string{"PING", "x"})
	if want := `^` + aMessage + `\$1\r\nx\r\n$`; err != nil || !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("after PUBLISH: got %q, %v, want a match of %q", got, err, want)
	}
}

// said returns what comes of a command, up to the reply to a PING behind it.
func said(conn net.Conn, r *bufio.Reader, command []string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(command))
	for _, arg := range command {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := conn.Write([]byte(b.String() + "*1\r\n$4\r\nPING\r\n")); err != nil {
		return "", err
	}
	var got strings.Builder
	for {
		line, err := r.ReadString('\n')
		if err != nil || line == "+PONG\r\n" {
			return got.String(), err
		}
		got.WriteString(line)
	}
}
