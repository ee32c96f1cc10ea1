package masters

import (
	"context"
	"fmt"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// processes runs masters as children of this process.
type processes struct{ binary, version string }

// NewProcesses returns the provider that runs the host's own redis-server.
// REDLOCK_REDIS_SERVER names another binary, a Valkey server for example.
func NewProcesses() (Provider, error) {
	binary, err := redisserver.Find()
	if err != nil {
		return nil, fmt.Errorf("the provider %q needs redis-server: %w", Processes, err)
	}
	version, err := redisserver.Version(binary)
	if err != nil {
		return nil, err
	}
	return processes{binary: binary, version: version}, nil
}

func (processes) Name() string     { return Processes }
func (p processes) String() string { return Processes + " (" + p.version + ")" }

// Launch implements [Provider].
func (p processes) Launch(ctx context.Context, spec Spec) (*Node, error) {
	s, err := redisserver.Launch(ctx, redisserver.Config{
		Binary: p.binary, Args: spec.Args, Files: spec.Files, User: spec.User, Password: spec.Password,
	})
	if err != nil {
		return nil, err
	}
	return &Node{host: process{s}, addr: s.Addr(), spec: spec}, nil
}

// process is a server, of which some things take no time: they need no context.
type process struct{ *redisserver.Server }

func (p process) Wipe(context.Context) error   { return p.Server.Wipe() }
func (p process) Pause(context.Context) error  { return p.Server.Pause() }
func (p process) Resume(context.Context) error { return p.Server.Resume() }
func (p process) Log(context.Context) string   { return p.Server.Log() }
