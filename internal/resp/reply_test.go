package resp

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
)

// The error code of an error reply, wherever it stands.
func TestCode(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("NOPERM no"), ""},
		{redis.Error("NOPERM no"), "NOPERM"},
		{fmt.Errorf("it says: %w", redis.Error("OOM no")), "OOM"},
		{redis.Error("ERR no"), "ERR"},
		{redis.Error("\x1b[1M no"), "ERR"},
		{redis.Error(strings.Repeat("A", 99)), "ERR"},
		{redis.Error("no such thing"), "ERR"},
		{redis.Error("NOSCRIPT"), "NOSCRIPT"},
		{redis.Error("ERR max number of clients reached"), "MAXCLIENTS"},
		{redis.Error("ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed"), "OOM"},
		{redis.Error("ERR Error running script (call to f_1): @user_script:1: no"), "ERR"},
	} {
		cases.Equals(t, Code(c.err), c.want, "%v", c.err)
	}
}

// An odd reply is described by its beginning: it may be long, or a secret.
func TestUnexpected(t *testing.T) {
	long := []byte(strings.Repeat("x", 99))
	got := Unexpected([]any{nil, int64(4), "OK", "a\n", []any{redis.Error("ERR secret")}, long, 1}).Error()
	cases.Equals(t, got, `unexpected reply [<nil> 4 OK "a\n" [an error] "`+strings.Repeat("x", 30)+`"… …]`, "an odd reply")
}
