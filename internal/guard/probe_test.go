package guard

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/token"
)

// node answers the commands of a probe like a master that has been up for an hour, unless a test says otherwise.
type node struct {
	asked   []string
	replies map[string]any // by the prefix of the command
	info    map[string]string
	record  string
	known   string // the SHA of the script that it has
	down    error  // it cannot be probed

	backlogTTL string
	before     func() // nil, or run before each EVAL
}

func newNode() *node {
	return &node{backlogTTL: "3600", replies: map[string]any{}, info: map[string]string{
		"run_id": strings.Repeat("r", 40), "uptime_in_seconds": "3600",
		"role": "master", "master_replid": strings.Repeat("a", 40), "master_replid2": noReplID,
		"maxmemory": "0", "maxmemory_policy": "noeviction",
	}}
}

// do is a redisconn.Do.
func (n *node) do(commands ...[]any) (replies []any, _ error) {
	for _, command := range commands {
		if n.before != nil && command[0] == "EVAL" {
			n.before()
		}
		if n.down != nil {
			return nil, n.down
		}
		text := strings.TrimSuffix(fmt.Sprintln(command...), "\n")
		if command[0] == "EVAL" { // without the script
			text = fmt.Sprintf("EVAL %v %q %q", command[3], command[4], command[5])
		}
		n.asked = append(n.asked, text)
		replies = append(replies, n.reply(text, command))
	}
	return replies, nil
}

func (n *node) reply(text string, command []any) any {
	for prefix, reply := range n.replies {
		if strings.HasPrefix(text, prefix) {
			return reply
		}
	}
	switch command[0] {
	case "INFO":
		all := "# " + command[1].(string) + "\r\n"
		for key, value := range n.info {
			memory := strings.HasPrefix(key, "maxmemory")
			if memory && command[1] == "memory" || !memory && command[1] == "replication" {
				all += key + ":" + value + "\r\n"
			}
		}
		return []byte(all)
	case "CONFIG":
		values := map[string]string{
			"repl-backlog-ttl": n.backlogTTL, "appendfsync": "no",
			"maxmemory": n.info["maxmemory"], "maxmemory-policy": n.info["maxmemory_policy"],
		}
		if value := values[command[2].(string)]; value != "" {
			return []any{[]byte(command[2].(string)), []byte(value)}
		}
		return []any{}
	case "TIME":
		return []any{[]byte(fmt.Sprint(now.Unix())), []byte("0")}
	case "SCRIPT":
		return []any{map[bool]int64{true: 1}[n.known == command[2]]}
	case "EVAL":
		if n.record == command[4] {
			n.record = command[5].(string)
		}
		return []byte(n.record)
	case "GET":
		if command[1] == "p:redlock:node" && n.record != "" {
			return []byte(n.record)
		}
	case "MGET":
		var all []any
		for _, key := range command[1:] {
			value := n.reply(fmt.Sprint("GET ", key), []any{"GET", key})
			if _, wrongType := value.(redis.Error); wrongType {
				value = nil
			}
			all = append(all, value)
		}
		return all
	}
	return nil
}

// rules are the Rules of most tests.
func rules() Rules {
	return Rules{Period: period, Late: time.Second, Prefix: "p:", Explain: func(err error, command string) error {
		if err == nil || command == "" {
			return err
		}
		return fmt.Errorf("%s: %w", command, err)
	}}
}

// newGuard returns a guard whose clock stands still, and whose claim accepts everything.
func newGuard(r Rules) *Guard {
	return New(&r, func() time.Time { return now }, func(...string) error { return nil })
}

// change makes a node, or this client's rules, another than usual.
type change func(n *node, r *Rules)

// says has the node reply that to commands with a prefix.
func says(prefix string, reply any) change {
	return func(n *node, _ *Rules) { n.replies[prefix] = reply }
}

