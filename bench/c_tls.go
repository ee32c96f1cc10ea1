package main

import (
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// The same over TLS.
var (
	redlockTLS5      = contestant{name: "redlock", nodes: 5, waits: true, open: openRedlockTLS()}
	redlockPlainTLS5 = contestant{
		name: "redlock plain", nodes: 5, waits: true,
		open: openRedlockTLS(redlock.WithoutFencing()),
	}
	redsyncRedigoTLS5 = contestant{
		name: "redsync+redigo", nodes: 5, waits: true, native: []string{"set"},
		open: func(nodes []string, goroutines int) (client, error) {
			trust := redis.DialTLSConfig(authority().ClientConfig())
			return openRedsync(nodes, redigoPool(goroutines, redis.DialUseTLS(true), trust))
		},
	}
)

func openRedlockTLS(opts ...redlock.Option) func(nodes []string, goroutines int) (client, error) {
	return func(nodes []string, goroutines int) (client, error) {
		trust := redlock.WithTLSConfig(authority().ClientConfig())
		return openRedlockAt("rediss://", append(opts, trust)...)(nodes, goroutines)
	}
}

// authority signs the masters' certificates.
var authority = sync.OnceValue(func() *redisserver.Authority {
	a, err := redisserver.NewAuthority()
	fatal(err)
	return a
})
