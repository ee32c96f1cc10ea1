package guard

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Info is what a node says about itself when it is connected, and now and then.
type Info struct {
	Refused string // why INFO cannot be used; then most of the others are unknown
	Blind   string // why CONFIG GET cannot be used
	Unkept  error  // why the node record cannot be read or written

	Product, Version   string
	mode, Role, master string
	runID, replID      string
	Promoted           bool // has been a replica, or has loaded a file that a master with replicas wrote
	Uptime             time.Duration
	loading            bool

	AOF         bool
	Fsync, Lazy string // appendfsync and no-appendfsync-on-rewrite; "": unknown
	Save        string

	UsedMemory, MaxMemory int64
	Policy                string

	micros    int64  // its clock
	record    record // that it had; the zero record: none
	text      string // the record as it stood there
	remembers bool   // INFO is refused: the node still knows a script of ours
	Floor     int64  // the largest token that it has dropped; 0: none, or not known

	trusted bool // what durable nodes keep on disk is believed to be all: WithDurableNodes
}

// epoch names the node's life as a master: it changes when the process starts anew and
// when a replica is promoted. run_id stays the same in the latter case.
func (i *Info) epoch() string {
	if i.Refused != "" || len(i.replID) < 16 {
		return unknownEpoch
	}
	return i.replID[:16]
}

// durable reports whether the node says of itself that it answers only after the disk has what it
// answers.
func (i *Info) durable() bool { return i.AOF && i.Fsync == "always" && i.Lazy == "no" }

// fields reads the lines of INFO or the pairs of CONFIG GET.
func fields(reply any, into map[string]string) error {
	if pairs, ok := reply.([]any); ok {
		all, err := redis.Strings(pairs, nil)
		if err != nil || len(all)%2 != 0 {
			return fmt.Errorf("unexpected reply %v", reply)
		}
		for n := 0; n < len(all); n += 2 {
			into[all[n]] = all[n+1]
		}
		return nil
	}
	text, err := redis.String(reply, nil)
	if err != nil {
		return fmt.Errorf("unexpected reply %v", reply)
	}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			into[key] = value
		}
	}
	return nil
}

const noReplID = "0000000000000000000000000000000000000000"

// parseInfo draws what there is to know from the fields of INFO and CONFIG.
func parseInfo(info, config map[string]string) *Info {
	number := func(key string) int64 {
		n, _ := strconv.ParseInt(info[key], 10, 64) // 0 where it is missing
		return n
	}
	i := &Info{
		Product: "Redis", Version: info["redis_version"],
		mode: info["redis_mode"], Role: info["role"],
		runID: info["run_id"], replID: info["master_replid"],
		Uptime:  time.Duration(number("uptime_in_seconds")) * time.Second,
		loading: number("loading") == 1 || number("async_loading") == 1,
		AOF:     number("aof_enabled") == 1,
		Fsync:   config["appendfsync"], Lazy: config["no-appendfsync-on-rewrite"], Save: config["save"],
		UsedMemory: number("used_memory"), MaxMemory: number("maxmemory"), Policy: info["maxmemory_policy"],
	}
	if v := info["valkey_version"]; v != "" {
		i.Product, i.Version = "Valkey", v
	}
	if i.mode == "" {
		i.mode = info["server_mode"]
	}
	if info["master_host"] != "" {
		i.master = info["master_host"] + ":" + info["master_port"]
	}
	i.Promoted = info["master_replid2"] != noReplID
	if _, err := strconv.Atoi(info["uptime_in_seconds"]); err != nil || len(i.replID) != len(noReplID) || i.Role == "" {
		i.Refused = "INFO does not tell role, replid and uptime"
	}
	return i
}

// ErrRefused says that a node answers but is not fit to vote. The error's text says what to change.
var ErrRefused = errors.New("refused")

// unfit says why the node cannot vote, or returns nil.
func (i *Info) unfit(r *Rules) error {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
	}
	switch {
	case i.Refused != "" && !r.WithoutInfo:
		return refuse("it must tell its role, age and memory policy: %s; allow it (ACL SETUSER … +info), "+
			"or see WithoutNodeInfo", i.Refused)
	case i.Refused != "":
		return nil
	case i.loading:
		return redis.Error("LOADING the node is loading its data")
	case i.mode == "cluster":
		return refuse("it runs in cluster mode (cluster-enabled yes), and may give its keys away; use a master of its own")
	case i.Role != "master" && i.master != "":
		return refuse("it is a replica of %s: use its master, or make it one (REPLICAOF NO ONE)", i.master)
	case i.Role != "master":
		return refuse("its role is %s, not master", i.Role)
	case i.Evicts() && !r.MayEvict:
		return refuse("maxmemory-policy %s may evict locks: CONFIG SET maxmemory-policy noeviction, "+
			"or see WithEvictionAllowed", i.Policy)
	default:
		return nil
	}
}

// Evicts reports whether the node may delete locks to save memory.
func (i *Info) Evicts() bool { return i.MaxMemory > 0 && i.Policy != "noeviction" && i.Policy != "" }

// Persistence describes how the node keeps its data.
func (i *Info) Persistence() string {
	switch {
	case i.Refused != "":
		return ""
	case i.AOF && i.Fsync == "":
		return "append-only"
	case i.AOF && i.Fsync == "always" && i.Lazy != "no":
		return "append-only, fsync always but not during rewrites"
	case i.AOF:
		return "append-only, fsync " + i.Fsync
	case i.Save != "":
		return "snapshots"
	case i.Blind != "":
		return "no append-only file"
	default:
		return "none"
	}
}
