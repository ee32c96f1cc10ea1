package ports

import (
	"errors"
	"net"
	"strconv"
	"syscall"
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

// A crowd of clients takes any port that the kernel finds for its connections, and would take that of a server that was
// killed. Here each connection may have one port only, so that one attempt is as good as thirty thousand.
func TestNoConnectionTakesAReservedPort(t *testing.T) {
	elsewhere := cases.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = elsewhere.Close() }()
	p := cases.Must(Reserve())(t)
	defer p.Release()
	if err := connectFrom(t, p.Number, elsewhere.Addr()); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("before a server was there: got %v, want that the port is not available", err)
	}
	server := cases.Must(net.Listen("tcp", p.Addr()))(t)
	client := cases.Must(net.Dial("tcp", p.Addr()))(t)
	served := cases.Must(server.Accept())(t)
	_ = server.Close() // and its connections stay: the kernel knows the port as one of connections, too
	if err := connectFrom(t, p.Number, elsewhere.Addr()); !errors.Is(err, syscall.EADDRNOTAVAIL) {
		t.Errorf("after the server has ended: got %v, want that the port is not available", err)
	}
	_, _ = served.Close(), client.Close()
	again, err := net.Listen("tcp", p.Addr())
	if err != nil {
		t.Fatalf("the server starts again: %v", err)
	}
	_ = again.Close()

	for range 20 { // another process may take what was released
		var free Port
		if free, err = Reserve(); err != nil {
			t.Fatal(err)
		}
		free.Release()
		if err = connectFrom(t, free.Number, elsewhere.Addr()); err == nil {
			return
		}
	}
	t.Errorf("ports that were released: got %v; then the attempts above prove nothing", err)
}

// connectFrom connects to an address, from a port that the kernel chooses out of a range of one.
func connectFrom(t *testing.T, port int, to net.Addr) error {
	t.Helper()
	const localPortRange = 51 // IP_LOCAL_PORT_RANGE, since Linux 6.3
	fd := cases.Must(syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	defer func() { _ = syscall.Close(fd) }()
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IP, localPortRange, port<<16|port); err != nil {
		t.Skipf("this kernel does not narrow the range of ports for one socket: %v", err)
	}
	return syscall.Connect(fd, &syscall.SockaddrInet4{Port: to.(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}})
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