// has sets fields of INFO, each followed by its value.
func has(fields ...string) change {
	return func(n *node, _ *Rules) {
		for i := 0; i < len(fields); i += 2 {
			n.info[fields[i]] = fields[i+1]
		}
	}
}

// withoutInfo has this client accept nodes that refuse INFO.
func withoutInfo(_ *node, r *Rules) { r.WithoutInfo = true }

// meet returns a node and a guard that has not met it yet.
func meet(changes ...change) (*node, *Guard) {
	n, r := newNode(), rules()
	for _, change := range changes {
		change(n, &r)
	}
	return n, newGuard(r)
}

// met returns a node and the guard that has probed it once.
func met(t *testing.T, changes ...change) (*node, *Guard) {
	t.Helper()
	n, g := meet(changes...)
	probe(t, g, n, FirstProbe)
	return n, g
}

// probe probes a node, which must be fit.
func probe(t *testing.T, g *Guard, n *node, kind ProbeKind) *Info {
	t.Helper()
	info := cases.Must(g.Probe(n.do, kind, nil))(t)
	return info
}

// fails probes a node, which must fail for that reason.
func fails(t *testing.T, g *Guard, n *node, kind ProbeKind, want error) {
	t.Helper()
	if _, err := g.Probe(n.do, kind, nil); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
}

// abstains checks why the node abstains, "": it votes.
func abstains(t *testing.T, g *Guard, want reason) {
	t.Helper()
	got := reason("")
	if a := g.Abstention(); a != nil {
		got = a.reason
	}
	if got != want {
		t.Errorf("abstains: %q, want %q", got, want)
	}
}

const no = redis.Error("NOPERM no")

// other returns the id of another process or role.
func other(letter string) string { return strings.Repeat(letter, 40) }

// A probe that writes no record is one round trip, and TIME comes before the record.
func TestWhatANodeIsAsked(t *testing.T) {
	n, g := meet(withoutInfo)
	trips := 0
	info, err := g.Probe(func(commands ...[]any) ([]any, error) {
		trips++
		return n.do(commands...)
	}, FirstProbe, nil)
	if err != nil || info.Refused != "" || info.Blind != "" || info.Unkept != nil {
		t.Fatalf("got %+v, %v", info, err)
	}
	script := g.rules.recordScript().SHA
	want := []string{
		"TIME", "GET p:redlock:node", "GET p:redlock:floor",
		"INFO replication", "INFO server", "INFO persistence", "INFO memory", "EXISTS p:redlock:tokens",
		"CONFIG GET appendfsync", "CONFIG GET no-appendfsync-on-rewrite", "CONFIG GET save",
		"SCRIPT EXISTS " + script,
		`EVAL p:redlock:node "" "` + record{epoch("a"), ago(time.Hour - time.Second), false}.String() + `"`,
	}
	if !slices.Equal(n.asked, want) || trips != 2 {
		t.Errorf("asked in %d trips\n\t%s\nwant\n\t%s", trips, strings.Join(n.asked, "\n\t"), strings.Join(want, "\n\t"))
	}
	if n.known = script; n.record == "" {
		t.Error("no record was written")
	}
	n.asked = nil
	if probe(t, g, n, FullProbe); !slices.Equal(n.asked, want[:len(want)-1]) {
		t.Errorf("asked again\n\t%s", strings.Join(n.asked, "\n\t"))
	}
	if other := (&Rules{Prefix: "q:"}).recordScript(); other.SHA == script {
		t.Error("two prefixes share a script, so that a node with the one record seems to have the other as well")
	}
}

