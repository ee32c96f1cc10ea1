package main

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/quorumlock/redlock/integration/masters"
)

// The soak, short. The long one is make soak.
func TestSoak(t *testing.T) {
	provider, err := masters.Choose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := soak(t.Context(), config{
		acquisitions: 10_000, length: 20 * time.Second, ttl: time.Second, seed: rand.Uint64(),
		lockers: 4, workers: 8, hot: 3, warm: 200, every: 5 * time.Second,
	}, provider, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(r)
	if err := r.err(); err != nil {
		t.Error(err)
	}
}
