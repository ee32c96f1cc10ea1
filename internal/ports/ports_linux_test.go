package ports

import (
	"errors"
	"net"
	"strconv"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// Servers can use a reserved port again and again; the kernel assigns it to nothing else.
func TestAPortIsKept(t *testing.T) {
	p := cases.Must(Reserve())(t)
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number))
	for range 3 {
		server := cases.Must(net.Listen("tcp", addr))(t)
		if another, err := net.Listen("tcp", addr); err == nil {
			t.Error("two servers listen on it")
			_ = another.Close()
		}
		client := cases.Must(net.Dial("tcp", addr))(t)
		_, _ = client.Close(), server.Close()
		if client, err := net.Dial("tcp", addr); err == nil {
			t.Error("somebody answers while the server is down")
			_ = client.Close()
		}
	}
	var all []net.Listener
	for range 2000 { // of some 28,000 ports that the kernel chooses from
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			break
		}
		all = append(all, l)
		if l.Addr().String() == addr {
			t.Error("it was given to somebody else")
		}
	}
	for _, l := range all {
		_ = l.Close()
	}
	p.Release()
}

// If a server's port is taken, Serve tries another one; after any other failure it does not.
func TestServeTriesAnotherPortWhereOneIsTaken(t *testing.T) {
	for _, of := range []struct {
		says     string
		failures int
		want     int // attempts
		started  bool
	}{
		{"", 0, 1, true},
		{"bind: Address already in use", 2, 3, true},
		{"driver failed: port is already allocated", 1, 2, true},
		{"listen: address already in use", 9, 3, false},
		{"Bad directive", 1, 1, false},
	} {
		var seen []Port
		err := Serve(func(p Port) error {
			if seen = append(seen, p); len(seen) <= of.failures {
				return errors.New(of.says)
			}
			return nil
		})
		if len(seen) != of.want || (err == nil) != of.started {
			t.Errorf("%q %d times: got %v after %d attempts, want %d", of.says, of.failures, err, len(seen), of.want)
		}
		for _, p := range seen {
			p.Release() // a second time, where it failed
		}
	}
}