// A node that refuses a command is unfit, unreachable or less known.
func TestRefusals(t *testing.T) {
	busy, loading := redis.Error("BUSY no"), redis.Error("LOADING no")
	readOnly := redis.Error("READONLY You can't write against a read only replica.")
	down := func(n *node, _ *Rules) { n.down = redisconn.ErrDown }
	downLater := func(n *node, _ *Rules) { n.before = func() { n.down = redisconn.ErrTimeout } }
	asItMay := func(n *node, r *Rules) { n.replies["INFO"], r.WithoutInfo = no, true }
	const mustAnswer = "refused: it must answer INFO, for its role, uptime and eviction policy: "
	for _, c := range []struct {
		name  string
		get   change
		want  string // a part of the error; "": the node is fit
		is    error
		lacks string // what is less known of it, with the reason; "": nothing
	}{
		{"nothing", has(), "", nil, ""},
		{"to be asked", down, "not connected", redisconn.ErrDown, ""},
		{"INFO", says("INFO", no), mustAnswer + "info: NOPERM no; allow it", ErrRefused, "INFO: info: NOPERM no"},
		{"INFO, as it may", asItMay, "", nil, "INFO: info: NOPERM no"},
		{"INFO memory", says("INFO memory", no), "info: NOPERM no", ErrRefused, "INFO: info: NOPERM no"},
		{
			"INFO is not what it should be", says("INFO server", int64(7)),
			"info: unexpected reply 7", ErrRefused, "INFO: info: unexpected reply 7",
		},
		{
			"INFO lacks something", has("uptime_in_seconds", ""),
			"INFO lacks role, replid or uptime", ErrRefused, "INFO: INFO lacks",
		},
		{"INFO for now", says("INFO", busy), "info: BUSY no", busy, ""},
		{"CONFIG", says("CONFIG", no), "", nil, "CONFIG: config: NOPERM no"},
		{
			"CONFIG is not what it should be", says("CONFIG", []any{[]byte("save")}),
			"", nil, "CONFIG: config: unexpected reply",
		},
		{"CONFIG for now", says("CONFIG", loading), "config: LOADING no", loading, ""},
		{"TIME", says("TIME", no), "TIME: time: NOPERM no", no, ""},
		{"TIME is none", says("TIME", []any{}), "TIME: time: unexpected reply []", nil, ""},
		{"to read the record", says("GET", no), "", nil, "record: get: NOPERM no"},
		{"the record is none", says("GET p:redlock:node", int64(1)), "", nil, "record: get: unexpected reply 1"},
		{"to write the record", says("EVAL", no), "", nil, "record: eval: NOPERM no"},
		{"the script's reply is none", says("EVAL", []any{}), "", nil, "record: eval: unexpected reply []"},
		{"to go on", downLater, "", nil, "record: eval: no answer within the node timeout"},
		{"it is no master any more", says("EVAL", readOnly), "eval: READONLY", readOnly, "record: eval: READONLY"},
		{
			"it has become a replica", has("role", "slave", "master_host", "h", "master_port", "6379"),
			"refused: it is a replica of h:6379", ErrRefused, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, g := meet(c.get)
			info, err := g.Probe(n.do, FirstProbe, nil)
			matches := strings.Contains(text(err), c.want) && (err != nil) == (c.want != "")
			if !matches || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q (%v)", err, c.want, c.is)
			}
			if unreachable := errors.As(err, new(UnreachableError)); unreachable != (info == nil) {
				t.Errorf("unreachable %t, %+v", unreachable, info)
			}
			kept, at, _ := g.Status()
			if !reflect.DeepEqual(kept, info) || info != nil && !at.Equal(now) {
				t.Errorf("keeps %+v at %s, and was told %+v", kept, at, info)
			}
			if info == nil {
				return
			}
			if info.Unkept != nil && g.known.record != info.record {
				t.Errorf("takes the record for %s, which could not be written", g.known.record)
			}
			var lacks []string
			for what, why := range map[string]string{"INFO": info.Refused, "CONFIG": info.Blind, "record": text(info.Unkept)} {
				if why != "" {
					lacks = append(lacks, what+": "+why)
				}
			}
			if got := strings.Join(lacks, "; "); !strings.HasPrefix(got, c.lacks) || len(lacks) > 0 != (c.lacks != "") ||
				len(lacks) > 1 {
				t.Errorf("less known: %q, want %q", got, c.lacks)
			}
		})
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A node that takes another replication id, as a master does when its first replica comes, is the node that it was,
// over the same connections. Clients that meet it then, and those that know it, date it alike.
func TestAFirstReplicaChangesNothing(t *testing.T) {
	n, g := met(t)
	votes := func(g *Guard, kind ProbeKind) {
		t.Helper()
		probe(t, g, n, kind)
		abstains(t, g, "")
	}
	votes(g, QuickProbe)
	g.SetSubscribed([]byte("master_replid:" + n.info["master_replid"]))
	for _, first := range []bool{true, false} { // is it the one that knows it?
		if n.info["master_replid"] = other("b"); !first {
			n.info["master_replid"] = other("c")
			votes(newGuard(rules()), FirstProbe)
		}
		votes(g, QuickProbe)
		votes(newGuard(rules()), FirstProbe)
		if !g.SubscribedToKnown() {
			t.Error("what comes over the second connection is not believed any more")
		}
	}
	n.record, n.replies["TIME"] = "", []any{[]byte(fmt.Sprint(now.Unix())), []byte("1")} // FLUSHALL
	n.info["master_replid"] = other("d")
	votes(newGuard(rules()), FirstProbe)
	probe(t, g, n, QuickProbe)
	abstains(t, g, reasonEmptied)
}

