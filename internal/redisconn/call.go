package redisconn

import (
	"errors"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/resp"
)

// Call is a call of a script for one server alone, or any other command.
type Call struct {
	Script *lua.Script // nil: Args are the whole command
	Args   []any       // of a script: the number of keys, the keys, the arguments
	// Heard gets the reply, which may be a redis.Error, or why there is none. It must not block.
	Heard func(reply any, err error)
	// Over reports that the call must not be made again for lack of the script, since a later one, which may have been
	// made, replaces or undoes it. It may be nil.
	Over func() bool

	again bool // it is made again, with the script's source
}

var errOver = errors.New("not asked again: a later request counts")

// repeated returns the call with the script's source.
func (c Call) repeated() Call {
	c.again = true
	return c
}

// isOver reports whether a call must not be made again, and tells that it is not.
func (c Call) isOver() bool {
	if !c.again || c.Over == nil || !c.Over() {
		return false
	}
	c.Heard(nil, errOver)
	return true
}

func (c Call) command() []any {
	switch {
	case c.Script == nil:
		return c.Args
	case c.again:
		return append([]any{"EVAL", c.Script.Source}, c.Args...)
	default:
		return append([]any{"EVALSHA", c.Script.SHA}, c.Args...)
	}
}

// lacked reports whether a reply says that the server lacks the script: since it may not be loaded, or after SCRIPT
// FLUSH. Then the script's source is sent, once, here and in Behind as for rounds in resend.
func (c Call) lacked(reply any) bool {
	err, refused := reply.(redis.Error)
	return refused && !c.again && c.Script != nil && resp.Is(err, resp.Unloaded)
}

// AskScript makes the call, and does not wait: see Ask.
func (c *Conn) AskScript(call Call) {
	c.Ask(func(replies []any, err error) {
		switch {
		case err != nil:
			call.Heard(nil, err)
		case call.lacked(replies[0]):
			if again := call.repeated(); !again.isOver() {
				c.AskScript(again)
			}
		default:
			call.Heard(replies[0], nil)
		}
	}, call.command())
}

// Behind returns a Do that makes the calls behind its first commands, so that they cost no round trip of their own, and
// those whose script the server lacks once more behind the next commands, which may be none.
func Behind(do Do, calls ...Call) Do {
	return func(commands ...[]any) ([]any, error) {
		own, made := len(commands), slices.DeleteFunc(calls, Call.isOver)
		calls, commands = nil, slices.Clip(commands)
		for _, call := range made {
			commands = append(commands, call.command())
		}
		replies, err := do(commands...)
		for i, call := range made {
			switch {
			case err != nil:
				call.Heard(nil, err)
			case call.lacked(replies[own+i]):
				calls = append(calls, call.repeated())
			default:
				call.Heard(replies[own+i], nil)
			}
		}
		if err != nil {
			return nil, err
		}
		return replies[:own], nil
	}
}
