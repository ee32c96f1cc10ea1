// Command etcd is one member of an etcd cluster for the benchmarks, as a file says: a process by itself, so that it can
// be killed and frozen. It is a module by itself, so that continuous integration, which does not measure, need not
// build a server.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

func main() {
	c, err := embed.ConfigFromFile(os.Args[1])
	if err == nil {
		var e *embed.Etcd
		if e, err = embed.StartEtcd(c); err == nil {
			err = <-e.Err() // until it is killed
		}
	}
	fmt.Fprintln(os.Stderr, "etcd:", err)
	os.Exit(1)
}