// What a master that was a replica in between has got from elsewhere may be its own record, too: from its former
// replica. That shows, unless its backlog was freed early; and who has seen it as a replica goes by that.
func TestAMasterThatWasAReplicaIsAnother(t *testing.T) {
	for name, get := range map[string]func(n *node, g *Guard){
		"it shows that it was promoted": func(n *node, _ *Guard) { n.info["master_replid2"] = other("e") },
		"its backlog is freed early":    func(n *node, _ *Guard) { n.backlogTTL = "29" },
		"nobody tells when it is freed": func(n *node, _ *Guard) { n.replies["CONFIG"] = no },
		"it was seen as a replica": func(n *node, g *Guard) {
			n.info["role"] = "slave"
			fails(t, g, n, QuickProbe, ErrRefused)
			n.info["role"] = "master"
		},
	} {
		t.Run(name, func(t *testing.T) {
			n, g := met(t)
			get(n, g)
			n.info["master_replid"] = other("b")
			fails(t, g, n, FullProbe, ErrChanged)
			if probe(t, g, n, FirstProbe); g.Abstention() == nil {
				t.Error("it votes")
			}
		})
	}
}

// A quick probe reads little, and becomes a full one if anything has changed, by every sixth time, and always where it
// could miss something.
func TestQuickProbe(t *testing.T) {
	quick := []string{
		"TIME", "MGET p:redlock:node p:redlock:floor", "INFO replication", "CONFIG GET maxmemory-policy",
	}
	its := func(change change) func(n *node, g *Guard) { return func(n *node, g *Guard) { change(n, g.rules) } }
	for _, c := range []struct {
		name string
		get  func(n *node, g *Guard) // changes the node before the quick probe
		full bool
		is   error // nil: the node is fit
	}{
		{"nothing has changed", its(has()), false, nil},
		{"it was emptied", func(n *node, _ *Guard) { n.record = "" }, true, nil},
		{"another client has dated it anew", func(n *node, _ *Guard) {
			n.record = record{epoch("a"), now.UnixMicro(), false}.String()
		}, true, nil},
		{"the record is none", func(n *node, _ *Guard) { n.record = "x" }, true, nil},
		{"it is durable now, says the record", func(n *node, _ *Guard) { n.record += " durable" }, true, nil},
		{"the record is of another type", its(says("GET p:redlock:node", redis.Error("WRONGTYPE no"))), true, nil},
		{"the record is refused", its(says("MGET", no)), true, nil},
		{"it evicts", its(has("maxmemory", "1", "maxmemory_policy", "allkeys-lru")), true, ErrRefused},
		{"it would evict if it had a limit", its(has("maxmemory_policy", "x")), true, nil},
		{"it has a limit, and does not evict", its(has("maxmemory", "1")), false, nil},
		{"another probe has found another policy meanwhile", func(_ *node, g *Guard) {
			own := *g.info
			own.Policy, g.now = "x", func() time.Time { g.info = &own; return now }
		}, true, nil},
		{"CONFIG is refused", its(says("CONFIG", no)), true, nil},
		{"CONFIG tells nothing", its(says("CONFIG", []any{})), true, nil},
		{"it was demoted", its(has("role", "slave")), true, ErrRefused},
		{"it was promoted", its(has("master_replid2", other("b"))), true, nil},
		{"another process answers", its(has("run_id", other("s"), "master_replid", other("b"))), true, ErrChanged},
		{"a first replica has come", its(has("master_replid", other("b"))), true, nil},
		{"its clock was set back, to before its record", func(n *node, g *Guard) {
			future := record{epoch("a"), now.Add(time.Hour).UnixMicro(), false}
			n.record, g.known.record, g.info.Uptime = future.String(), future, -time.Hour
		}, true, nil},
		{"INFO is refused", its(says("INFO", no)), true, ErrRefused},
		{"its clock was set", func(_ *node, g *Guard) { g.SetClock(token.Offset{}, time.Minute) }, true, nil},
		{"this client trusts durable nodes", func(_ *node, g *Guard) { g.rules.Durable = true }, true, nil},
		{"it was durable", func(_ *node, g *Guard) {
			g.info.AOF, g.info.Fsync, g.info.Lazy = true, "always", "no"
		}, true, nil},
		{"its record could not be written", func(_ *node, g *Guard) { g.confirmed = fullEvery }, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, g := met(t)
			c.get(n, g)
			n.asked = nil
			var clocks []int64
			_, err := g.Probe(n.do, QuickProbe, func(micros int64) { clocks = append(clocks, micros) })
			if !errors.Is(err, c.is) {
				t.Errorf("got %v, want %v", err, c.is)
			}
			if full := n.wasAskedAll(); full != c.full || !full && !slices.Equal(n.asked, quick) {
				t.Errorf("asked\n\t%s\nfull %t, want %t", strings.Join(n.asked, "\n\t"), full, c.full)
			}
			if len(clocks) == 0 || clocks[0] != now.UnixMicro() {
				t.Errorf("its clock: got %v", clocks)
			}
		})
	}
}

