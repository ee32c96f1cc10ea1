// Package ports picks TCP ports that stay free while a test's server is down.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken below the range from which systems draw the local ports of
// outgoing connections (32768 on Linux, 49152 elsewhere): a server that is
// killed and started again must find its own port free, although hundreds of
// clients are dialling in the meantime.
const (
	lowest  = 20000
	highest = 32767
)

// Free returns a port on 127.0.0.1 to which nothing is bound at the moment.
// Somebody else may still be quicker: whoever binds it should be ready to ask again.
func Free() (int, error) {
	for range 100 {
		port := lowest + rand.IntN(highest-lowest+1)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, fmt.Errorf("no free port between %d and %d after 100 tries", lowest, highest)
}
