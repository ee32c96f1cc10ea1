package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// Nothing is measured on a fleet with a dead master, nor on one with a foreign process in a master's place.
func TestAMasterThatIsNotOursIsNamed(t *testing.T) {
	servers, err := startSome(2, redisserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{servers: servers}
	defer c.stop()
	if err := c.check(); err != nil {
		t.Errorf("both are well: got %v", err)
	}
	well, dead := servers[0].Addr(), servers[1].Addr()
	if err := servers[1].Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
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
	foreign, err := redisserver.Launch(ctx, redisserver.Config{Args: []string{"--port", port}})
	if err != nil {
		t.Fatal(err)
	}
	names("another process answers there")
	if err := foreign.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if err := servers[1].revive(); err != nil {
		t.Fatal(err)
	}
	if err := c.check(); err != nil {
		t.Errorf("both are well again: got %v", err)
	}
}