// wasAskedAll reports whether there was a full probe since asked was emptied.
func (n *node) wasAskedAll() bool { return slices.Contains(n.asked, "INFO memory") }

// By every sixth time a quick probe is a full one, and so is the next one after the node was found unfit: it may be so
// by a setting that a quick probe does not read.
func TestEverySixthProbeIsFull(t *testing.T) {
	n, g := met(t)
	quick := func(what string, full bool, want error) {
		t.Helper()
		n.asked = nil
		if fails(t, g, n, QuickProbe, want); n.wasAskedAll() != full {
			t.Errorf("%s: full %t, want %t", what, !full, full)
		}
	}
	for i := 1; i <= 2*fullEvery; i++ {
		quick(fmt.Sprint("probe ", i), i%fullEvery == 0, nil)
	}
	n.info["maxmemory"], n.info["maxmemory_policy"] = "1", "allkeys-lru"
	fails(t, g, n, FullProbe, ErrRefused)
	quick("it still evicts", true, ErrRefused)
	n.info["maxmemory"] = "0"
	quick("it evicts no more", true, nil)
	quick("fit again", false, nil)
}

// Two settings make a node evict. A quick probe reads the one that keeps it from that, or both by INFO if CONFIG GET,
// which is asked once, does not tell.
func TestWhatKeepsANodeFromEvicting(t *testing.T) {
	for _, c := range []struct {
		limit, policy string
		config        any // the reply; nil: as it is
		asked         string
		change, to    string
	}{
		{"0", "noeviction", nil, "CONFIG GET maxmemory-policy", "", ""},
		{"9", "noeviction", nil, "CONFIG GET maxmemory-policy", "maxmemory_policy", "volatile-lru"},
		{"0", "volatile-lru", nil, "CONFIG GET maxmemory", "maxmemory", "9"},
		{"0", "", nil, "CONFIG GET maxmemory", "", ""},
		{"9", "noeviction", no, "INFO memory", "maxmemory_policy", "volatile-lru"},
		{"0", "volatile-lru", no, "INFO memory", "maxmemory", "9"},
		{"0", "volatile-lru", []any{}, "INFO memory", "maxmemory", "9"},
		{"0", "volatile-lru", []any{[]byte("maxmemory"), []byte("none")}, "INFO memory", "maxmemory", "9"},
		{"0", "", no, "INFO memory", "", ""},
	} {
		n, g := meet(has("maxmemory", c.limit, "maxmemory_policy", c.policy))
		if c.config != nil {
			n.replies["CONFIG"] = c.config
		}
		for _, kind := range []ProbeKind{FirstProbe, QuickProbe, QuickProbe, QuickProbe} {
			n.asked = nil
			probe(t, g, n, kind)
		}
		if len(n.asked) != 4 || n.asked[3] != c.asked {
			t.Errorf("%+v: asked %q", c, n.asked)
		}
		if c.change != "" {
			n.info[c.change] = c.to
			fails(t, g, n, QuickProbe, ErrRefused)
		}
	}
	// A node that cannot answer at present is not taken for one that never does.
	n, g := met(t)
	n.replies["CONFIG"] = redis.Error("BUSY no")
	if _, err := g.Probe(n.do, QuickProbe, nil); !errors.As(err, new(UnreachableError)) || g.secretive {
		t.Errorf("it is busy: got %v, secretive %t", err, g.secretive)
	}
}

