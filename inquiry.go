package redlock

import (
	"fmt"

	"github.com/quorumlock/redlock/internal/lua"
)

// query is a command whose reply tells facts. The last one is not always asked.
type query struct {
	kind *kind
	key  string
}

func (n *node) queries() []query {
	list := make([]query, 0, 10)
	for _, s := range infoSections {
		list = append(list, query{askInfo, s})
	}
	for _, p := range configPatterns {
		list = append(list, query{askConfig, p})
	}
	list = append(list, query{readTime, ""}, query{askRecord, n.recordKey()}, query{askRecord, n.floorKey()})
	if n.opts.blind {
		list = append(list, query{askScript, n.recordScript().SHA})
	}
	return list
}

func (n *node) recordKey() string { return n.opts.prefix + nodeName }
func (n *node) floorKey() string  { return n.opts.prefix + floorName }

// recordScript differs from prefix to prefix, so that whoever makes the node know it
// has seen to the record of that prefix in the same step.
func (n *node) recordScript() *lua.Script {
	return lua.New(fmt.Sprintf("%s-- %q\n", nodeScript.Source, n.opts.prefix))
}

var nodeScript = lua.Load("node")

// The kinds of questions that tell facts.
var (
	askInfo   = &kind{index: 10, command: "INFO", native: oneArg, read: asItCame, trust: trustAll}
	askConfig = &kind{index: 11, command: "CONFIG", native: getArg, read: asItCame, trust: trustAll}
	askRecord = &kind{index: 12, command: "GET", native: oneArg, read: asItCame, trust: trustAll}
	askScript = &kind{index: 13, command: "SCRIPT", native: existsArg, read: asItCame, trust: trustAll}
	setRecord = &kind{index: 14, command: "EVAL", native: recordArgs, read: asItCame, trust: trustAll}
)

func oneArg(q *question, args []any) []any    { return append(args, q.key) }
func getArg(q *question, args []any) []any    { return append(args, "GET", q.key) }
func existsArg(q *question, args []any) []any { return append(args, "EXISTS", q.key) }

func recordArgs(q *question, args []any) []any {
	return append(args, q.args[2], 1, q.key, q.args[0], q.args[1])
}

func asItCame(reply any) answer { return answer{vote: voteGranted, reply: reply} }
