package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestExampleServesMetrics(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	at := make(chan net.Addr, 1)
	done := make(chan error, 1)
	go func() { done <- run(ctx, "127.0.0.1:0", func(addr net.Addr) { at <- addr }) }()
	var addr net.Addr
	select {
	case addr = <-at:
	case err := <-done:
		t.Fatal(err)
	}
	var got string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		reply, err := http.Get("http://" + addr.String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got = string(body); strings.Contains(got, `redlock_hold_duration_seconds_count{`) {
			break
		}
	}
	for _, want := range []string{
		`redlock_wait_duration_seconds_count{`, `redlock_outcome="granted"`, `redlock_end="unlocked"`,
		`redlock_state="up"`, "redlock_lost_total",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in %s", want, got)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
