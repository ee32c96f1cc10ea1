// Package masters starts real Redis masters for tests and for measurements, and
// breaks them: kill -9, stop, pause, restart with the data or without.
//
// There are two providers behind one interface. Processes are redis-server children of the test, up in some ten
// milliseconds. Containers are nearer to production: their own network stack, and a pause that the kernel enforces from
// outside. REDLOCK_PROVIDER chooses.
package masters

import (
	"context"
	"fmt"
	"os"
)

// The values of REDLOCK_PROVIDER.
const (
	Processes  = "processes"
	Containers = "containers"
)

// Provider knows one way to run a Redis master.
type Provider interface {
	// Name is the value of REDLOCK_PROVIDER that chooses this provider.
	Name() string
	// String describes it for the log: what runs, in which version.
	String() string
	// Launch starts one master and returns when it answers.
	Launch(ctx context.Context, spec Spec) (*Node, error)
}

// Spec says how a master differs from the default, which is: no password, nothing kept on disk.
type Spec struct {
	// Args come after the defaults on redis-server's command line, and win over
	// them. "{dir}" stands for the master's own directory, "{port}" for its port.
	Args []string
	// Files are put into the master's directory before its first start.
	Files map[string]string
	// User and Password are what the node's URL and its admin connection use.
	// They configure nothing: that is what Args are for.
	User, Password string
	// ClientUser and ClientPassword are what the node's URL has instead, for
	// clients that may do less than the admin connection.
	ClientUser, ClientPassword string
}

// Choose returns the provider that REDLOCK_PROVIDER names. Unset, it is containers where a Docker engine answers and
// processes otherwise. A provider that was asked for and cannot work is an error: no test runs against something else
// than its caller believes.
func Choose(ctx context.Context) (Provider, error) {
	switch name := os.Getenv("REDLOCK_PROVIDER"); name {
	case Processes:
		return NewProcesses()
	case Containers:
		return NewContainers(ctx)
	case "":
		containers, noEngine := NewContainers(ctx)
		if noEngine == nil {
			return containers, nil
		}
		processes, noServer := NewProcesses()
		if noServer == nil {
			return processes, nil
		}
		return nil, fmt.Errorf("no Redis masters to test against: %w; or start a Docker engine: %w", noServer, noEngine)
	default:
		return nil, fmt.Errorf("REDLOCK_PROVIDER is %q: it must be %q or %q", name, Containers, Processes)
	}
}
