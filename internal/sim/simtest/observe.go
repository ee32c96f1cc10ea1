package simtest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/quorumlock/redlock/internal/sim"
)

// owners gives the random owners of holds short names, so that two runs of one seed can be compared. An owner is named when
// its first command arrives somewhere, which virtual time orders.
type owners struct {
	mu    sync.Mutex // protects names
	names map[string]string
	count map[string]int // by client
}

func newOwners() *owners { return &owners{names: map[string]string{}, count: map[string]int{}} }

const uuidLength = 36

func (o *owners) short(client, text string) string {
	if len(text) != uuidLength || strings.Count(text, "-") != 4 {
		return text
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.names[text] == "" {
		o.count[client]++
		o.names[text] = fmt.Sprintf("%s#%d", client, o.count[client])
	}
	return o.names[text]
}

// observe traces a command that a node executed.
func (w *world) observe(c sim.Command, o *owners) {
	args := make([]string, len(c.Args))
	for i, a := range c.Args {
		args[i] = o.short(c.Client, a)
	}
	w.mu.Lock()
	w.result.Commands++
	w.mu.Unlock()
	w.record(event{c.At, c.Node, func() string {
		return fmt.Sprintf("%s: %s → %s", c.Client, request(args), reply(c.Reply, o))
	}})
}

// request writes a command without what is long and dull.
func request(args []string) string {
	switch args[0] {
	case "evalsha":
		return strings.Join(append([]string{args[0], args[1][:6]}, args[2:]...), " ")
	case "eval", "script":
		for i, a := range args {
			if len(a) > 60 {
				head, _, _ := strings.Cut(a, "\n")
				args[i] = fmt.Sprintf("%.30s…", head)
			}
		}
	}
	return strings.Join(args, " ")
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
	case string:
		s := o.short("?", v)
		if len(s) > 60 {
			s = s[:57] + "…"
		}
		return strings.ReplaceAll(s, "\r\n", " ")
	}
	return fmt.Sprint(v)
}
