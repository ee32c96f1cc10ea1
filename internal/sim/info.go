package sim

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
)

// version is the Redis that the model is of: the one on the project's test machines.
const version = "7.0.15"

// cmdInfo answers the sections that a lock client may ask for. Without an argument it gives all but commandstats.
func cmdInfo(x *call) any {
	sections := x.args[1:]
	if len(sections) == 0 {
		sections = []string{"default"}
	}
	want := map[string]bool{}
	for _, s := range sections {
		switch s = strings.ToLower(s); s {
		case "default", "all", "everything":
			for _, d := range []string{"server", "clients", "memory", "persistence", "replication"} {
				want[d] = true
			}
			want["commandstats"] = s != "default"
		default:
			want[s] = true
		}
	}
	var parts []string
	for _, s := range infoSections {
		if want[s.name] {
			parts = append(parts, s.write(x))
		}
	}
	return strings.Join(parts, "\r\n")
}

var infoSections = []struct {
	name  string
	write func(*call) string
}{
	{"server", infoServer},
	{"clients", func(x *call) string { return lines("# Clients", "connected_clients", len(x.clients)) }},
	{"memory", func(x *call) string {
		return lines("# Memory", "used_memory", 1_000_000, "maxmemory", x.config["maxmemory"],
			"maxmemory_policy", x.config["maxmemory-policy"])
	}},
	{"persistence", func(x *call) string {
		aof := 0
		if x.config["appendonly"] == "yes" {
			aof = 1
		}
		return lines("# Persistence", "loading", bit(x.loading), "async_loading", 0, "rdb_bgsave_in_progress", 0,
			"aof_enabled", aof, "aof_rewrite_in_progress", 0)
	}},
	{"replication", infoReplication},
	{"commandstats", func(x *call) string {
		pairs := []any{}
		for _, c := range slices.Sorted(maps.Keys(x.calls)) {
			n := x.calls[c]
			stat := fmt.Sprintf("calls=%d,usec=%d,usec_per_call=1.00,rejected_calls=0,failed_calls=0", n, n)
			pairs = append(pairs, "cmdstat_"+c, stat)
		}
		return lines("# Commandstats", pairs...)
	}},
}

func infoServer(x *call) string {
	now := x.clock.now()
	_, port, _ := net.SplitHostPort(x.addr)
	up := now.Unix() - x.started.Unix() // a difference of whole seconds, hence up to 1 s wrong either way, as Redis's is
	return lines("# Server", "redis_version", version, "redis_mode", "standalone", "os", "Linux", "arch_bits", 64,
		"process_id", x.lives, "run_id", x.runID, "tcp_port", port, "server_time_usec", now.UnixMicro(),
		"uptime_in_seconds", up, "uptime_in_days", up/86400)
}

func infoReplication(x *call) string {
	fields := []any{"role", x.role()}
	if x.master != "" {
		host, port, _ := strings.Cut(x.master, ":")
		link := "up"
		if x.noMaster {
			link = "down"
		}
		fields = append(fields, "master_host", host, "master_port", port, "master_link_status", link)
	}
	fields = append(fields, "connected_slaves", 0, "master_replid", x.replID, "master_replid2", x.replID2,
		"master_repl_offset", 0)
	return lines("# Replication", fields...)
}

func lines(head string, pairs ...any) string {
	var b strings.Builder
	b.WriteString(head + "\r\n")
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&b, "%v:%v\r\n", pairs[i], pairs[i+1])
	}
	return b.String()
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
