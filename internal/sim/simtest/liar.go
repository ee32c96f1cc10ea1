package simtest

import (
	"crypto/sha1" //nolint:gosec // the name that Redis gives a script
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Liar is what a node is like that lies: a Byzantine one. It knows all that it is asked and has ever answered. Two
// kinds are judged apart:
//
//   - One says yes only where it gives what it was asked for, and keeps that: all that is promised holds beside it.
//   - One Grants the lock to everybody, does not do what it says, and forgets. Two holders may have that node alone in
//     common, so holds may overlap, and tokens be equal or out of order. But each hold stands on a majority less that
//     node: of five, on two others. So one that stands on three others, as one with four answers does, overlaps with
//     none. And of two holds whose tokens one other node has accepted, the later one has the larger token.
type Liar struct {
	Node    int
	Grants  bool
	Breadth float64 // the part of what it can be asked of which it lies
	Often   float64 // the part of its replies about that which are lies
	Keeps   float64 // how often it repeats what it said of the same before
	Yes     float64 // the part of its lies that grant what was asked for
	Tells   float64 // how often it tells those who listen what nobody has asked for
	Babbles float64 // the part of its lies that are no reply, or none that anybody expects
	Fast    bool    // it answers before all others
	Goes    bool    // with the faults: the others lie to the end
}

func (l *Liar) String() string {
	type plain Liar // without this method
	return fmt.Sprintf("%+v", plain(*l))
}

// ByzantineScenario returns a scenario in which one node lies: a random one, also with permits, or with jobs.
func ByzantineScenario(seed uint64) Scenario {
	s := ordinary(seed)
	r := rand.New(rand.NewPCG(seed, 0xb42a))
	switch r.IntN(6) {
	case 0:
		s = JobScenario(seed)
	case 1:
		s.Permits, s.Habits.Part[RLock] = 1+r.IntN(3), 0
		if s.Habits.Share {
			s.Workers = s.Permits + 1
		}
	}
	if r.IntN(2) == 0 {
		s.Nodes = 5
	}
	l := &Liar{
		Node: r.IntN(s.Nodes), Grants: r.IntN(3) == 0, Breadth: []float64{0.1, 0.3, 1}[r.IntN(3)],
		Often: []float64{0.03, 0.3, 1}[r.IntN(3)], Keeps: r.Float64(), Tells: max(0, 0.5*r.Float64()-0.25),
		Babbles: max(0, 0.4*r.Float64()-0.2), Fast: r.IntN(3) == 0, Goes: r.IntN(3) == 0,
	}
	if s.Liar = l; l.Grants {
		l.Breadth, l.Often, l.Yes = max(l.Breadth, 0.3), max(l.Often, 0.3), max(0, 2*r.Float64()-0.8)
	}
	// With a node that lies no other may do what is worse than being out of reach, unless the guard helps.
	s.Faults = slices.DeleteFunc(s.Faults, func(f fault) bool {
		return f.class == unsound || f.class == forgetful && (l.Grants || s.Jobs)
	})
	s.Sound = true
	return s
}

// liar is a Liar at work. Its fields are guarded by the node's lock.
type liar struct {
	Liar
	world    *world
	r        *rand.Rand
	scripts  map[string]string // names by SHA
	said     map[string]any    // the last lie, by what it was about
	heard    []any             // replies
	keys     []string
	owners   []string
	proposed int64 // the last token
	channels []string
	waits    [][3]string // channel, owner, key
	ahead    time.Duration
	silent   atomic.Bool // it does not lie any more
}

// corrupt makes a node lie, if the scenario has one that does.
func (w *world) corrupt() {
	if w.scenario.Liar == nil {
		return
	}
	w.liar = &liar{
		Liar: *w.scenario.Liar, world: w, r: rand.New(rand.NewPCG(w.scenario.Seed, 0x11a4)),
		scripts: map[string]string{}, said: map[string]any{},
		ahead: time.Until(w.nodes[0].Now()),
	}
	w.haste()
	w.nodes[w.liar.Node].Corrupt(&sim.Liar{Ignores: w.liar.ignores, Says: w.liar.says})
}

// haste makes a node that lies the first that answers, in some scenarios.
func (w *world) haste() {
	if w.liar != nil && w.liar.Fast {
		soon := sim.Delay{Min: w.scenario.Delay.Min / 4, Max: w.scenario.Delay.Min / 2}
		w.net.SetDelay(sim.Link{Node: w.nodes[w.liar.Node].Addr()}, sim.Both, soon)
	}
}

// lies reports whether there is a node that lies now; doubles, whether there was one that grants what it does not give.
func (w *world) lies() bool    { return w.liar != nil && !w.liar.silent.Load() }
func (w *world) doubles() bool { return w.liar != nil && w.liar.Grants }

// liesAt reports whether it is that node.
func (w *world) liesAt(n *sim.Node) bool { return w.liar != nil && n == w.nodes[w.liar.Node] }

// bearing returns the nodes of a list on which a hold must stand, and how many of them it needs: of those that do not
// grant what they do not give, a majority of all less one.
func (w *world) bearing(list []*sim.Node) (nodes []*sim.Node, need int) {
	need = len(list)/2 + 1
	if !w.doubles() || !slices.Contains(list, w.nodes[w.liar.Node]) {
		return list, need
	}
	return slices.DeleteFunc(slices.Clone(list), w.liesAt), need - 1
}

// voting are the scripts whose yes counts.
var voting = []string{
	"acquire", "acquire_all", "adopt", "enqueue", "extend", "keep_reading", "once", "raise", "read", "revoke",
}

// about names what a command is about.
func (l *liar) about(args []string) (subject string, keys int) {
	subject = strings.ToLower(args[0])
	switch {
	case subject == "evalsha":
		subject = l.scripts[args[1]]
		keys, _ = strconv.Atoi(args[2])
	case subject == "eval":
		subject = scriptNamed(args[1])
		keys, _ = strconv.Atoi(args[2])
	case subject != "set" && len(args) > 1 && len(args[1]) < 40:
		subject += " " + args[1]
	}
	return subject, keys - 1
}

// honestAbout reports whether it tells the truth about something, as the seed has it.
func (l *liar) honestAbout(subject string) bool {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, l.world.scenario.Seed, subject)
	return l.silent.Load() || rand.New(rand.NewPCG(h.Sum64(), 1)).Float64() >= l.Breadth
}

