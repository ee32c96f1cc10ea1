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
	for what, guarded := range map[string]config{
		"kept out of the votes by the guard": {guard: 2 * time.Second},
		"not kept out of the votes":          {},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			c := guarded
			c.acquisitions, c.length, c.every = 4000, 10*time.Second, 5*time.Second
			c.ttl, c.seed = time.Second, rand.Uint64()
			c.lockers, c.workers, c.hot, c.warm = 4, 8, 3, 200
			r, err := soak(t.Context(), c, provider, t.Output())
			if err != nil {
				t.Fatal(err)
			}
			t.Log(r)
			if err := r.err(); err != nil {
				t.Error(err)
			}
		})
	}
}
