//go:build unix

package redisserver_test

import (
	"slices"
	"testing"

	"github.com/quorumlock/redlock/internal/redisserver"
)

// What becomes of servers is tested with real ones, in integration/masters.
func TestArgs(t *testing.T) {
	own := []string{"--port", "0", "--tls-port", "{port}", "--aclfile", "{dir}/a"}
	got, want := redisserver.Args("0.0.0.0", 7000, "/data", own), slices.Clone(own)
	want[3], want[5] = "7000", "/data/a"
	if len(got) < len(want) || !slices.Equal(got[len(got)-len(want):], want) {
		t.Errorf("got %q, want %q at the end", got, want)
	}
}
