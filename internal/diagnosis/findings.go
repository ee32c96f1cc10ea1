package diagnosis

import (
	"fmt"
	"slices"
	"strings"
)

// row is one finding: when there is one, and what it says. Words in braces stand for facts: see words.
type row struct {
	code         string
	severity     Severity
	when         func(f *Facts) bool
	text, remedy string
}

// table has all findings about a node, in the order in which they are listed. The first rows say what keeps the node
// from voting: each kind of trouble is in one of them.
var table = []row{
	{"not-redis", Degraded, trouble("no redis"), "{error}", ""},
	{
		"certificate", Degraded, trouble("certificate"), "{error}",
		"set RootCAs or ServerName by WithTLSConfig, or replace the node's certificate",
	},
	{"certificate", Degraded, trouble("own certificate"), "{error}", "set Certificates by WithTLSConfig"},
	{"tls", Degraded, trouble("tls"), "{error}", ""},
	{
		"unreachable", Degraded, trouble("hangs up"), "{error}", // at once, without a word
		"check whether the node runs, and what its port leads to",
	},
	{"clock", Degraded, trouble("clock"), "{error}", "run chrony or ntpd on the node and let it slew"},
	{
		"abstains", Degraded, trouble("abstains"), "{error}",
		"wait; restart one node at a time, further apart than the restart guard",
	},
	{"not-redis", Degraded, trouble("odd"), "it does not answer as Redis does: {error}", oddRemedy},
	{"twice", Unsafe, trouble("twice"), "{error}", "give each URL a master of its own"},
	{"refused", Degraded, trouble("refused"), "{error}", ""},
	{"credentials", Degraded, trouble("credentials"), "{error}", "fix the function of WithCredentials or WithTLSConfig"},
	{"reply-{reply}", Degraded, trouble("login"), "{error}", "check user and password of the node"},
	{"reply-{reply}", Degraded, trouble("reply"), "{error}", "see the code in docs/operations.md"},
	{"silent", Degraded, trouble("silent", "late", "busy"), "{error}", "check the node's load and the network"},
	{"unreachable", Degraded, trouble("name"), "{error}", "check the host's name, and what this machine asks for names"},
	{
		"unreachable", Degraded, trouble("no connection", "down", "other"), "{error}",
		"check the address, the network and whether the node runs",
	},

	{
		"not-redis", Degraded, func(f *Facts) bool { return f.Odd != "" },
		"it does not always answer as Redis does: {odd}", oddRemedy,
	},

	{
		"info-refused", Degraded, func(f *Facts) bool { return f.InfoRefused != "" && f.MayRefuseInfo },
		"INFO is refused: age, role and memory policy are taken on trust: {info refused}",
		"ACL SETUSER … +info",
	},
	{
		"config-refused", Note, func(f *Facts) bool { return f.ConfigRefused != "" && f.AppendOnly },
		"CONFIG GET is refused, so the node counts as one that forgets when it restarts: {config refused}",
		"ACL SETUSER … +config|get",
	},
	{
		"record", Degraded, func(f *Facts) bool { return f.Unkept != "" && !trouble("refused", "twice")(f) },
		"the node record {record} cannot be kept, so FLUSHALL goes unnoticed: {unkept}",
		"allow GET, SET and EVAL on the key, or make it a string",
	},
	{
		"evicts", Unsafe, func(f *Facts) bool { return f.wouldEvict() && f.MaxMemory > 0 && f.MayEvict }, // else: refused
		"maxmemory-policy {policy} may evict locks that are held",
		"CONFIG SET maxmemory-policy noeviction",
	},
	{
		"eviction-policy", Note, func(f *Facts) bool { return f.wouldEvict() && f.MaxMemory == 0 },
		"maxmemory-policy is {policy}: without effect as long as maxmemory is 0",
		"CONFIG SET maxmemory-policy noeviction",
	},
	{
		"memory", Degraded, func(f *Facts) bool { return f.MaxMemory > 0 && f.UsedMemory > f.MaxMemory/10*9 },
		"{used} of {maxmemory} bytes are in use: soon no lock can be taken there",
		"raise maxmemory, or move what else is stored there",
	},
	{
		"rewrite", Note, func(f *Facts) bool { return f.AppendOnly && f.Fsync == "always" && f.NoFsyncOnRewrite == "yes" },
		"appendfsync always is suspended during rewrites: the node counts as one that forgets when it restarts",
		"CONFIG SET no-appendfsync-on-rewrite no",
	},
	{
		"fsync", Note, func(f *Facts) bool { return f.AppendOnly && f.Fsync != "always" && f.Fsync != "" },
		"appendfsync {fsync} loses the last moments before a crash, so that the node counts as one that forgets when " +
			"it restarts",
		"none needed; appendfsync always keeps them",
	},
	{
		"timeout", Note, func(f *Facts) bool { return f.IdleTimeout > 0 && f.IdleTimeout <= f.ProbePause },
		"it closes connections that are idle for {timeout} s, and probes are up to {pause} s apart: each is made " +
			"again, at the price of a handshake",
		"CONFIG SET timeout 0, or at least 20",
	},

	{
		"settings", Unsafe, func(f *Facts) bool { return f.Settings != "" && f.SettingsUnsafe },
		"{settings}", "{same settings}",
	},
	{
		"settings", Degraded, func(f *Facts) bool { return f.Settings != "" && !f.SettingsUnsafe },
		"{settings}", "{same settings}",
	},
	{
		"undeclared-keys", Degraded, func(f *Facts) bool { return f.ScriptRefused != "" && f.Undeclared },
		"scripts may not use keys that they do not declare, so no lock can be taken or released there: {script refused}",
		"lua-strict-key-accessing no (Kvrocks); --default_lua_flags=allow-undeclared-keys (Dragonfly)",
	},
	{
		"reply-{script reply}", Degraded, func(f *Facts) bool { return f.ScriptRefused != "" && !f.Undeclared },
		"scripts may not do all that locks need: {script refused}",
		"see the code in docs/operations.md",
	},
	{
		"lists", Unsafe, func(f *Facts) bool { return f.Clash || f.Registered && f.rival() != nil },
		"clients with lists of nodes that do not exclude each other are at work, so two can hold one lock: {lists}",
		"stop the clients with the wrong list; to change nodes, use WithMigration (docs/changing-nodes.md)",
	},
	{
		"lists", Unavailable, func(f *Facts) bool { return !f.Clash && !f.Registered && f.rival() != nil },
		"{own list}",
		"correct the list that is wrong: this one, or the others'; to change nodes, use WithMigration " +
			"(docs/changing-nodes.md)",
	},
	{
		"lists-refused", Note, func(f *Facts) bool { return f.ListsRefused != "" },
		"which clients use which list of nodes is not known: {lists refused}",
		"allow the commands in docs/deploy/users.acl",
	},

	{
		"uptime", Note, func(f *Facts) bool { return f.Uptime < 0 },
		"its clock was {clock ahead} ahead when it started, at least, or is behind: clients go by what they have seen of it",
		"none needed if its clock is right now",
	},
	{
		"token-ahead", Degraded, func(f *Facts) bool { return f.Token > 0 },
		"its largest token is {token ahead} ahead of the nodes' clocks: names with such tokens cannot be locked before",
		"SET {floor} {token}, if the clocks are right now",
	},
	{
		"promoted", Note, func(f *Facts) bool { return f.Promoted && f.Role == "master" },
		"the node has been a replica, or has had one",
		"none needed; masters without replicas are what Redlock wants",
	},
}

