package diagnosis

import "slices"

// row is one finding: when there is one, and what it says. Words in braces stand for facts: see words.
type row struct {
	code         string
	severity     Severity
	remedy, text string
	when         func(f *Facts) bool
}

// table has all findings about a node, in the order in which they are listed.
//
// The first rows say what keeps the node from voting: one for each kind of trouble. Those that come from what was read
// over the connection follow.
var table = []row{
	{
		"not-redis", Degraded, "",
		"{error}",
		trouble("no redis"),
	},
	{
		"certificate", Degraded, "set RootCAs or ServerName by WithTLSConfig, or replace the node's certificate",
		"{error}",
		trouble("certificate"),
	},
	{
		"certificate", Degraded, "set Certificates by WithTLSConfig",
		"{error}",
		trouble("own certificate"),
	},
	{
		"tls", Degraded, "",
		"{error}",
		trouble("tls"),
	},
	{
		"unreachable", Degraded, "check whether the node runs, and what its port leads to",
		"{error}",
		trouble("hangs up"), // at once, without a word
	},
	{
		"clock", Degraded, "run chrony or ntpd on the node and let it slew",
		"{error}",
		trouble("clock"),
	},
	{
		"abstains", Degraded, "wait; restart one node at a time, further apart than the restart guard",
		"{error}",
		trouble("abstains"),
	},
	{
		"not-redis", Degraded, oddRemedy,
		"it does not answer as Redis does: {error}",
		trouble("odd"),
	},
	{
		"twice", Unsafe, "give each URL a master of its own",
		"{error}",
		trouble("twice"),
	},
	{
		"refused", Degraded, "",
		"{error}",
		trouble("refused"),
	},
	{
		"credentials", Degraded, "fix the function of WithCredentials or WithTLSConfig",
		"{error}",
		trouble("credentials"),
	},
	{
		"reply-{reply}", Degraded, "check user and password of the node",
		"{error}",
		trouble("login"),
	},
	{
		"reply-{reply}", Degraded, "see the code in docs/operations.md",
		"{error}",
		trouble("reply"),
	},
	{
		"silent", Degraded, "check the node's load and the network",
		"{error}",
		trouble("silent", "late", "busy"),
	},
	{
		"unreachable", Degraded, "check the host's name, and what this machine asks for names",
		"{error}",
		trouble("name"),
	},
	{
		"unreachable", Degraded, "check the address, the network and whether the node runs",
		"{error}",
		trouble("no connection", "down", "other"),
	},
	{
		"not-redis", Degraded, oddRemedy,
		"it does not always answer as Redis does: {odd}",
		func(f *Facts) bool { return f.Odd != "" },
	},
	{
		"info-refused", Degraded, "ACL SETUSER … +info",
		"INFO is refused: age, role and memory policy are taken on trust: {info refused}",
		func(f *Facts) bool { return f.InfoRefused != "" && f.MayRefuseInfo },
	},
	{
		"config-refused", Note, "ACL SETUSER … +config|get",
		"CONFIG GET is refused, so the node counts as one that forgets when it restarts: {config refused}",
		func(f *Facts) bool { return f.ConfigRefused != "" && f.AppendOnly },
	},
	{
		"record", Degraded, "allow GET, SET and EVAL on the key, or make it a string",
		"the node record {record} cannot be kept, so FLUSHALL goes unnoticed: {unkept}",
		func(f *Facts) bool { return f.Unkept != "" && !trouble("refused", "twice")(f) },
	},
	{
		"evicts", Unsafe, "CONFIG SET maxmemory-policy noeviction",
		"maxmemory-policy {policy} may evict locks that are held",
		func(f *Facts) bool { return f.wouldEvict() && f.MaxMemory > 0 && f.MayEvict }, // else it is refused
	},
	{
		"eviction-policy", Note, "CONFIG SET maxmemory-policy noeviction",
		"maxmemory-policy is {policy}: without effect as long as maxmemory is 0",
		func(f *Facts) bool { return f.wouldEvict() && f.MaxMemory == 0 },
	},
	{
		"memory", Degraded, "raise maxmemory, or move what else is stored there",
		"{used} of {maxmemory} bytes are in use: soon no lock can be taken there",
		func(f *Facts) bool { return f.MaxMemory > 0 && f.UsedMemory > f.MaxMemory/10*9 },
	},
	{
		"rewrite", Note, "CONFIG SET no-appendfsync-on-rewrite no",
		"appendfsync always is suspended during rewrites: the node counts as one that forgets when it restarts",
		func(f *Facts) bool { return f.AppendOnly && f.Fsync == "always" && f.NoFsyncOnRewrite == "yes" },
	},
	{
		"fsync", Note, "none needed; appendfsync always keeps them",
		"appendfsync {fsync} loses the last moments before a crash, so that the node counts as one that forgets when it " +
			"restarts",
		func(f *Facts) bool { return f.AppendOnly && f.Fsync != "always" && f.Fsync != "" },
	},
	{
		"timeout", Note, "CONFIG SET timeout 0, or at least 20",
		"it closes connections that are idle for {timeout} s, and probes are up to {pause} s apart: each is made again, " +
			"at the price of a handshake",
		func(f *Facts) bool { return f.IdleTimeout > 0 && f.IdleTimeout <= f.ProbePause },
	},
	{
		"settings", Unsafe, "{same settings}",
		"{settings}",
		func(f *Facts) bool { return f.Settings != "" && f.SettingsUnsafe },
	},
	{
		"settings", Degraded, "{same settings}",
		"{settings}",
		func(f *Facts) bool { return f.Settings != "" && !f.SettingsUnsafe },
	},
	{
		"undeclared-keys", Degraded,
		"lua-strict-key-accessing no (Kvrocks); --default_lua_flags=allow-undeclared-keys (Dragonfly)",
		"scripts may not use keys that they do not declare, so no lock can be taken or released there: {script refused}",
		func(f *Facts) bool { return f.ScriptRefused != "" && f.Undeclared },
	},
	{
		"reply-{script reply}", Degraded, "see the code in docs/operations.md",
		"scripts may not do all that locks need: {script refused}",
		func(f *Facts) bool { return f.ScriptRefused != "" && !f.Undeclared },
	},
	{
		"lists", Unsafe, "stop the clients with the wrong list; to change nodes, use WithMigration (docs/changing-nodes.md)",
		"clients with lists of nodes that do not exclude each other are at work, so two can hold one lock: {lists}",
		func(f *Facts) bool { return f.Clash || f.Registered && f.rival() != nil },
	},
	{
		"lists", Unavailable, "correct the list that is wrong: this one, or the others'; to change nodes, use " +
			"WithMigration (docs/changing-nodes.md)",
		"{own list}",
		func(f *Facts) bool { return !f.Clash && !f.Registered && f.rival() != nil },
	},
	{
		"lists-refused", Note, "allow the commands in docs/deploy/users.acl",
		"which clients use which list of nodes is not known: {lists refused}",
		func(f *Facts) bool { return f.ListsRefused != "" },
	},
	{
		"uptime", Note, "none needed if its clock is right now",
		"its clock was {clock ahead} ahead when it started, at least, or is behind: clients go by what they have seen of it",
		func(f *Facts) bool { return f.Uptime < 0 },
	},
	{
		"token-ahead", Degraded, "SET {floor} {token}, if the clocks are right now",
		"its largest token is {token ahead} ahead of the nodes' clocks: names with such tokens cannot be locked before",
		func(f *Facts) bool { return f.Token > 0 },
	},
	{
		"promoted", Note, "none needed; masters without replicas are what Redlock wants",
		"the node has been a replica, or has had one",
		func(f *Facts) bool { return f.Promoted && f.Role == "master" },
	},
}

const oddRemedy = "check host and port, and what is between"

// trouble is the condition that the node's trouble is one of these kinds.
func trouble(kinds ...string) func(f *Facts) bool {
	return func(f *Facts) bool { return slices.Contains(kinds, f.Trouble) }
}

// wouldEvict reports whether the node would evict locks if its memory were limited.
func (f *Facts) wouldEvict() bool { return f.Policy != "noeviction" && f.Policy != "" }