func (l *liar) ignores(c sim.Command) bool {
	subject, _ := l.about(c.Args)
	return l.Grants && slices.Contains(voting, subject) && !l.honestAbout(subject) && l.r.IntN(4) == 0
}

func (l *liar) says(c sim.Command) (lie sim.Lie) {
	subject, keys := l.about(c.Args)
	l.learn(c, subject)
	if l.silent.Load() {
		return lie
	}
	if l.r.Float64() < l.Tells && len(l.channels) > 0 {
		lie.Told = l.message()
	}
	switch {
	case c.Reply == nil && slices.Contains(voting, subject): // it was not executed
		lie.Instead, lie.Reply = true, int64(keys)
		return lie
	case l.honestAbout(subject) || l.r.Float64() >= l.Often:
		return lie
	}
	l.world.count("lies", 1)
	if l.r.Float64() < l.Babbles {
		l.babble(&lie)
		return lie
	}
	reply, before := l.said[subject]
	if !before || l.r.Float64() >= l.Keeps {
		reply = l.draw(c, subject, keys)
	}
	if !l.Grants && !l.admits(c, reply, subject, keys) {
		reply = l.error()
	}
	l.said[subject] = reply
	lie.Instead, lie.Reply = true, reply
	l.world.log(c.Node, "lies to %s about %s: %.200q", c.Client, subject, fmt.Sprint(reply))
	return lie
}

// admits reports whether a reply gives nothing that the true one does not give.
func (l *liar) admits(c sim.Command, reply any, subject string, keys int) bool {
	if subject == "inspect" && l.world.scenario.Jobs { // who begins a run relies on what a majority knows of the others
		return false
	}
	if subject == "set" {
		return reply != any(sim.OK) || c.Reply == any(sim.OK)
	}
	if !slices.Contains(voting, subject) {
		return true
	}
	for i := range keys {
		if gives(reply, i, keys) > gives(c.Reply, i, keys) {
			return false
		}
	}
	return true
}

// gives says what a script's reply gives of a lock: 2 the lock and the token, 1 less than that.
func gives(reply any, i, n int) int {
	if saysYes(reply, i, n) {
		return 2
	}
	if list, ok := reply.([]any); ok && i < len(list) {
		code := list[i]
		if detail, ok := code.([]any); ok && len(detail) > 0 {
			code = detail[0]
		}
		if code == any(int64(2)) {
			return 1
		}
	}
	return 0
}

