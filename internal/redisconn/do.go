package redisconn

import (
	"context"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
)

// native is every command that is sent for itself. Requests of one command stay in order.
var native = &Command{}

// Ask sends commands to the server among all else that is sent, and passes their replies on. It does not wait: then is
// called by whoever has the last reply, and must not block. See Do for what it gets.
func (c *Conn) Ask(then func(replies []any, err error), commands ...[]any) {
	a := &asking{then: then, replies: make([]any, len(commands)), failures: make([]error, len(commands))}
	a.left.Store(int32(len(commands)))
	asked := c.config.Now()
	for i, command := range commands {
		e := &Encoder{}
		for _, arg := range command {
			e.Add(arg)
		}
		e.end()
		c.Send(&Request{Message: &Message{Command: native, Asked: asked, Native: e.buf}, Round: a, Node: i})
	}
}

// Do is Ask for a caller that waits, until ctx is done. It waits for the time-out at most.
func (c *Conn) Do(ctx context.Context, commands ...[]any) ([]any, error) {
	type answer struct {
		replies []any
		err     error
	}
	got := make(chan answer, 1)
	c.Ask(func(replies []any, err error) { got <- answer{replies, err} }, commands...)
	select {
	case a := <-got:
		return a.replies, a.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Eval runs a script for a caller that waits. Its error may be the server's own.
func (c *Conn) Eval(ctx context.Context, script *lua.Script, keys []string, args ...any) (any, error) {
	tail := []any{len(keys)}
	for _, key := range keys {
		tail = append(tail, key)
	}
	tail = append(tail, args...)
	replies, err := c.Do(ctx, append([]any{"EVALSHA", script.SHA}, tail...))
	if err == nil && Code(asError(replies[0])) == "NOSCRIPT" {
		replies, err = c.Do(ctx, append([]any{"EVAL", script.Source}, tail...))
	}
	if err == nil {
		err = asError(replies[0])
	}
	if err != nil {
		return nil, err
	}
	return replies[0], nil
}

// asError returns the error that a reply is, or nil.
func asError(reply any) error {
	if err, ok := reply.(redis.Error); ok {
		return err
	}
	return nil
}

// asking is the Round of an Ask. Its requests are told apart by their Node.
type asking struct {
	then     func([]any, error)
	left     atomic.Int32 // replies
	replies  []any
	failures []error
}

// Reply is Round's.
func (a *asking) Reply(i int, reply any, err error) {
	switch {
	case err == nil:
		a.replies[i] = reply
	case isErrorReply(err):
		a.replies[i] = err
	default:
		a.failures[i] = err
	}
	if a.left.Add(-1) > 0 {
		return
	}
	for _, err := range a.failures {
		if err != nil {
			a.then(nil, err)
			return
		}
	}
	a.then(a.replies, nil)
}

// Over is Round's: a native command is never sent again.
func (a *asking) Over() bool { return false }

// Hold is Round's. Nobody reuses an asking.
func (a *asking) Hold() {}

// Done is Round's.
func (a *asking) Done() {}
