//go:build !linux

package ports

import "net"

// Reserve chooses a port. It cannot reserve it on this system, so another process may take the port: see Serve.
func Reserve() (Port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Port{}, err
	}
	return Port{l.Addr().(*net.TCPAddr).Port, func() {}}, l.Close()
}
