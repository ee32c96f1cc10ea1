package guard

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/resp"
	"github.com/quorumlock/redlock/internal/token"
)

// The probe of a node: with each new connection, and periodically.

// recordScript writes the record. Each prefix has a script of its own, and EVAL loads it and writes the record in one
// step: a node that knows the script has had a record with that prefix since it started.
func (r *Rules) recordScript() *lua.Script {
	return lua.New(fmt.Sprintf("%s-- %q\n", nodeScript.Source, r.Prefix))
}

// nodeScript must stay as it is, comments included: clients of two versions would take the node to have lost its data.
var nodeScript = lua.Load("node")

// A full probe reads everything. infoSections are read one at a time: several in one command need Redis 7, as several
// names in one CONFIG GET do. Each name is exact, since a pattern costs the node ten times as much.
var (
	infoSections = []string{"replication", "server", "persistence", "memory"}
	configNames  = []string{"appendfsync", "no-appendfsync-on-rewrite", "save"}
)

// commands returns those of a full probe. TIME goes first, so no record written after the probe is dated before it.
func (r *Rules) commands() [][]any {
	all := [][]any{{"TIME"}, {"GET", r.RecordKey()}, {"GET", r.FloorKey()}}
	for _, section := range infoSections {
		all = append(all, []any{"INFO", section})
	}
	all = append(all, []any{"EXISTS", r.TokensKey()})
	for _, name := range configNames {
		all = append(all, []any{"CONFIG", "GET", name})
	}
	if r.WithoutInfo {
		all = append(all, []any{"SCRIPT", "EXISTS", r.recordScript().SHA})
	}
	return all
}

// quickCommands returns the commands of a quick probe: few and cheap ones, since a thousand clients may be idle. MGET
// takes a key of another type for a missing one, but then a full probe follows, which knows better. What keeps the node
// from evicting, the safeguard, costs it 0.3 µs and 40 bytes by CONFIG GET; INFO memory, which costs 4 µs and 1,400
// bytes, is for nodes whose CONFIG GET does not tell: then safeguard is "".
func (r *Rules) quickCommands(safeguard string) [][]any {
	last := []any{"CONFIG", "GET", safeguard}
	if safeguard == "" {
		last = []any{"INFO", "memory"}
	}
	return [][]any{{"TIME"}, {"MGET", r.RecordKey(), r.FloorKey()}, {"INFO", "replication"}, last}
}

// answers reads the replies to a probe's commands one after the other.
type answers struct {
	rules   *Rules
	replies []any
}

func (a *answers) next() (any, error) {
	reply := a.replies[0]
	a.replies = a.replies[1:]
	if err, refused := reply.(redis.Error); refused {
		return nil, err
	}
	return reply, nil
}

// fields reads the next n replies into one map. lacks says why the map is incomplete.
func (a *answers) fields(n int, command string) (said map[string]string, lacks string, _ error) {
	said = make(map[string]string)
	for range n {
		reply, err := a.next()
		if resp.Is(err, resp.Outage) {
			return nil, "", a.rules.Explain(err, command)
		}
		if err == nil {
			err = parseFields(reply, said)
		}
		if err != nil {
			lacks = a.rules.Explain(err, command).Error()
		}
	}
	return said, lacks, nil
}

// begin sends the commands of a probe, and reads the reply to the first, TIME. clock, if it is not nil, gets the node's
// clock. An error means that the node cannot be probed at present.
func (r *Rules) begin(do redisconn.Do, commands [][]any, clock func(micros int64)) (*answers, int64, error) {
	replies, err := do(commands...)
	if err != nil {
		return nil, 0, err
	}
	a := &answers{r, replies}
	reply, err := a.next()
	var micros int64
	if err == nil {
		micros, err = Micros(reply)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("TIME: %w", r.Explain(err, "time"))
	}
	if clock != nil {
		clock(micros)
	}
	return a, micros, nil
}

// ask asks everything.
func (r *Rules) ask(do redisconn.Do, clock func(micros int64)) (*Info, error) {
	a, micros, err := r.begin(do, r.commands(), clock)
	if err != nil {
		return nil, err
	}
	recordText := ""
	reply, unkept := a.next()
	if unkept == nil && reply != nil {
		recordText, unkept = textOf(reply)
	}
	floor, _ := redis.String(a.next()) // 0 if it is refused or missing
	info, refused, err := a.fields(len(infoSections), "info")
	if err != nil {
		return nil, err
	}
	at := micros
	if exists, err := redis.Int(a.next()); err == nil && exists == 0 {
		at = math.MaxInt64 // the set of tokens is gone, so the floor counts that is for later
	}
	config, blind, err := a.fields(len(configNames), "config")
	if err != nil {
		return nil, err
	}
	var known []int
	if r.WithoutInfo {
		known, _ = redis.Ints(a.next())
	}
	i := parseInfo(info, config)
	if refused != "" {
		i = &Info{Refused: refused}
	}
	i.Blind, i.trusted, i.hasScript, i.period = blind, r.Durable, slices.Equal(known, []int{1}), r.Period
	i.micros, i.Unkept, i.recordText, i.record = micros, unkept, recordText, parseRecord(recordText)
	i.Floor = token.ParseFloor(floor, at)
	return i, nil
}

