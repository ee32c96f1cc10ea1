package redisconn

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// native is the Command of all that Ask sends.
var native = &Command{}

// Ask sends commands, one directly behind the other, together with all other requests, and does not wait. It calls then
// with the results of Do when the last reply has come, in any goroutine; then must not block.
func (c *Conn) Ask(then func(replies []any, err error), commands ...[]any) {
	if len(commands) == 0 {
		then(nil, nil)
		return
	}
	e := &Encoder{}
	for _, command := range commands {
		for _, arg := range command {
			e.Add(arg)
		}
		e.end()
	}
	m := &Message{Command: native, Asked: c.config.Now(), Native: e.buf, Replies: len(commands)}
	c.Send(&Request{Message: m, Round: &askRound{then, len(commands)}})
}

// Do is Ask for a caller that waits: until ctx is done, and no longer than the time-out.
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

// asError returns an error reply as an error, and nil for any other reply.
func asError(reply any) error {
	if err, ok := reply.(redis.Error); ok {
		return err
	}
	return nil
}

// askRound is the Round of an Ask.
type askRound struct {
	then     func(replies []any, err error)
	commands int
}

// Reply implements Round.
func (a *askRound) Reply(_ int, reply any, err error) {
	switch {
	case err != nil && !isErrorReply(err):
		a.then(nil, err)
	case a.commands > 1:
		a.then(reply.([]any), nil)
	case err != nil:
		a.then([]any{err}, nil)
	default:
		a.then([]any{reply}, nil)
	}
}

// Over implements Round. A native command is never sent again.
func (a *askRound) Over() bool { return false }

// Retain implements Round. An askRound is never reused, so nothing is counted.
func (a *askRound) Retain() {}

// Done implements Round.
func (a *askRound) Done() {}
