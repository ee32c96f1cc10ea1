package redlock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// facts are what a node says about itself when it is connected, and now and then.
type facts struct {
	refused string // why INFO cannot be used; then most of the others are unknown
	blind   string // why CONFIG GET cannot be used
	unkept  error  // why the node record cannot be read or written

	product, version   string
	mode, role, master string
	runID, replID      string
	promoted           bool // has been a replica, or has loaded a file that a master with replicas wrote
	uptime             time.Duration
	loading            bool

	aof, rewriting bool
	fsync, lazy    string // appendfsync and no-appendfsync-on-rewrite; "": unknown
	save           string

	usedMemory, maxMemory int64
	policy                string

	micros    int64  // its clock
	record    record // that it had; the zero record: none
	text      string // the record as it stood there
	remembers bool   // INFO is refused: the node still knows a script of ours
	floor     int64  // the largest token that it has dropped; 0: none, or not known

	trusted bool // what durable nodes keep on disk is believed to be all: WithDurableNodes
}

// epoch names the node's life as a master: it changes when the process starts anew and
// when a replica is promoted. run_id stays the same in the latter case.
func (f *facts) epoch() string {
	if f.refused != "" || len(f.replID) < 16 {
		return unknownEpoch
	}
	return f.replID[:16]
}

// durable reports whether the node says of itself that it answers only after the disk has what it
// answers.
func (f *facts) durable() bool { return f.aof && f.fsync == "always" && f.lazy == "no" }

// infoSections are those that are asked for, one at a time: several in one
// command is for Redis 7 alone.
var infoSections = []string{"server", "replication", "persistence", "memory"}

// configPatterns cover what INFO does not tell.
var configPatterns = []string{"*appendfsync*", "save"}

// fields reads the lines of INFO or the pairs of CONFIG GET.
func fields(reply any, into map[string]string) error {
	if pairs, ok := reply.([]any); ok {
		all, err := redis.Strings(pairs, nil)
		if err != nil || len(all)%2 != 0 {
			return unexpected(reply)
		}
		for i := 0; i < len(all); i += 2 {
			into[all[i]] = all[i+1]
		}
		return nil
	}
	text, err := redis.String(reply, nil)
	if err != nil {
		return unexpected(reply)
	}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			into[key] = value
		}
	}
	return nil
}

const noReplID = "0000000000000000000000000000000000000000"

// readFacts draws the facts from the fields of INFO and CONFIG.
func readFacts(info, config map[string]string) *facts {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(info[key], 10, 64) // 0 where it is missing
		return n
	}
	f := &facts{
		product: "Redis", version: info["redis_version"],
		mode: info["redis_mode"], role: info["role"],
		runID: info["run_id"], replID: info["master_replid"],
		uptime:  time.Duration(number("uptime_in_seconds")) * time.Second,
		loading: number("loading") == 1 || number("async_loading") == 1,
		aof:     number("aof_enabled") == 1, rewriting: number("aof_rewrite_in_progress") == 1,
		fsync: config["appendfsync"], lazy: config["no-appendfsync-on-rewrite"], save: config["save"],
		usedMemory: number("used_memory"), maxMemory: number("maxmemory"), policy: info["maxmemory_policy"],
	}
	if v := info["valkey_version"]; v != "" {
		f.product, f.version = "Valkey", v
	}
	if f.mode == "" {
		f.mode = info["server_mode"]
	}
	if info["master_host"] != "" {
		f.master = info["master_host"] + ":" + info["master_port"]
	}
	f.promoted = info["master_replid2"] != noReplID
	if _, err := strconv.Atoi(info["uptime_in_seconds"]); err != nil || len(f.replID) != len(noReplID) || f.role == "" {
		f.refused = "INFO does not tell role, replid and uptime"
	}
	return f
}

// ErrNodeRefused says that a node answers but is not fit to vote: a replica, a
// member of a cluster, one that may evict locks or that is in the list twice.
// The error's text says what to change.
var ErrNodeRefused = errors.New("refused")

// errTwice is the part of ErrNodeRefused that New reports itself.
var errTwice = errors.New("the same server as")

// unfit says why the node cannot vote, or returns nil.
func (f *facts) unfit(o *options) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrNodeRefused, fmt.Sprintf(format, args...))
	}
	switch {
	case f.refused != "" && !o.blind:
		return refuse("it must tell its role, age and memory policy: %s; allow it (ACL SETUSER … +info), or see WithoutNodeInfo", f.refused)
	case f.refused != "":
		return nil
	case f.loading:
		return &ReplyError{Code: "LOADING", Reply: "LOADING the node is loading its data"}
	case f.mode == "cluster":
		return refuse("it runs in cluster mode (cluster-enabled yes), and may give its keys away; use a master of its own")
	case f.role != "master" && f.master != "":
		return refuse("it is a replica of %s: use its master, or make it one (REPLICAOF NO ONE)", f.master)
	case f.role != "master":
		return refuse("its role is %s, not master", f.role)
	case f.evicts() && !o.evictionAllowed:
		return refuse("maxmemory-policy %s may evict locks: CONFIG SET maxmemory-policy noeviction, or see WithEvictionAllowed", f.policy)
	default:
		return nil
	}
}

// evicts reports whether the node may delete locks to save memory.
func (f *facts) evicts() bool { return f.maxMemory > 0 && f.policy != "noeviction" && f.policy != "" }