// askQuickly asks what a quick probe does. was is what the last full one has read; safeguard: see quickCommands.
func (r *Rules) askQuickly(do redisconn.Do, was *Info, safeguard string, clock func(micros int64)) (*Info, error) {
	a, micros, err := r.begin(do, r.quickCommands(safeguard), clock)
	if err != nil {
		return nil, err
	}
	texts, unkept := redis.Strings(a.next())
	if len(texts) != 2 {
		texts = []string{"", ""}
	}
	sections := 1
	if safeguard == "" {
		sections = 2
	}
	info, refused, err := a.fields(sections, "info")
	if err != nil {
		return nil, err
	}
	i := parseQuickInfo(info)
	if refused != "" {
		i = &Info{Refused: refused}
	}
	if safeguard != "" {
		config, blind, err := a.fields(1, "config")
		if err != nil {
			return nil, err
		}
		i.Blind = blind
		i.readSafeguard(config, was)
	}
	i.micros, i.Unkept, i.recordText, i.record = micros, unkept, texts[0], parseRecord(texts[0])
	i.Floor = max(was.Floor, token.ParseFloor(texts[1], micros)) // whether the set of tokens is gone was not asked
	return i, nil
}

// textOf returns a reply that is a text.
func textOf(reply any) (string, error) {
	text, err := redis.String(reply, nil)
	if err != nil {
		return "", resp.Unexpected(reply)
	}
	return text, nil
}

// Micros parses the reply to TIME, in µs since 1970. A time after 2255, when there are no tokens any more, is none: so
// the difference of two times fits into a time.Duration.
func Micros(reply any) (int64, error) {
	parts, err := redis.Int64s(reply, nil)
	if err != nil || len(parts) != 2 || uint64(parts[0]) >= token.Max/1_000_000 || uint64(parts[1]) >= 1_000_000 {
		return 0, resp.Unexpected(reply)
	}
	return parts[0]*1e6 + parts[1], nil
}

// UnreachableError means that the node could not be probed.
type UnreachableError struct{ error }

// Unwrap returns the reason.
func (e UnreachableError) Unwrap() error { return e.error }

// ErrChanged means that another incarnation of the node answers over an old connection, so the handshake is void.
var ErrChanged = errors.New("its role or identity has changed")

// ProbeKind says how much a probe reads.
type ProbeKind uint8

// The kinds of probes.
const (
	// FirstProbe reads everything over a new connection.
	FirstProbe ProbeKind = iota
	// FullProbe reads everything over a connection in use, where another incarnation is an error.
	FullProbe
	// QuickProbe reads the clock, the role, the identity and the record, which say whether the node has restarted, was
	// emptied, demoted or replaced, and what keeps it from evicting locks. If anything has changed, or by every sixth
	// time, it becomes a FullProbe: that notices other settings of the node, none of which makes votes unsafe.
	QuickProbe
)

// fullEvery is which quick probe becomes a full one.
const fullEvery = 6

// Probe asks the node and decides whether it may vote, and from when on. clock, unless nil, gets the node's clock, in
// µs since 1970, before the node is judged. After any error but an [UnreachableError] the caller closes the connection.
func (g *Guard) Probe(do redisconn.Do, kind ProbeKind, clock func(micros int64)) (*Info, error) {
	if kind == QuickProbe {
		if was, safeguard := g.mayBeQuick(); was != nil {
			info, err := g.rules.askQuickly(do, was, safeguard, clock)
			if err != nil {
				return nil, UnreachableError{err}
			}
			if g.confirm(info, was, g.now()) {
				return info, nil
			}
		}
	}
	info, err := g.rules.ask(do, clock)
	if err != nil {
		return nil, UnreachableError{err}
	}
	return info, g.apply(info, g.now(), kind, do)
}

// mayBeQuick returns what is known of the node if the next probe may leave out what rarely changes, else nil, as for
// one with durable persistence: while its append-only file was off, votes are not in it. safeguard: see quickCommands.
func (g *Guard) mayBeQuick() (was *Info, safeguard string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	i := g.info
	switch {
	case i == nil || i.Refused != "" || g.confirmed >= fullEvery-1,
		g.rules.Durable || i.durable() || g.known.record.durable:
		return nil, ""
	case g.secretive:
		return i, ""
	default:
		return i, i.safeguard()
	}
}

