package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// replies is several replies to one request, as SUBSCRIBE to several channels gives.
type replies []any

// call is one command under execution. args[0] is the command's name in lower case.
type call struct {
	*Node
	client *client
	args   []string
	now    int64 // node time in ms, the same through a script
}

// flag says what Redis allows a command to do, and when.
type flag uint8

const (
	flagWrite    flag = 1 << iota
	flagDenyOOM       // may need memory
	flagNoScript      // not from a script
	flagLoading       // also while loading
	flagNoAuth        // before AUTH
	flagSub           // also on a subscribed connection
)

// command is one row of the command table. arity is Redis's: exact, or at least -arity if negative; it counts the name.
type command struct {
	run   func(*call) any
	arity int
	flags flag
}

const (
	errWrongType = Error("WRONGTYPE Operation against a key holding the wrong kind of value")
	errSyntax    = Error("ERR syntax error")
	errNotInt    = Error("ERR value is not an integer or out of range")
)

// execute runs one request from outside. Caller holds mu.
func (n *Node) execute(c *client, args []string) any {
	x := &call{Node: n, client: c, args: args, now: n.clock.ms()}
	reply := n.watched(c, args, func() any { return x.dispatch(false) })
	if n.observe != nil && !c.trusted {
		seen := reply
		if many, ok := reply.(replies); ok {
			seen = []any(many)
		}
		n.observe(Command{At: time.Now(), Node: n.addr, Client: c.from, Conn: c.id, Args: args, Reply: seen})
	}
	return reply
}

// dispatch makes the checks of Redis's processCommand, in its order, and runs the command.
func (x *call) dispatch(script bool) any {
	name := strings.ToLower(x.args[0])
	cmd, ok := commands[name]
	if !ok || x.disabled[name] {
		if script {
			return Error("ERR Unknown Redis command called from script")
		}
		return x.unknown()
	}
	if cmd.arity < 0 && len(x.args) < -cmd.arity || cmd.arity > 0 && len(x.args) != cmd.arity {
		if script {
			return Error("ERR Wrong number of args calling Redis command from script")
		}
		return wrongArgs(name)
	}
	x.args[0] = name
	if script && cmd.flags&flagNoScript != 0 {
		return Error("ERR This Redis command is not allowed from script")
	}
	if !x.client.trusted {
		if refused := x.refuse(name, cmd.flags, script); refused != "" {
			return refused
		}
	}
	if script && x.strict && x.undeclared() {
		return Error("ERR script tried accessing undeclared key")
	}
	x.calls[name]++
	if script && cmd.flags&flagWrite != 0 {
		x.lua.dirty = true
	}
	return cmd.run(x)
}

// refuse returns the error that keeps the command from running, or "".
func (x *call) refuse(name string, flags flag, script bool) Error {
	if !script && !x.client.authed && flags&flagNoAuth == 0 {
		return "NOAUTH Authentication required."
	}
	if x.denied[name] {
		if script {
			return "NOPERM The user executing the script can't run this command or subcommand"
		}
		return Error(fmt.Sprintf("NOPERM this user has no permissions to run the '%s' command", name))
	}
	// A node refuses a script as a whole: BUSY and its like never strike between two commands of one.
	if !script {
		if reply, ok := x.injected(name); ok {
			return reply
		}
	}
	// Redis lets a script that has written finish, whatever memory it needs: half of its writes would be worse.
	switch wrote := script && x.lua.dirty; {
	case flags&flagDenyOOM != 0 && x.config["maxmemory"] == "1" && !wrote:
		return "OOM command not allowed when used memory > 'maxmemory'."
	case flags&flagWrite != 0 && x.master == "" && x.config["min-replicas-to-write"] != "0":
		return "NOREPLICAS Not enough good replicas to write."
	case flags&flagWrite != 0 && x.master != "":
		return "READONLY You can't write against a read only replica."
	case !script && len(x.client.subs) > 0 && x.client.proto != 3 && flags&flagSub == 0:
		return Error(fmt.Sprintf("ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET "+
			"are allowed in this context", name))
	case x.loading && flags&flagLoading == 0:
		return "LOADING Redis is loading the dataset in memory"
	}
	return ""
}

// undeclared reports whether a script's command uses a key that the script may not use: see Strict.
func (x *call) undeclared() bool {
	if x.honoured != "" && strings.HasPrefix(x.lua.program.source, x.honoured) {
		return false
	}
	var keys []string
	switch x.args[0] {
	case "time", "publish", "pubsub", "scan":
	case "mget", "del", "exists":
		keys = x.args[1:]
	default:
		keys = x.args[1:2]
	}
	return slices.ContainsFunc(keys, func(key string) bool { return !slices.Contains(x.lua.keys, key) })
}

func (x *call) unknown() Error {
	return Error(oneLine(fmt.Sprintf("ERR unknown command '%.128s', with args beginning with: '%.128s' ",
		x.args[0], strings.Join(x.args[1:], "' '"))))
}

func wrongArgs(name string) Error {
	return Error(fmt.Sprintf("ERR wrong number of arguments for '%s' command", name))
}
