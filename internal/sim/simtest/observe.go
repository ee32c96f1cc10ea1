package simtest

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/quorumlock/redlock/internal/sim"
)

// owners gives the random owners of holds short names, so that two runs of one seed can be compared. An owner is named
// by its first command in the trace, which virtual time orders.
type owners struct {
	names map[string]string // nil: all have the same
	count map[string]int    // by client
}

func newOwners() *owners { return &owners{names: map[string]string{}, count: map[string]int{}} }

var (
	uuids  = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	tokens = regexp.MustCompile(`\b1\d{15}`)
	drawn  = regexp.MustCompile(`[0-9a-f]{12,40}`) // at random, or a digest of what is
	labels = regexp.MustCompile(`redlock:(label|wake):[0-9a-f-]+`)
)

// short replaces what a pattern matches in a text by its name.
func (o *owners) short(pattern *regexp.Regexp, client, text string) string {
	return pattern.ReplaceAllStringFunc(text, func(id string) string {
		if o.names == nil {
			return "owner"
		}
		if o.names[id] == "" {
			o.count[client]++
			o.names[id] = fmt.Sprintf("%s#%d", client, o.count[client])
		}
		return o.names[id]
	})
}

// observe keeps a command for the trace. Most traces are never read, so it is written out only when one is.
func (w *world) observe(c sim.Command) {
	w.mu.Lock()
	w.result.events = append(w.result.events, event{at: c.At, who: c.Node, command: &c})
	w.result.Counts["commands"]++
	endless := w.result.Counts["commands"] == tooMany
	w.mu.Unlock()
	if endless {
		last := Result{events: w.result.events[tooMany-60:]}
		panic(fmt.Sprintf("%s: %d commands, and no end of it; the last ones:\n%s",
			w.scenario, tooMany, strings.Join(last.Trace(), "\n")))
	}
}

// tooMany commands are a hundred times what a run usually comes to: Lockers and nodes keep each other busy, and virtual
// time may not even go on.
const tooMany = 600_000

// write returns the event's text: a line, or one for each lock that a script was asked about. Which requests share a
// batch, and in which order, is the scheduler's affair and makes no difference to any of them.
func (e event) write(o *owners) []string {
	if e.command == nil {
		return []string{e.text}
	}
	args := make([]string, len(e.command.Args))
	for i, a := range e.command.Args {
		args[i] = o.short(uuids, e.command.Client, a)
	}
	if len(args) > 3 && args[3] == "redlock:lists" {
		return []string{e.command.Client + ": " + o.short(drawn, "id", fmt.Sprint(args[2:], " → ", e.command.Reply))}
	}
	if is := scriptOf(*e.command); is.name != "" && len(args) > 3 {
		keys, _ := keysAndArguments(*e.command)
		lines := make([]string, len(keys))
		for i, key := range keys {
			what, said := aboutLock(*e.command, is, i)
			lines[i] = o.short(uuids, e.command.Client, fmt.Sprintf("%s: %s: %s → %s", e.command.Client, key, what, said))
		}
		return lines
	}
	line := fmt.Sprintf("%s: %s → %s", e.command.Client, request(args), reply(e.command.Reply, o))
	return []string{labels.ReplaceAllString(line, "redlock:$1:")}
}

// answers are what scripts say, by their codes; acquire stands for all that give locks.
var answers = map[string][]string{
	"acquire":      {"taken:", "granted", "granted, knows", "not granted", "revoked"},
	"raise":        {"not its lock", "accepted", "knows"},
	"extend":       {"not its lock", "extended", "repaired", "revoked"},
	"keep_reading": {"not its lock", "extended", "repaired", "revoked"},
	"release":      {"was free", "released", "another's"},
	"stop_reading": {"was free", "released", "another's"},
	"revoke":       {"not its lock", "taken away"},
}

// aboutLock puts into words what a script was asked about one of its locks, and its answer.
func aboutLock(c sim.Command, is shape, i int) (what, said string) {
	keys, argv := keysAndArguments(c)
	own := make([]string, 3)
	if is.undo { // the owner, its place in the queue, and the token
		own[0], is.token = ownersIn(argv)[i], 2
		for at := range 2 {
			if from := 1 + at*len(keys) + i; from < len(argv) {
				own[1+at] = argv[from]
			}
		}
	} else if own = is.each(argv, len(keys))[i]; is.name == "extend" {
		is.token = extendsToken
	}
	what = is.name + " " + own[is.owner]
	if is.token > 0 && tokens.MatchString(own[is.token]) {
		what += " token " + own[is.token]
	}
	if strings.Contains(fmt.Sprint(own), ":wake:") || is.name == "acquire" && argv[len(argv)-1] != "" {
		what += map[bool]string{true: ", and queue", false: ", or queue"}[is.undo]
	}
	if failed, is := c.Reply.(sim.Error); is {
		return what, string(failed)
	}
	answer, words := answerAbout(c.Reply, i), answers[is.name]
	said = slices.Concat(words, answers["acquire"][len(words):])[answer.Code]
	if said += " " + answer.Holder; answer.Known > 0 {
		said += strconv.FormatFloat(answer.Known, 'f', -1, 64)
	}
	return what, strings.TrimSpace(said)
}

// scriptNamed returns a script's name where it is given in full, else the beginning of its hash.
func scriptNamed(text string) string {
	if found := heads.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return text[:min(6, len(text))]
}

// request writes a command without what is long and dull.
func request(args []string) string {
	short := slices.Clone(args)
	for i, a := range short {
		if len(a) > 60 {
			head, _, _ := strings.Cut(a, "\n")
			short[i] = fmt.Sprintf("%.30s…", head)
		}
	}
	return strings.Join(short, " ")
}

func reply(v any, o *owners) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = reply(x, o)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	text := o.short(uuids, "?", strings.ReplaceAll(fmt.Sprint(v), "\r\n", " "))
	if len(text) > 60 {
		text = text[:57] + "…"
	}
	return text
}
