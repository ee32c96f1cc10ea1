// Package ports keeps TCP ports for servers of a test, also while they are down.
//
// It knows how the kernel gives ports away. It must not know what listens on them.
package ports

// Port is a port on 127.0.0.1 that was chosen by the kernel. It stays the test's own until Release: a server that is
// killed and started again finds it free, although hundreds of clients are dialling and other tests start
// servers in the meantime.
type Port struct {
	Number  int
	release func()
}

// Release gives the port back. Nothing of the test may use it any more.
func (p Port) Release() { p.release() }
