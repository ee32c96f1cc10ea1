package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// Nothing is measured on a fleet with a dead master, nor on one with a foreign process in a master's place.
func TestAMasterThatIsNotOursIsNamed(t *testing.T) {
	servers := cases.Must(startServers(2, redisserver.Config{}))(t)
	c := &cluster{servers: servers}
	defer c.stop()
	cases.Equals(t, c.check(), nil, "both are well")
	well, dead := servers[0].Addr(), servers[1].Addr()
	cases.NoError(t, servers[1].Kill(context.Background()))
	names := func(when string) {
		t.Helper()
		err := c.check()
		if err == nil || !strings.Contains(err.Error(), dead) || strings.Contains(err.Error(), well) {
			t.Errorf("%s: got %v, want an error that names %s, and not %s", when, err, dead, well)
		}
	}
	names("dead")
	_, port, _ := strings.Cut(dead, ":")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	foreign := cases.Must(redisserver.Launch(ctx, redisserver.Config{Args: []string{"--port", port}}))(t)
	names("another process answers there")
	cases.NoError(t, foreign.Remove(ctx))
	cases.NoError(t, servers[1].revive())
	cases.Equals(t, c.check(), nil, "both are well again")
}
