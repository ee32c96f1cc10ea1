package resp

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// A command is an array of bulk strings, whatever its arguments are.
func TestEncoder(t *testing.T) {
	e := &Encoder{}
	for range 2 { // the second one begins anew
		e.ArgString("SET")
		e.Arg("a b")
		e.Arg([]byte("c\r\n"))
		e.Arg(-7)
		e.Arg(int64(1 << 40))
		e.Arg(time.Second)
		e.ArgEncoded(AppendBulk(AppendBulk(nil, "x"), ""), 2)
		e.ArgJoined(3, func(b []byte) []byte { return append(b, "y z"...) })
		e.End()
	}
	want := []string{"SET", "a b", "c\r\n", "-7", "1099511627776", "1s", "x", "", "y z"}
	var sent bytes.Buffer
	if err := e.Flush(&sent); err != nil || len(e.Bytes()) > 0 {
		t.Errorf("got %v, and %q is left", err, e.Bytes())
	}
	all := redigo(sent.Bytes()) // a command looks like a reply
	for range 2 {
		if got, err := redis.Strings(all.Receive()); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if more, err := all.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("and %q, %v", more, err)
	}
}