const oddRemedy = "check host and port, and what is between"

// trouble is the condition that the node's trouble is one of these kinds.
func trouble(kinds ...string) func(f *Facts) bool {
	return func(f *Facts) bool { return slices.Contains(kinds, f.Trouble) }
}

// wouldEvict reports whether the node would evict locks if its memory were limited.
func (f *Facts) wouldEvict() bool { return f.Policy != "noeviction" && f.Policy != "" }

// Findings says what is to be known about a node, in the order of the table.
func Findings(f *Facts) (list []Finding) {
	var words *strings.Replacer
	for _, r := range table {
		if !r.when(f) {
			continue
		}
		if words == nil {
			words = f.words()
		}
		list = append(list, Finding{words.Replace(r.code), r.severity, words.Replace(r.text), words.Replace(r.remedy)})
	}
	return list
}

// words puts the facts in the place of the words in braces that the table has.
func (f *Facts) words() *strings.Replacer {
	return strings.NewReplacer(
		"{error}", f.Error, "{reply}", strings.ToLower(f.Reply), "{odd}", f.Odd,
		"{info refused}", f.InfoRefused, "{config refused}", f.ConfigRefused,
		"{record}", f.RecordKey, "{unkept}", f.Unkept,
		"{policy}", f.Policy, "{used}", fmt.Sprint(f.UsedMemory), "{maxmemory}", fmt.Sprint(f.MaxMemory),
		"{fsync}", f.Fsync, "{timeout}", fmt.Sprint(f.IdleTimeout), "{pause}", fmt.Sprint(f.ProbePause),
		"{script refused}", f.ScriptRefused, "{script reply}", strings.ToLower(f.ScriptReply),
		"{settings}", f.Settings, "{same settings}", f.SameSettings,
		"{lists}", f.listsInWords(), "{own list}", f.ownListInWords(), "{lists refused}", f.ListsRefused,
		"{clock ahead}", (-f.Uptime).String(),
		"{token ahead}", f.TokenAhead.String(), "{token}", fmt.Sprint(f.Token), "{floor}", f.FloorKey,
	)
}