// confirm reports whether a quick probe, whose replies were read before now, found the node as it was when the probe
// began. Then it notes that the node has forgotten nothing until now.
func (g *Guard) confirm(said, was *Info, now time.Time) bool {
	g.sem <- struct{}{}
	defer func() { <-g.sem }()
	g.mu.Lock()
	defer g.mu.Unlock()
	known := &g.known
	g.secretive = g.secretive || said.Blind != ""
	same := g.info == was && said.Refused == "" && said.Blind == "" && said.Unkept == nil && g.jump == (jump{}) &&
		said.repeats(was) && said.confirms(known) && (known.record.since <= said.micros || was.Uptime >= 0)
	if !same {
		return false
	}
	if !now.Before(known.at) { // otherwise a later probe was faster
		known.micros, known.at = said.micros, now
		g.confirmed++
		g.updateAbstention()
	}
	return true
}

// repeats reports whether a quick probe has read what the last full one has.
func (i *Info) repeats(was *Info) bool {
	return i.Role == was.Role && i.master == was.master && i.Promoted == was.Promoted &&
		i.Policy == was.Policy && (i.MaxMemory > 0) == (was.MaxMemory > 0)
}

// confirms reports whether the node is of that incarnation, and has its record.
func (i *Info) confirms(known *incarnation) bool {
	return i.epoch() == known.epoch && i.record == known.record && i.recordText == known.record.String()
}

// apply judges the node by its info, which was read before now, and updates its record.
func (g *Guard) apply(info *Info, now time.Time, kind ProbeKind, do redisconn.Do) error {
	own := *info // writeRecord changes this copy, while Status reads info
	said := &own
	g.sem <- struct{}{}
	defer func() { <-g.sem }()
	old, stale := g.receive(info, now)
	if stale {
		return nil
	}
	if err := said.unfit(g.rules); err != nil {
		if said.Role != "master" { // it may get the data of another
			g.mu.Lock()
			g.known.run = ""
			g.mu.Unlock()
		}
		return g.rules.Explain(err, "")
	}
	if old.epoch != said.epoch() && said.continues(old) && !g.rules.showsPromotion(do) {
		old.run = ""
	}
	continues := old.epoch == said.epoch() || said.continues(old)
	if kind != FirstProbe && !continues {
		return ErrChanged
	}
	if err := g.claim(said.runID, said.replID); err != nil {
		return err
	}
	next := old.reconcile(said, now)
	unkept, command := said.Unkept, "get"
	if g.rules.Period == 0 || unkept != nil {
		next.record = said.record
	} else if next, unkept = g.writeRecord(said, old, next, do); unkept != nil {
		next.record, command = said.record, "eval"
	}
	readOnly := resp.Is(unkept, resp.Demoted)
	unkept = g.rules.Explain(unkept, command)
	g.settle(info, old, next, unkept)
	if readOnly {
		return unkept
	}
	return nil
}

// receive notes the info, unless it is stale: a later connection's probe was faster. It returns what was known before.
func (g *Guard) receive(info *Info, now time.Time) (old incarnation, stale bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old = g.known
	old.jump = g.jump
	if now.Before(old.at) {
		return old, true
	}
	g.info, g.at = info, now
	g.confirmed = fullEvery // unless the node is fit
	return old, false
}

// settle makes next what is known of the node. unkept is why the node does not have its record, or nil.
func (g *Guard) settle(info *Info, old, next incarnation, unkept error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	info.Unkept = unkept
	if info.continues(old) && g.subscribedEpoch == old.epoch {
		g.subscribedEpoch = next.epoch
	}
	g.known = next
	if unkept == nil {
		g.confirmed = 0
	}
	if g.jump == old.jump {
		g.jump = jump{} // known accounts for it
	}
	g.updateAbstention()
}

// showsPromotion reports whether a promoted master shows that for the guard's period: until it frees its backlog.
func (r *Rules) showsPromotion(do redisconn.Do) bool {
	said := make(map[string]string)
	replies, err := do([]any{"CONFIG", "GET", "repl-backlog-ttl"})
	if err != nil || parseFields(replies[0], said) != nil {
		return false
	}
	seconds, err := strconv.Atoi(said["repl-backlog-ttl"])
	return err == nil && (seconds == 0 || time.Duration(seconds)*time.Second >= r.Period) // 0: it never does
}

// writeRecord writes next's record to the node. If another client was faster, it reconciles again with that record. It
// returns the incarnation that goes with the record that the node has now.
func (g *Guard) writeRecord(said *Info, old, next incarnation, do redisconn.Do) (incarnation, error) {
	for range 3 { // clients that disagree must not go on for ever
		want := next.record.String()
		if want == said.recordText {
			break
		}
		replies, err := do([]any{"EVAL", g.rules.recordScript().Source, 1, g.rules.RecordKey(), said.recordText, want})
		if err != nil {
			return next, err
		}
		if refusal, refused := replies[0].(redis.Error); refused {
			return next, refusal
		}
		stored, err := textOf(replies[0])
		if err != nil {
			return next, err
		}
		if stored == want {
			break
		}
		said.recordText, said.record, said.hasScript = stored, parseRecord(stored), true
		next = old.reconcile(said, next.at)
	}
	return next, nil
}
