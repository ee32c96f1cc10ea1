package diagnosis

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quorumlock/redlock/finding"
)

// row is one finding: when there is one, and what it says. Words in braces stand for facts: see words.
type row struct {
	code         finding.Code
	severity     finding.Severity
	when         func(f *Facts) bool
	text, remedy string
}

// table has all findings about a node, in order. The first rows say what keeps it from voting: every kind of trouble.
var table = []row{
	broken(finding.NotRedis, "", "no redis"),
	broken(finding.Certificate, "set RootCAs or ServerName of NodeConfig.TLS, or replace the node's certificate",
		"certificate"),
	broken(finding.Certificate, "set Certificates of NodeConfig.TLS", "own certificate"),
	broken(finding.TLS, "", "tls"),
	// It hangs up at once, without a word.
	broken(finding.Unreachable, "check whether the node runs, and what its port leads to", "hangs up"),
	broken(finding.Clock, "run chrony or ntpd on the node and let it slew", "clock"),
	broken(finding.Abstains, "wait; restart one node at a time, further apart than the restart guard", "abstains"),
	{finding.NotRedis, finding.Degraded, trouble("odd"), "it does not answer as Redis does: {error}", oddRemedy},
	{finding.Twice, finding.Unsafe, trouble("twice"), "{error}", "give each URL a master of its own"},
	broken(finding.Refused, "", "refused"),
	broken(finding.Credentials, "fix the function of NodeConfig.Credentials or NodeConfig.TLS", "credentials"),
	broken("reply-{reply}", "check user and password of the node", "login"),
	broken("reply-{reply}", "", "reply"),
	broken(finding.Silent, "check the node's load and the network", "silent", "late", "busy"),
	broken(finding.Unreachable, "check the host's name, and what this machine asks for names", "name"),
	broken(finding.Unreachable, "it is this machine, not the node: raise ulimit -n, and see what uses up its ports",
		"local"),
	broken(finding.Unreachable, "check the address, the network and whether the node runs",
		"no connection", "down", "other"),

	{
		finding.NotRedis, finding.Degraded, func(f *Facts) bool { return f.Odd != "" },
		"it does not always answer as Redis does: {odd}", oddRemedy,
	},

	{
		finding.InfoRefused, finding.Degraded, func(f *Facts) bool { return f.InfoRefused != "" && f.MayRefuseInfo },
		"INFO is refused: age, role and memory policy are taken on trust: {info refused}", "ACL SETUSER … +info",
	},
	{
		finding.ConfigRefused, finding.Note, func(f *Facts) bool { return f.ConfigRefused != "" && f.AppendOnly },
		"CONFIG GET is refused, so the node counts as one that forgets when it restarts: {config refused}",
		"ACL SETUSER … +config|get",
	},
	{
		finding.Record, finding.Degraded, func(f *Facts) bool { return f.Unkept != "" && !trouble("refused", "twice")(f) },
		"the node record {record}, a string, cannot be kept, so FLUSHALL goes unnoticed: {unkept}", "",
	},
	{
		finding.Evicts, finding.Unsafe,
		func(f *Facts) bool { return f.wouldEvict() && f.MaxMemory > 0 && f.MayEvict }, // else: refused
		"maxmemory-policy {policy} may evict locks that are held", "CONFIG SET maxmemory-policy noeviction",
	},
	{
		finding.EvictionPolicy, finding.Note, func(f *Facts) bool { return f.wouldEvict() && f.MaxMemory == 0 },
		"maxmemory-policy is {policy}: without effect as long as maxmemory is 0", "CONFIG SET maxmemory-policy noeviction",
	},
	{
		finding.Memory, finding.Degraded, func(f *Facts) bool { return f.MaxMemory > 0 && f.UsedMemory > f.MaxMemory/10*9 },
		"{used} of {maxmemory} bytes are in use{barred}: with none left, no lock can be taken there",
		"raise maxmemory, or move what else is stored there",
	},
	{
		finding.Rewrite, finding.Note,
		func(f *Facts) bool { return f.AppendOnly && f.Fsync == "always" && f.NoFsyncOnRewrite == "yes" },
		"appendfsync always is suspended during rewrites: the node counts as one that forgets when it restarts",
		"CONFIG SET no-appendfsync-on-rewrite no",
	},
	{
		finding.Fsync, finding.Note, func(f *Facts) bool { return f.AppendOnly && f.Fsync != "always" && f.Fsync != "" },
		"appendfsync {fsync} loses the last moments before a crash, so that the node counts as one that forgets when " +
			"it restarts",
		"none needed; appendfsync always keeps them",
	},
	{
		finding.Timeout, finding.Note, func(f *Facts) bool { return f.IdleTimeout > 0 && f.IdleTimeout <= f.ProbePause },
		"it closes connections that are idle for {timeout} s, and probes are up to {pause} s apart: each is made " +
			"again, at the price of a handshake",
		"CONFIG SET timeout 0, or at least 20",
	},

	{
		finding.Settings, finding.Unsafe, func(f *Facts) bool { return f.Settings != "" && f.SettingsUnsafe },
		"{settings}", "{same settings}",
	},
	{
		finding.Settings, finding.Degraded, func(f *Facts) bool { return f.Settings != "" && !f.SettingsUnsafe },
		"{settings}", "{same settings}",
	},
	{
		finding.UndeclaredKeys, finding.Degraded, func(f *Facts) bool { return f.ScriptRefused != "" && f.Undeclared },
		"scripts may not use keys that they do not declare{barred}: {script refused}",
		"lua-strict-key-accessing no (Kvrocks); --default_lua_flags=allow-undeclared-keys (Dragonfly)",
	},
	{
		"reply-wrongtype", finding.Degraded, func(f *Facts) bool { return f.Strange != "" },
		"another program has written over {strange}{barred}: no lock can be taken there", "DEL {strange}",
	},
	{
		"reply-{script reply}", finding.Degraded, func(f *Facts) bool { return f.ScriptRefused != "" && !f.Undeclared },
		"it refuses some of what locks need{barred}: {script refused}", "",
	},
	{
		finding.Lists, finding.Unsafe, func(f *Facts) bool { return f.Clash || f.Registered && f.rival() != nil },
		"clients with lists of nodes that do not exclude each other are at work, so two can hold one lock: {lists}",
		"stop the clients with the wrong list; to change nodes, use WithNewNodes (docs/changing-nodes.md)",
	},
	{
		finding.Lists, finding.Unavailable, func(f *Facts) bool { return !f.Clash && !f.Registered && f.rival() != nil },
		"{own list}",
		"correct the list that is wrong: this one, or the others'; to change nodes, use WithNewNodes " +
			"(docs/changing-nodes.md)",
	},
	{
		finding.ListsRefused, finding.Note, func(f *Facts) bool { return f.ListsRefused != "" },
		"which clients use which list of nodes is not known: {lists refused}", "",
	},

	{
		finding.Uptime, finding.Note, func(f *Facts) bool { return f.Uptime < 0 },
		"its clock was {clock ahead} ahead when it started, at least, or is behind: clients go by what they have seen of it",
		"none needed if its clock is right now",
	},
	{
		finding.TokenAhead, finding.Degraded, func(f *Facts) bool { return f.Token > 0 && f.TokenAlone },
		"its largest token, or floor, is {token ahead} ahead of the nodes' clocks, and most nodes' are not: it has no vote " +
			"on smaller tokens{barred}",
		"empty or replace this node, once its clock is right",
	},
	{
		finding.TokenAhead, finding.Degraded, func(f *Facts) bool { return f.Token > 0 && !f.TokenAlone && f.TokenLast },
		"its largest token, or floor, is the largest there can be: names with such tokens cannot be locked{barred}",
		"see docs/operations.md#tokens-that-have-come-to-an-end",
	},
	{
		finding.TokenAhead, finding.Degraded, func(f *Facts) bool { return f.Token > 0 && !f.TokenAlone && !f.TokenLast },
		"its largest token is {token ahead} ahead of the nodes' clocks: names with such tokens cannot be locked " +
			"before{barred}",
		"SET {floor} {token}, if the clocks are right now",
	},
	{
		finding.Promoted, finding.Note, func(f *Facts) bool { return f.Promoted && f.Role == "master" },
		"the node has been a replica, or has had one", "none needed; masters without replicas are what Redlock wants",
	},
}

