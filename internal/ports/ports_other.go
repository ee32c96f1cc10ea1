//go:build !linux

package ports

import "net"

// Keep chooses a port. It cannot keep it here: whoever binds it should be ready to ask for another.
func Keep() (Port, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return Port{}, err
	}
	return Port{l.Addr().(*net.TCPAddr).Port, func() {}}, l.Close()
}
