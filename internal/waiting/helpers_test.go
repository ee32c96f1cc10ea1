package waiting

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

const ms = time.Millisecond

func equals[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

func number(t testing.TB, text string) int {
	t.Helper()
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// poll returns a poll in which nobody has voted.
func poll(e *quorum.Electorate) *quorum.Poll {
	p := &quorum.Poll{}
	p.Init(e)
	p.Begin()
	return p
}
