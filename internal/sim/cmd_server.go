package sim

import (
	"fmt"
	"net"
	"slices"
	"strings"
)

// version is the Redis that the model is of: the one on the project's test machines.
const version = "7.0.15"

func cmdPing(x *call) any {
	switch {
	case len(x.args) > 2:
		return wrongArgs(x.args[0])
	case len(x.client.subs) > 0 && x.client.proto != 3:
		return []any{"pong", strings.Join(x.args[1:], "")}
	case len(x.args) == 2:
		return x.args[1]
	}
	return Status("PONG")
}

func cmdAuth(x *call) any {
	user, pass := "default", x.args[1]
	if len(x.args) == 3 {
		user, pass = x.args[1], x.args[2]
	} else if len(x.args) > 3 {
		return errSyntax
	}
	if x.password == "" && len(x.args) == 2 {
		return Error("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	}
	if user != "default" || x.password != "" && pass != x.password {
		return Error("WRONGPASS invalid username-password pair or user is disabled.")
	}
	x.client.authed = true
	return OK
}

func cmdHello(x *call) any {
	if x.args[1] != "2" && x.args[1] != "3" {
		return Error("NOPROTO unsupported protocol version")
	}
	x.client.proto, _ = parseInt(x.args[1])
	return dict{
		"server", "redis", "version", version, "proto", x.client.proto, "id", x.client.id, "mode", "standalone",
		"role", x.role(), "modules",
		[]any{},
	}
}

func cmdTime(x *call) any {
	t := x.clock.now()
	return bulks([]string{fmt.Sprint(t.Unix()), fmt.Sprint(t.Nanosecond() / 1000)})
}

func cmdConfig(x *call) any {
	if !strings.EqualFold(x.args[1], "get") {
		return Error(fmt.Sprintf("ERR unknown subcommand or wrong number of arguments for '%.128s'. Try CONFIG HELP.",
			x.args[1]))
	}
	r := dict{}
	for _, name := range sortedKeys(x.config) {
		if slices.Contains(x.args[2:], name) {
			r = append(r, name, x.config[name])
		}
	}
	return r
}

func (n *Node) role() string {
	if n.master != "" {
		return "slave"
	}
	return "master"
}

// cmdInfo answers the sections that the library asks for, each by its name.
func cmdInfo(x *call) any {
	section := strings.ToLower(x.args[1])
	var fields []any
	switch section {
	case "server":
		now := x.clock.now()
		_, port, _ := net.SplitHostPort(x.addr)
		up := now.Unix() - x.started.Unix() // a difference of whole seconds, hence up to 1 s wrong either way, as Redis's is
		fields = []any{
			"redis_version", version, "redis_mode", "standalone", "os", "Linux", "arch_bits", 64, "process_id", x.lives,
			"run_id", x.runID, "tcp_port", port, "server_time_usec", now.UnixMicro(), "uptime_in_seconds", up,
			"uptime_in_days", up / 86400,
		}
	case "memory":
		fields = []any{
			"used_memory", 1_000_000, "maxmemory", x.config["maxmemory"], "maxmemory_policy", x.config["maxmemory-policy"],
		}
	case "persistence":
		fields = []any{
			"loading", bit(x.loading), "async_loading", 0, "rdb_bgsave_in_progress", 0,
			"aof_enabled", bit(x.config["appendonly"] == "yes"), "aof_rewrite_in_progress", 0,
		}
	case "replication":
		fields = []any{"role", x.role()}
		if x.master != "" {
			host, port, _ := strings.Cut(x.master, ":")
			fields = append(fields, "master_host", host, "master_port", port, "master_link_status", "up")
		}
		fields = append(fields, "connected_slaves", 0, "master_replid", x.replID, "master_replid2", x.replID2,
			"master_repl_offset", 0)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s%s\r\n", strings.ToUpper(section[:1]), section[1:])
	for i := 0; i < len(fields); i += 2 {
		fmt.Fprintf(&b, "%v:%v\r\n", fields[i], fields[i+1])
	}
	return verbatim(b.String())
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
