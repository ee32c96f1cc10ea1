package guard

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/endpoint"
	"github.com/quorumlock/redlock/internal/redisconn"
)

// Rules say which nodes a client accepts, and when their votes count.
type Rules struct {
	Period      time.Duration // the guard period; 0: nodes that may have forgotten votes count as well
	Late        time.Duration // how late a node's answer may come
	Prefix      string        // of all keys, see RecordKey
	WithoutInfo bool          // accept nodes that refuse INFO
	MayEvict    bool          // accept nodes that may evict locks to save memory
	Durable     bool          // believe a node that reports durable persistence

	// Explain turns an error reply into the type that users see. command is the refused command.
	Explain func(err error, command string) error
}

// FloorKey is the key at which a node keeps the largest token that it has dropped.
func (r *Rules) FloorKey() string { return r.Prefix + "redlock:floor" }

// TokensKey is the key at which a node keeps tokens. While it is gone, a larger floor counts.
func (r *Rules) TokensKey() string { return r.Prefix + "redlock:tokens" }

// RecordKey is the key at which a node keeps its record.
func (r *Rules) RecordKey() string { return r.Prefix + "redlock:node" }

// ErrRefused means that a node answers but is not fit to vote. The error's text says what to change.
var ErrRefused = endpoint.Lasting(errors.New("refused"))

// unfit returns why the node must not vote, or nil.
func (i *Info) unfit(r *Rules) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
	}
	switch {
	case i.Product == garnet:
		return refuse("it is Garnet, whose scripts are not atomic: two clients could hold one lock; use Redis or Valkey")
	case i.Refused != "" && !r.WithoutInfo:
		return refuse("it must answer INFO, for its role, uptime and eviction policy: %s; allow it (ACL SETUSER … +info), "+
			"or see NodeConfig.AllowNoInfo", i.Refused)
	case i.Refused != "":
		return nil
	case i.loading:
		return redis.Error("LOADING the node is loading its data")
	case i.mode == "cluster":
		return refuse("it runs in cluster mode (cluster-enabled yes) and may move keys to other nodes; " +
			"use a standalone master")
	case i.Role != "master" && i.master != "":
		return refuse("it is a replica of %s: use its master, or make it one (REPLICAOF NO ONE)", i.master)
	case i.Role != "master":
		return refuse("its role is %s, not master", i.Role)
	case i.Evicts() && !r.MayEvict:
		return refuse("maxmemory-policy %s may evict locks: CONFIG SET maxmemory-policy noeviction, "+
			"or see NodeConfig.AllowEviction", i.Policy)
	default:
		return nil
	}
}

// NoMaster returns why a server that does not know TIME is not fit to vote, if INFO tells. A Sentinel is one.
func (r *Rules) NoMaster(do redisconn.Do) error {
	said := make(map[string]string)
	replies, err := do([]any{"INFO", "server"})
	if err == nil {
		err = parseFields(replies[0], said)
	}
	if err == nil && said["redis_mode"] == "sentinel" {
		return fmt.Errorf("%w: it is a Sentinel, which keeps no data: name the masters that it watches", ErrRefused)
	}
	return nil
}

// Evicts reports whether the node may evict locks to save memory.
func (i *Info) Evicts() bool { return i.MaxMemory > 0 && i.Policy != "noeviction" && i.Policy != "" }

// safeguard names the parameter that keeps the node from evicting: its policy, or else that it has no limit. As long as
// that one is as it was, the other does not matter.
func (i *Info) safeguard() string {
	if i.Policy == "noeviction" {
		return "maxmemory-policy"
	}
	return "maxmemory"
}

// readSafeguard takes that parameter from the reply to CONFIG GET, and the other from what was known.
func (i *Info) readSafeguard(config map[string]string, was *Info) {
	i.Policy, i.MaxMemory = was.Policy, was.MaxMemory
	value, told := config[was.safeguard()]
	if was.Policy == "noeviction" {
		i.Policy = value
	} else {
		limit, err := strconv.ParseInt(value, 10, 64)
		i.MaxMemory, told = limit, told && err == nil
	}
	if !told {
		i.Blind = cmp.Or(i.Blind, "CONFIG GET does not tell")
	}
}
