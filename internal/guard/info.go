package guard

import (
	"bytes"
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/printable"
	"github.com/quorumlock/redlock/internal/resp"
)

// Info is the node info: what a probe reads. After a quick probe only the role, the identity, the clock, the record,
// the floor, and what would let the node evict are known.
type Info struct {
	Refused string // why INFO cannot be used, and most other fields are unknown; "": it can
	Blind   string // why CONFIG GET cannot be used; "": it can
	Unkept  error  // why the node record cannot be read or written

	Product, Version   string
	mode, Role, master string
	runID, replID      string
	Promoted           bool          // has been a replica, or has loaded a file that a master with replicas wrote
	Uptime             time.Duration // negative if its clock was set back by more
	loading            bool

	AOF         bool
	Fsync, Lazy string // appendfsync and no-appendfsync-on-rewrite; "": unknown
	Save        string

	UsedMemory, MaxMemory int64
	Policy                string

	micros     int64  // the node's clock
	record     record // the zero record: none
	recordText string // the record as the node has it
	hasScript  bool   // INFO is refused: the node still has recordScript
	Floor      int64  // the largest token that the node has dropped; 0: none, or unknown

	trusted bool          // Rules.Durable
	period  time.Duration // Rules.Period
}

// record is the text that a node keeps at {prefix}redlock:node. FLUSHALL deletes it, which INFO does not report. And
// for a promoted replica, whose uptime means nothing, it says since when the node has been a master.
//
// A record that came back with the data of a durable node proves nothing alone: the file may not be the node's last one
// (docs/adr/0012-restarts.md). To a client that trusts durable nodes, and knew the node with it before, it does.
type record struct {
	epoch   string // in which it was written
	since   int64  // the node has forgotten nothing since then; µs, by the node's clock
	durable bool   // the node reported durable persistence then
}

func (r record) String() string {
	if r.epoch == "" {
		return ""
	}
	text := r.epoch + " " + strconv.FormatInt(r.since, 10)
	if r.durable {
		text += " durable"
	}
	return text
}

// parseRecord returns the zero record for a malformed text.
func parseRecord(text string) record {
	parts := strings.Split(text, " ")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return record{}
	}
	since, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || len(parts) == 3 && parts[2] != "durable" {
		return record{}
	}
	return record{parts[0], since, len(parts) == 3}
}

// unknownEpoch is the epoch of a node that refuses INFO.
const unknownEpoch = "-"

// epoch identifies the process and its role: unlike run_id it also changes with a promotion, and more: see continues.
func (i *Info) epoch() string {
	if i.Refused != "" || len(i.replID) < 16 {
		return unknownEpoch
	}
	return i.replID[:16]
}

// durable reports whether the node reports durable persistence: it replies to a write only when the write is on disk.
func (i *Info) durable() bool { return i.AOF && i.Fsync == "always" && i.Lazy == "no" }

// otherProducts tell their names and versions beside a version of Redis.
var otherProducts = []string{"Valkey", "Dragonfly", "Kvrocks", garnet}

// garnet may run other clients' commands in the middle of a script.
const garnet = "Garnet"

// infoFields are the fields of INFO that are read: most of its text is of no use.
var infoFields = func() map[string]bool {
	wanted := make(map[string]bool)
	const names = "redis_version redis_mode server_mode role run_id master_replid master_replid2 master_host " +
		"master_port uptime_in_seconds loading async_loading aof_enabled used_memory maxmemory maxmemory_policy"
	for field := range strings.FieldsSeq(names) {
		wanted[field] = true
	}
	for _, product := range otherProducts {
		wanted[strings.ToLower(product)+"_version"] = true
	}
	return wanted
}()

// parseFields parses the lines of INFO or the pairs of CONFIG GET. It copies what it keeps, so that the whole text does
// not stay in memory. People are shown most of it, so it is made printable here, once.
func parseFields(reply any, into map[string]string) error {
	if pairs, ok := reply.([]any); ok {
		all, err := redis.Strings(pairs, nil)
		if err != nil || len(all)%2 != 0 {
			return resp.Unexpected(reply)
		}
		for n := 0; n < len(all); n += 2 {
			into[all[n]] = printable.Beginning(all[n+1], printable.Most)
		}
		return nil
	}
	text, err := redis.Bytes(reply, nil)
	if err != nil {
		return resp.Unexpected(reply)
	}
	for line := range bytes.Lines(text) {
		key, value, ok := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		if ok && infoFields[string(key)] {
			into[string(key)] = printable.Beginning(string(value), printable.Most)
		}
	}
	return nil
}

const noReplID = "0000000000000000000000000000000000000000"

const lacking = "INFO lacks role, replid or uptime"

// parseInfo reads the node info from the fields of INFO and CONFIG.
func parseInfo(info, config map[string]string) *Info {
	i := parseQuickInfo(info)
	i.Product, i.Version, i.runID = "Redis", info["redis_version"], info["run_id"]
	for _, product := range otherProducts {
		if v := info[strings.ToLower(product)+"_version"]; v != "" {
			i.Product, i.Version = product, v
		}
	}
	i.mode = cmp.Or(info["redis_mode"], info["server_mode"])
	i.Uptime = time.Duration(number(info["uptime_in_seconds"])) * time.Second
	i.loading = number(info["loading"]) == 1 || number(info["async_loading"]) == 1
	i.AOF, i.Save = number(info["aof_enabled"]) == 1, config["save"]
	i.Fsync, i.Lazy = config["appendfsync"], config["no-appendfsync-on-rewrite"]
	if _, err := strconv.Atoi(info["uptime_in_seconds"]); err != nil {
		i.Refused = lacking
	}
	return i
}

// parseQuickInfo reads what a quick probe asks of INFO.
func parseQuickInfo(info map[string]string) *Info {
	former := info["master_replid2"]
	i := &Info{
		Role: info["role"], replID: info["master_replid"],
		Promoted:   former != "" && former != noReplID, // others than Redis may not tell
		UsedMemory: number(info["used_memory"]), MaxMemory: number(info["maxmemory"]), Policy: info["maxmemory_policy"],
	}
	if info["master_host"] != "" {
		i.master = info["master_host"] + ":" + info["master_port"]
	}
	if len(i.replID) != len(noReplID) || i.Role == "" {
		i.Refused = lacking
	}
	return i
}

// number returns 0 for a field that is missing.
func number(field string) int64 {
	n, _ := strconv.ParseInt(field, 10, 64)
	return n
}

// Persistence describes how the node persists its data, for humans; "": unknown.
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
