package masters

import (
	"bytes"
	"context"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/quorumlock/redlock/internal/ports"
	"github.com/quorumlock/redlock/internal/redisserver"
)

type box struct {
	containers
	spec Spec
	port ports.Port // on the host

	mu sync.Mutex // protects id
	id string     // empty: none
}

func (b *box) Start(ctx context.Context) error {
	if err := b.run(ctx); err != nil {
		return err
	}
	dial := func(ctx context.Context) (redis.Conn, error) { return b.spec.dial(ctx, b.port.Addr(), time.Second) }
	return redisserver.Await(ctx, dial,
		func() bool { return b.exited(ctx) }, func() string { return b.Log(context.WithoutCancel(ctx)) })
}

func (b *box) run(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.id != "" {
		_, err := b.engine.ContainerStart(ctx, b.id, client.ContainerStartOptions{})
		return err
	}
	options := []testcontainers.ContainerCustomizer{
		testcontainers.WithCmd(redisserver.Args("0.0.0.0", int(redisPort.Num()), dataDir, b.spec.Args)...),
		testcontainers.WithExposedPorts(redisPort.String()),
		testcontainers.WithLabels(map[string]string{labelOwner: strconv.Itoa(os.Getpid())}),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			// A pinned port: an engine's own choice changes at each restart.
			here := network.PortBinding{HostIP: netip.MustParseAddr(loopback), HostPort: strconv.Itoa(b.port.Number)}
			h.PortBindings = network.PortMap{redisPort: {here}}
		}),
	}
	for name, content := range b.spec.Files {
		options = append(options, testcontainers.WithFiles(testcontainers.ContainerFile{
			Reader: strings.NewReader(content), ContainerFilePath: dataDir + "/" + name, FileMode: 0o644,
		}))
	}
	c, err := testcontainers.Run(ctx, b.image, options...)
	if c != nil {
		b.id = c.GetContainerID() // also of one that did not start: to be removed
	}
	return err
}

func (b *box) container() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.id
}

func (b *box) Kill(ctx context.Context) error {
	// The engine does not kill what it has frozen.
	_, _ = b.engine.ContainerUnpause(ctx, b.container(), client.ContainerUnpauseOptions{})
	_, err := b.engine.ContainerKill(ctx, b.container(), client.ContainerKillOptions{Signal: "SIGKILL"})
	if err != nil {
		if strings.Contains(err.Error(), "is not running") {
			return nil // to kill a dead master is no error, as it is none for a process
		}
		return err
	}
	// The engine answers before the container has gone and its port is free.
	waiting := b.engine.ContainerWait(ctx, b.container(),
		client.ContainerWaitOptions{Condition: container.WaitConditionNotRunning})
	select {
	case <-waiting.Result:
		return nil
	case err := <-waiting.Error:
		return err
	}
}

func (b *box) Stop(ctx context.Context) error {
	seconds := 5
	_, err := b.engine.ContainerStop(ctx, b.container(), client.ContainerStopOptions{Timeout: &seconds})
	return err
}

func (b *box) Pause(ctx context.Context) error {
	_, err := b.engine.ContainerPause(ctx, b.container(), client.ContainerPauseOptions{})
	return err
}

func (b *box) Resume(ctx context.Context) error {
	_, err := b.engine.ContainerUnpause(ctx, b.container(), client.ContainerUnpauseOptions{})
	return err
}

func (b *box) Remove(ctx context.Context) error {
	defer b.port.Release()
	return b.Wipe(ctx)
}

// Wipe removes the container: Start makes another.
func (b *box) Wipe(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.id == "" {
		return nil
	}
	_, err := b.engine.ContainerRemove(ctx, b.id, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
	if err == nil {
		b.id = ""
	}
	return err
}

func (b *box) exited(ctx context.Context) bool {
	found, err := b.engine.ContainerInspect(ctx, b.container(), client.ContainerInspectOptions{})
	return err == nil && !found.Container.State.Running
}

func (b *box) Log(ctx context.Context) string {
	id := b.container()
	if id == "" {
		return ""
	}
	out, err := b.engine.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true})
	if err != nil {
		return err.Error()
	}
	defer func() { _ = out.Close() }() // read as far as it goes
	var text bytes.Buffer
	_, _ = stdcopy.StdCopy(&text, &text, out)
	return text.String()
}
