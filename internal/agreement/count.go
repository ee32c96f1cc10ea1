package agreement

import (
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/quorum"
)

// Count asks a node how many clients have which lists.
func (x *exchange) Count(ctx context.Context, node int) {
	one := quorum.Set(0).With(node)
	x.askAll(ctx, one, x.registry.unknown)
	x.askAll(ctx, one, func(int) string {
		if x.registry.at[node].used == nil {
			return ""
		}
		return modeCount
	})
	x.seeConflicts(ctx, node)
}

// seeConflicts asks a node when clients were last seen whose lists conflict with this client's, if the node can tell.
func (x *exchange) seeConflicts(ctx context.Context, node int) {
	x.mu.Lock()
	at := &x.registry.at[node]
	var texts []string
	var more []time.Duration
	for _, i := range x.registry.conflicting(node) {
		texts, more = append(texts, at.used.texts[i]), append(more, at.used.lives[i]-registrationLives)
	}
	at.seen = nil
	x.mu.Unlock()
	if texts == nil {
		return
	}
	conn := x.conf.Conns[node]
	said, err := conn.Do(ctx, []any{"TIME"})
	if err != nil {
		return
	}
	micros, err := guard.Micros(said[0])
	if err != nil {
		return
	}
	var commands [][]any
	for i, text := range texts { // each is confirmed at its score less what its life is longer than the least one
		for _, age := range seenWithin {
			since := time.UnixMicro(micros).Add(more[i] - age).UnixMilli()
			commands = append(commands, []any{"ZCOUNT", x.registry.clientsKey(text), since, "+inf"})
		}
	}
	counts, err := redis.Ints(conn.Do(ctx, commands...))
	if err != nil || len(counts) != len(commands) {
		return
	}
	seen := make(map[string]time.Duration)
	for i, text := range texts {
		seen[text] = longAgo
		of := counts[i*len(seenWithin):][:len(seenWithin)]
		if at := slices.IndexFunc(of, func(n int) bool { return n > 0 }); at >= 0 {
			seen[text] = seenWithin[at]
		}
	}
	x.mu.Lock()
	at.seen = seen
	x.mu.Unlock()
}