// A full probe that overtakes a quick one has read what the quick one does not ask. What both have seen change must not
// hide what has changed since.
func TestAFullProbeOvertakesAQuickOne(t *testing.T) {
	n, g := met(t)
	first := true
	_, err := g.Probe(func(commands ...[]any) ([]any, error) {
		if first {
			first = false
			n.info["maxmemory_policy"] = "volatile-lru"
			probe(t, g, n, FullProbe)
			n.info["maxmemory"] = "9"
		}
		return n.do(commands...)
	}, QuickProbe, nil)
	if !errors.Is(err, ErrRefused) {
		t.Errorf("it evicts now: got %v", err)
	}
}

// What a quick probe confirms counts as known: a node that loses its record afterwards has lost it since then.
func TestWhatAQuickProbeConfirms(t *testing.T) {
	n, g := met(t)
	was := g.known
	later := now.Add(10 * time.Second)
	g.now = func() time.Time { return later }
	if probe(t, g, n, QuickProbe); !g.known.at.Equal(later) {
		t.Errorf("known at %s, want %s", g.known.at, later)
	}
	if g.known.at = was.at; g.known != was {
		t.Errorf("got %+v, want %+v", g.known, was)
	}
	g.now = func() time.Time { return now.Add(-time.Second) } // its replies were read before the first probe's
	if probe(t, g, n, QuickProbe); g.known != was {
		t.Errorf("late: got %+v, want %+v", g.known, was)
	}
}

// A client that trusts durable nodes goes by what it knew of one that has restarted.
func TestLearningOfADurableNode(t *testing.T) {
	for _, trusting := range []bool{true, false} {
		n, g := met(t, has("aof_enabled", "1"), says("CONFIG", []any{
			[]byte("appendfsync"), []byte("always"), []byte("no-appendfsync-on-rewrite"), []byte("no"),
		}), func(_ *node, r *Rules) { r.Durable = trusting })
		n.info["master_replid"], n.info["uptime_in_seconds"] = other("b"), "2"
		if probe(t, g, n, FirstProbe); (g.Abstention() == nil) != trusting {
			t.Errorf("trusting %t: got %+v", trusting, g.Abstention())
		}
	}
}