const oddRemedy = "check host and port, and what is between"

// broken is a row of which the error says all but the remedy.
func broken(code finding.Code, remedy string, kinds ...string) row {
	return row{code, finding.Degraded, trouble(kinds...), "{error}", remedy}
}

// trouble is the condition that the node's trouble is one of these kinds.
func trouble(kinds ...string) func(f *Facts) bool {
	return func(f *Facts) bool { return slices.Contains(kinds, f.Trouble) }
}

// wouldEvict reports whether the node would evict locks if its memory were limited.
func (f *Facts) wouldEvict() bool { return f.Policy != "noeviction" && f.Policy != "" }

// Findings says what is to be known about a node, in the order of the table.
func Findings(f *Facts) (list []finding.Finding) {
	var words *strings.Replacer
	for _, r := range table {
		if !r.when(f) {
			continue
		}
		if words == nil {
			words = f.words()
		}
		severity := r.severity
		if f.Barred && strings.Contains(r.text, "{barred}") {
			severity = finding.Unavailable
		}
		list = append(list, finding.Finding{
			Code: finding.Code(words.Replace(string(r.code))), Severity: severity,
			Text: words.Replace(r.text), Remedy: words.Replace(r.remedy),
		})
	}
	return list
}

// words puts the facts in the place of the words in braces that the table has.
func (f *Facts) words() *strings.Replacer {
	barred := ""
	if f.Barred {
		barred = ", here and on so many nodes that locks fail"
	}
	return strings.NewReplacer(
		"{barred}", barred,
		"{error}", f.Error, "{reply}", strings.ToLower(f.Reply), "{odd}", f.Odd,
		"{info refused}", f.InfoRefused, "{config refused}", f.ConfigRefused,
		"{record}", f.RecordKey, "{unkept}", f.Unkept,
		"{policy}", f.Policy, "{used}", fmt.Sprint(f.UsedMemory), "{maxmemory}", fmt.Sprint(f.MaxMemory),
		"{fsync}", f.Fsync, "{timeout}", fmt.Sprint(f.IdleTimeout), "{pause}", fmt.Sprint(f.ProbePause),
		"{strange}", f.Strange, "{script refused}", f.ScriptRefused, "{script reply}", strings.ToLower(f.ScriptReply),
		"{settings}", f.Settings, "{same settings}", f.SameSettings,
		"{lists}", f.listsInWords(), "{own list}", f.ownListInWords(), "{lists refused}", f.ListsRefused,
		"{clock ahead}", (-f.Uptime).String(),
		"{token ahead}", f.TokenAhead.String(), "{token}", fmt.Sprint(f.Token), "{floor}", f.FloorKey,
	)
}
