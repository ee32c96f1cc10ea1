// Package ports keeps TCP ports for servers of a test, also while they are down.
//
// It knows how the kernel gives ports away. It must not know what listens on them.
package ports

import (
	"net"
	"strconv"
	"strings"
)

// Port is a port on 127.0.0.1 that was chosen by the kernel. It stays the test's own until Release: a server that is
// killed and started again finds it free, although hundreds of clients are dialling and other tests start
// servers in the meantime.
type Port struct {
	Number  int
	release func()
}

// Serve keeps a port and starts a server on it. Where somebody else was faster to take that port, it tries another one,
// three in all. A port whose server does not start is released.
func Serve(start func(p Port) error) error {
	for attempt := 1; ; attempt++ {
		p, err := Keep()
		if err != nil {
			return err
		}
		if err = start(p); err == nil {
			return nil
		}
		p.Release()
		said := strings.ToLower(err.Error()) // the kernel's, or what redis-server or a Docker engine says
		taken := strings.Contains(said, "address already in use") || strings.Contains(said, "port is already allocated")
		if !taken || attempt == 3 {
			return err
		}
	}
}

// Addr returns host:port.
func (p Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)) }

// Release gives the port back. Nothing of the test may use it any more.
func (p Port) Release() { p.release() }
