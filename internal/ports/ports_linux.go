package ports

import (
	"fmt"
	"sync"
	"syscall"
)

// Reserve reserves a port, by a socket that is bound to it and does not listen. Servers can bind the port as well,
// since they set SO_REUSEADDR as this socket does. But the kernel neither assigns it to a process that asks for any
// port, nor uses it for an outgoing connection: connect skips every port that a socket is bound to. So the port of a
// server that was killed under thousands of clients is safe from their sockets, although it is in the range from which
// those get theirs. A port below that range would be no safer, and nobody would choose it for us: two processes that
// try the same one could both bind it.
func Reserve() (Port, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return Port{}, fmt.Errorf("reserve a port: %w", err)
	}
	number, err := bind(fd)
	if err != nil {
		_ = syscall.Close(fd)
		return Port{}, fmt.Errorf("reserve a port: %w", err)
	}
	return Port{number, sync.OnceFunc(func() { _ = syscall.Close(fd) })}, nil
}

func bind(fd int) (int, error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	return name.(*syscall.SockaddrInet4).Port, nil
}