func (l *liar) learn(c sim.Command, subject string) {
	if len(c.Args) > 2 && strings.EqualFold(c.Args[0], "script") || strings.EqualFold(c.Args[0], "eval") {
		source := c.Args[len(c.Args)-1]
		if strings.EqualFold(c.Args[0], "eval") {
			source = c.Args[1]
		}
		sum := sha1.Sum([]byte(source)) //nolint:gosec // see above
		l.scripts[hex.EncodeToString(sum[:])] = scriptNamed(source)
	}
	keep := func(list *[]string, text string) {
		if !slices.Contains(*list, text) {
			*list = append((*list)[max(0, len(*list)-30):], text)
		}
	}
	if c.Reply != nil && reflect.TypeOf(c.Reply) != reflect.TypeFor[string]() {
		l.heard = append(l.heard[max(0, len(l.heard)-60):], c.Reply)
	}
	if strings.EqualFold(c.Args[0], "subscribe") {
		keep(&l.channels, c.Args[1])
	}
	if !slices.Contains(voting, subject) {
		return
	}
	keep(&l.keys, c.Args[3])
	for _, arg := range c.Args[4:] {
		if token, err := strconv.ParseInt(arg, 10, 64); err == nil && len(arg) == 16 {
			l.proposed = token
		}
		owner := uuids.FindString(arg)
		if owner == "" {
			continue
		}
		keep(&l.owners, owner)
		if words := strings.Fields(arg); len(words) == 4 {
			l.waits = append(l.waits[max(0, len(l.waits)-30):], [3]string{words[3], owner, c.Args[3]})
		}
	}
}

func one[T any](r *rand.Rand, list []T) (t T) {
	if len(list) == 0 {
		return t
	}
	return list[r.IntN(len(list))]
}

// draw draws a lie that is well-formed.
func (l *liar) draw(c sim.Command, subject string, keys int) any {
	what := l.r.IntN(14)
	if l.r.Float64() < l.Yes {
		what = 10
	}
	if what >= 8 && !slices.Contains(voting, subject) {
		what %= 8
	}
	switch what {
	case 0:
		return l.number()
	case 1:
		return l.error()
	case 2:
		return one(l.r, l.heard)
	case 3:
		return l.shape()
	case 8, 9: // taken
		all := []any{}
		for range keys {
			all = append(all, []any{int64(0), l.text(), l.number(), l.text(), l.number()}[:1+l.r.IntN(5)])
		}
		return all
	case 10, 11:
		return int64(keys)
	case 12, 13: // a larger token is known
		all := []any{}
		for range keys {
			all = append(all, []any{int64(2), l.token()})
		}
		return all
	}
	return l.distort(c.Reply)
}

// distort changes a part of a reply.
func (l *liar) distort(reply any) any {
	switch v := reply.(type) {
	case nil:
		return l.text()
	case int64:
		return l.number()
	case sim.Status:
		return sim.Status(strings.NewReplacer("\r", " ", "\n", " ").Replace(l.text()))
	case sim.Error:
		return l.error()
	case []any:
		list := slices.Clone(v)
		i := l.r.IntN(len(list) + 1)
		switch {
		case i == len(list) || l.r.IntN(6) == 0:
			return slices.Insert(list, i, any(l.text()))
		case l.r.IntN(6) == 0:
			return list[:i]
		}
		list[i] = l.distort(list[i])
		return list
	}
	if reflect.TypeOf(reply).Kind() != reflect.String { // what subscribes, or says hello
		return one(l.r, []any{nil, []any{}, []any{l.text(), l.text(), l.number()}, l.number()})
	}
	text := reflect.ValueOf(reply).String()
	between, within := "\r\n", ":" // as INFO has it; else as other texts have it
	if !strings.Contains(text, between) {
		between, within = " ", ""
	}
	parts := strings.Split(text, between)
	i := l.r.IntN(len(parts))
	head, _, found := strings.Cut(parts[i], within)
	if parts[i] = l.text(); found && within != "" {
		parts[i] = head + within + one(l.r, []string{parts[i], "0", "1", "slave", "loading", "yes", "allkeys-lru"})
	}
	return strings.Join(parts, between)
}

func (l *liar) number() int64 {
	return one(l.r, []int64{
		0, -1, -2, 1, 2, 3, 4, l.r.Int64N(100), l.r.Int64N(1e6), 1<<53 - 2, 1 << 53, math.MaxInt64, math.MinInt64,
		l.time().UnixMilli() + l.r.Int64N(20_000) - 10_000,
	})
}

// time is what nodes' clocks show, more or less.
func (l *liar) time() time.Time { return time.Now().Add(l.ahead) }

// token is a number as text, of the time or far from it.
func (l *liar) token() string {
	if l.r.IntN(2) == 0 {
		return strconv.FormatInt(l.proposed+l.r.Int64N(3), 10)
	}
	now := l.time().UnixMicro()
	return strconv.FormatInt(one(l.r, []int64{
		now + l.r.Int64N(2e6) - 1e6, now + l.r.Int64N(2e6) - 1e6, now + 10*365*86400*1e6, now - 86400*1e6, 0, 1,
		1<<53 - 2, 1 << 53, math.MaxInt64,
	}), 10)
}

