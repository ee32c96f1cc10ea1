// Package ports reserves TCP ports for a test's servers, also while the servers are down.
//
// It knows how the kernel assigns ports. It must not know what listens on them.
package ports

import (
	"net"
	"strconv"
	"strings"
)

// Port is a port on 127.0.0.1 that the kernel chose. It stays reserved until Release: a server that is killed finds it
// free when it is started again, although hundreds of clients dial and other tests start servers in the meantime.
type Port struct {
	Number  int
	release func()
}

// Serve reserves a port and starts a server on it. If another process took that port first, it tries another one, three
// in all. It releases a port whose server does not start.
func Serve(start func(p Port) error) error {
	for attempt := 1; ; attempt++ {
		p, err := Reserve()
		if err != nil {
			return err
		}
		if err = start(p); err == nil {
			return nil
		}
		p.Release()
		said := strings.ToLower(err.Error()) // from the kernel, redis-server or a Docker engine
		taken := strings.Contains(said, "address already in use") || strings.Contains(said, "port is already allocated")
		if !taken || attempt == 3 {
			return err
		}
	}
}

// Addr returns host:port.
func (p Port) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)) }

// Release gives the port back. The test must not use it any more.
func (p Port) Release() { p.release() }
