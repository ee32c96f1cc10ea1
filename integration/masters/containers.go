package masters

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tclog "github.com/testcontainers/testcontainers-go/log"

	"github.com/quorumlock/redlock/internal/ports"
)

const (
	loopback = "127.0.0.1"
	dataDir  = "/data" // the master's directory inside the container

	// labelOwner marks our containers with the process that started them.
	labelOwner = "io.github.quorumlock.redlock.owner"
)

var redisPort = network.MustParsePort("6379/tcp")

// containers runs masters in a Docker engine.
type containers struct {
	engine client.APIClient
	image  string
	origin string // how the image was come by
}

// prepare makes testcontainers work where there is no registry, and inside a container.
var prepare = sync.OnceValue(func() error {
	tclog.SetDefault(silence{})
	// The reaper that testcontainers starts to clean up after a crash is an image of its own; we sweep by label instead.
	err := os.Setenv("TESTCONTAINERS_RYUK_DISABLED", "true")
	if _, inContainer := os.Stat("/.dockerenv"); inContainer == nil {
		// Else it takes the gateway's address for the engine's, and waits a
		// minute for ports that we bind to the loopback address.
		err = errors.Join(err, os.Setenv("TESTCONTAINERS_HOST_OVERRIDE", loopback))
	}
	return err
})

// silence keeps testcontainers' progress messages out of the tests' output.
type silence struct{}

func (silence) Printf(string, ...any) {}

// NewContainers returns the provider that runs Redis in containers. The image is the one that REDLOCK_REDIS_IMAGE
// names; "host" is one that is built from this machine's own redis-server; unset, it is redis:8-alpine where that can
// be had, else the one from the host.
func NewContainers(ctx context.Context) (Provider, error) {
	if err := prepare(); err != nil {
		return nil, err
	}
	engine, err := findEngine(ctx)
	if err != nil {
		return nil, fmt.Errorf("the provider %q needs a Docker engine that answers: install and start one "+
			"(Debian: apt-get install docker.io): %w", Containers, err)
	}
	sweep(ctx, engine)
	c := containers{engine: engine}
	c.image, c.origin, err = findImage(ctx, engine)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Image returns the image that NewContainers would make containers of, and makes sure that the engine has it.
func Image(ctx context.Context) (string, error) {
	engine, err := findEngine(ctx)
	if err != nil {
		return "", err
	}
	ref, _, err := findImage(ctx, engine)
	return ref, err
}

func findEngine(ctx context.Context) (client.APIClient, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	p, err := newDockerProvider()
	if err != nil {
		return nil, err
	}
	engine := p.Client()
	if _, err := engine.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, err
	}
	return engine, nil
}

// newDockerProvider is testcontainers', whose search for an engine panics where there is none.
func newDockerProvider() (p *testcontainers.DockerProvider, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("no Docker engine: %v", r)
		}
	}()
	return testcontainers.NewDockerProvider()
}

// sweep removes containers whose process is gone: after a timeout's panic
// nobody else does. It is best effort; a container of ours that stays harms nobody.
func sweep(ctx context.Context, engine client.APIClient) {
	ours := client.Filters{}.Add("label", labelOwner)
	found, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: ours})
	if err != nil {
		return
	}
	for _, c := range found.Items {
		pid, err := strconv.Atoi(c.Labels[labelOwner])
		if err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_, _ = engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
}

func (containers) Name() string     { return Containers }
func (c containers) String() string { return Containers + " (image " + c.image + ", " + c.origin + ")" }

// Launch implements [Provider].
func (c containers) Launch(ctx context.Context, spec Spec) (n *Node, err error) {
	err = ports.Serve(func(port ports.Port) error {
		b := &box{containers: c, spec: spec, port: port}
		if err := b.Start(ctx); err != nil {
			return errors.Join(fmt.Errorf("start %s: %w", port.Addr(), err), b.Remove(context.WithoutCancel(ctx)))
		}
		n = &Node{host: b, addr: port.Addr(), spec: spec}
		return nil
	})
	return n, err
}