// The node's identity is claimed before it may vote, and a refusal ends the probe.
func TestClaim(t *testing.T) {
	twin := errors.New("the same server as h")
	n := newNode()
	var claimed []string
	r := rules()
	g := New(&r, time.Now, func(ids ...string) error {
		claimed = append(claimed, ids...)
		return twin
	})
	if fails(t, g, n, FirstProbe, twin); g.known != (incarnation{}) || n.record != "" {
		t.Errorf("known as %+v, record %q", g.known, n.record)
	}
	if want := []string{n.info["run_id"], n.info["master_replid"]}; !slices.Equal(claimed, want) {
		t.Errorf("claimed %q, want %q", claimed, want)
	}
	n.info["role"] = "slave"
	if fails(t, g, n, FirstProbe, ErrRefused); len(claimed) > 2 {
		t.Errorf("unfit, and claimed %q", claimed)
	}
}

// No reply about the floor or the script is a reason to refuse the node.
func TestFloorAndScripts(t *testing.T) {
	for _, c := range []struct {
		floor, tokens, script any
		want                  int64
		hasScript             bool
	}{
		{[]byte("1766620800172208"), int64(1), []any{int64(1)}, 1766620800172208, true},
		{[]byte("5 8 9999999999999999"), int64(1), []any{int64(0)}, 5, false},
		{[]byte("5 8 9999999999999999"), int64(0), []any{int64(0)}, 8, false},
		{[]byte("5 8 9999999999999999"), no, []any{int64(0)}, 5, false},
		{[]byte("5 8 1"), int64(1), []any{int64(0)}, 8, false},
		{[]byte("5 8"), int64(0), []any{int64(0)}, 5, false},
		{[]byte("5 x 1"), int64(0), []any{int64(0)}, 5, false},
		{nil, int64(0), []any{int64(0)}, 0, false},
		{[]byte("x"), int64(0), []any{}, 0, false},
		{no, int64(0), no, 0, false},
	} {
		n, g := meet(withoutInfo, says("GET p:redlock:floor", c.floor), says("EXISTS", c.tokens), says("SCRIPT", c.script))
		if info := probe(t, g, n, FirstProbe); info.Floor != c.want || info.hasScript != c.hasScript {
			t.Errorf("%v, %v: got %d, %t", c.floor, c.script, info.Floor, info.hasScript)
		}
	}
}

// A node that refuses INFO counts one guard period after the first probe, also over later connections.
func TestLearningWithoutInfo(t *testing.T) {
	n, g := met(t, withoutInfo, says("INFO", no))
	abstains(t, g, reasonUnknown)
	n.known = g.rules.recordScript().SHA // by that EVAL
	later := now.Add(period + g.rules.Late)
	g.now = func() time.Time { return later }
	probe(t, g, n, FirstProbe)
	abstains(t, g, "")
	n.known = "" // it was restarted, with its data
	probe(t, g, n, FirstProbe)
	if abstains(t, g, reasonUnknown); g.known.since != later {
		t.Errorf("restarted: got %s, want %s", g.known.since, later)
	}
}

