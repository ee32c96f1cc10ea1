package fleet

import (
	"errors"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/ports"
)

// soon is how long a test waits for what should happen at once, before it calls it a failure: far longer than any
// machine may be busy with something else.
const soon = 30 * time.Second

// Soon waits until the condition holds, and reports whether it came to that.
func Soon(is func() bool) bool {
	for deadline := time.Now().Add(soon); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Eventually fails the test unless the condition holds soon.
func Eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	if !Soon(is) {
		t.Fatalf("%v have passed and still not: %s", soon, what)
	}
}

// WantIs fails the test unless the error is one of its kind.
func WantIs(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// FreshAddr returns an address at which nothing listens.
func FreshAddr(t *testing.T) string {
	t.Helper()
	port := cases.Must(ports.Reserve())(t)
	t.Cleanup(port.Release)
	return port.Addr()
}