func (l *liar) text() string {
	switch l.r.IntN(8) {
	case 0, 1:
		return one(l.r, l.owners)
	case 2, 3:
		return l.token()
	case 4:
		return one(l.r, append([]string{""}, l.keys...))
	case 5:
		return one(l.r, append([]string{"", marker, "-"}, l.channels...))
	case 6:
		return strconv.FormatInt(l.number(), 10)
	}
	return one(l.r, []string{"\x1b]0;x\x07\x9b31m\u202e\r\n", strings.Repeat("x", 70<<10), "nan", "1e300", "-", "\x00"})
}

func (l *liar) error() any {
	return one(l.r, []sim.Error{
		"NOSCRIPT No matching script. Please use EVAL.", "NOAUTH Authentication required.", "WRONGPASS invalid",
		"NOPERM this user has no permissions to run the 'evalsha' command", "READONLY You can't write",
		"LOADING Redis is loading the dataset in memory", "BUSY Redis is busy running a script.", "OOM command not allowed",
		"MOVED 3999 127.0.0.1:6381", "ASK 1 127.0.0.1:1", "CLUSTERDOWN", "MISCONF", "NOREPLICAS", "NOPROTO", "UNKILLABLE",
		"ERR max number of clients reached", "ERR unknown command", "ERR", "", "\x1b]0;x\x07\x9b31m\u202e", "MASTERDOWN",
	})
}

func (l *liar) shape() any {
	var deep any = l.number()
	for range 1 + l.r.IntN(12) {
		deep = []any{deep}
	}
	return one(l.r, []any{
		nil, "",
		[]any{},
		deep,
		[]any{nil},
		[]any{[]any{}},
		slices.Repeat([]any{int64(1)}, 500), sim.Status(""), sim.OK,
		sim.Status("QUEUED"), l.text(),
	})
}

// babble says what is no reply, or none that anybody expects; "#t" would be a grant. Some of it makes whoever believes
// it run out of memory, or of stack.
func (l *liar) babble(lie *sim.Lie) {
	odd := []string{
		"#f\r\n", ",1.5\r\n", ",nan\r\n", "(12345678901234567890\r\n", "~2\r\n:0\r\n:0\r\n", "*-1\r\n", "%1\r\n+a\r\n+b\r\n",
		"|1\r\n+a\r\n+b\r\n:-7\r\n", "!5\r\nERR x\r\n", "=5\r\ntxt:x\r\n", "_\r\n", "$-1\r\n", ":-7\r\n",
		strings.Repeat(">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n", 1+l.r.IntN(1000)) + "-ERR\r\n",
	}
	broken := []string{
		"", "?", "$5\r\nab", "*3\r\n:1\r\n", ":\r\n", ":1x\r\n", "$abc\r\n", "+", "\r\n", "*2\r\n$-2\r\n",
		"HTTP/1.1 400 Bad\r\n", "\x16\x03\x01", strings.Repeat("*1\r\n", 200), strings.Repeat("+x", 40<<10),
		strings.Repeat("|1\r\n+a\r\n+b\r\n", 300), "*9223372036854775807\r\n", "$9223372036854775807\r\n",
		"*300000000\r\n", "%9223372036854775807\r\n", "$3000000000\r\n", strings.Repeat("*1\r\n", 300_000),
		">9223372036854775807\r\n", "$-9223372036854775808\r\n",
	}
	if l.r.IntN(2) == 0 {
		lie.Raw = one(l.r, odd)
		return
	}
	lie.Raw, lie.Ends = one(l.r, broken)+"?", true
	for range l.r.IntN(20) {
		lie.Raw += string(rune(l.r.IntN(256)))
	}
}

// message is one that nobody has sent: a hand-over, an end, a change.
func (l *liar) message() []string {
	to := [3]string{one(l.r, l.channels), one(l.r, l.owners), one(l.r, l.keys)}
	if len(l.waits) > 0 && l.r.IntN(2) == 0 {
		to = one(l.r, l.waits)
		if !l.Grants && l.r.IntN(2) == 0 {
			to[2] = "another:" + to[2]
		}
	}
	known := one(l.r, []string{"", l.token(), readerToken, l.text()})
	text := one(l.r, []string{to[1] + " revoked " + to[2], "- changed " + to[2], l.text(), to[1]})
	if l.Grants || strings.HasPrefix(to[2], "another:") {
		text = one(l.r, []string{text, to[1] + " " + known + " " + to[2]})
	}
	return []string{to[0], text}
}

// readerToken stands where a writer's token does.
const readerToken = "reading---------"