// Another client may write the node record after this one has read it, and may know more.
func TestWhoWasFasterWithTheRecordKnowsBetter(t *testing.T) {
	theirs := record{epoch("a"), ago(5 * time.Second), false}
	n, g := meet()
	n.before = func() { n.record = theirs.String() }
	probe(t, g, n, FirstProbe)
	if got := now.Sub(g.known.since); got != 5*time.Second || g.known.record != theirs || g.known.reason != reasonNoted {
		t.Errorf("got an age of %v (%s), record %s; want theirs", got, g.known.reason, g.known.record)
	}
	// If INFO is refused, a record that was written meanwhile stays: it is of this process, as the script is.
	n, g = meet(withoutInfo, says("INFO", no))
	theirs = record{unknownEpoch, ago(time.Minute), false}
	n.before = func() { n.record = theirs.String() }
	if probe(t, g, n, FirstProbe); n.record != theirs.String() {
		t.Errorf("got the record %s; want theirs", n.record)
	}
	// Clients that disagree stop after three attempts.
	n, g = meet()
	writes := 0
	n.before = func() {
		writes++
		n.record = record{epoch("b"), ago(0), writes%2 == 0}.String()
	}
	if probe(t, g, n, FirstProbe); writes != 3 {
		t.Errorf("written %d times", writes)
	}
}

// A late probe over an earlier connection changes nothing.
func TestWhatWasLearntBeforeIsNotBelieved(t *testing.T) {
	n, g := met(t)
	known, info := g.known, g.info
	g.now = func() time.Time { return now.Add(-time.Millisecond) }
	n.info["uptime_in_seconds"], n.record = "5", ""
	n.asked = nil
	if probe(t, g, n, FirstProbe); g.known != known || g.info != info {
		t.Errorf("got %+v, want what was known before: %+v", g.known, known)
	}
	if last := n.asked[len(n.asked)-1]; strings.HasPrefix(last, "EVAL") {
		t.Errorf("the record is written anew: %s", last)
	}
}

// Without a guard period the record is not needed, so it is not written.
func TestNoGuardWritesNoRecord(t *testing.T) {
	n, g := meet(has("uptime_in_seconds", "0"), func(n *node, r *Rules) { n.record, r.Period = "x 1", 0 })
	if info := probe(t, g, n, FirstProbe); info.Unkept != nil || n.record != "x 1" {
		t.Errorf("got %v, record %q", info.Unkept, n.record)
	}
	abstains(t, g, "")
}

func TestMicros(t *testing.T) {
	for _, c := range []struct {
		reply any
		want  int64
		ok    bool
	}{
		{[]any{[]byte("1766620800"), []byte("172208")}, 1766620800172208, true},
		{[]any{[]byte("1766620800"), []byte("8")}, 1766620800000008, true},
		{[]any{[]byte("9007199253"), []byte("999999")}, 9007199253999999, true},
		{[]any{[]byte("9007199254"), []byte("0")}, 0, false},
		{[]any{[]byte("9223372036854775807"), []byte("999999")}, 0, false},
		{[]any{[]byte("-1"), []byte("0")}, 0, false},
		{[]any{[]byte("0"), []byte("1000000")}, 0, false},
		{[]any{[]byte("1766620800")}, 0, false},
		{[]any{[]byte("now"), []byte("0")}, 0, false},
		{"1766620800", 0, false},
		{nil, 0, false},
	} {
		if got, err := Micros(c.reply); got != c.want || (err == nil) != c.ok {
			t.Errorf("%v: got %d, %v", c.reply, got, err)
		}
	}
}

// The Info that Status returns never changes: callers read it without the mutex.
func TestStatusWhileTheNodeIsAsked(t *testing.T) {
	n, g := meet()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for range 1000 {
			if info, _, _ := g.Status(); info != nil && info.Unkept != nil {
				t.Errorf("got %v", info.Unkept)
			}
			runtime.Gosched()
		}
	}()
	for range 200 {
		probe(t, g, n, FirstProbe)
		runtime.Gosched()
	}
	<-read
}

// A client that may not use INFO knows by this script that a node has not been restarted: clients of all versions must
// use the same.
func TestTheRecordScriptStaysTheSame(t *testing.T) {
	const want = "df74273e45e147f20996572448af3708f5784bb5"
	if got := (&Rules{}).recordScript().SHA; got != want {
		t.Errorf("got SHA %s, want %s", got, want)
	}
}
