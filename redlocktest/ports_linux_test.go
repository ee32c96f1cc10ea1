package redlocktest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// The address of a node that is down is nobody else's: a test's Locker would meet the master of another test there.
func TestAKilledNodeKeepsItsPort(t *testing.T) {
	c := redlocktest.New(t, 1)
	// The kernel gives a port to whoever asks for any if this would get it.
	alone := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) {
			failed = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 0)
		})
		return errors.Join(err, failed)
	}}
	listen := func() error {
		ln, err := alone.Listen(t.Context(), "tcp", c.Addr(0))
		if err == nil {
			_ = ln.Close()
		}
		return err
	}
	c.Kill(0)
	if err := listen(); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("got %v, want that the address is in use", err)
	}
	cases.NoError(t, c.Revive(0))
	c.Close()
	cases.NoError(t, listen())
}
