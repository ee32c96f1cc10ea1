package redisconn

import (
	"context"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"
)

// native is the Command of all that Ask sends: requests with one Command stay in order.
var native = &Command{}

// Ask sends commands together with all other requests, and does not wait. It calls then with the results of Do when the
// last reply has come, in any goroutine; then must not block.
func (c *Conn) Ask(then func(replies []any, err error), commands ...[]any) {
	if len(commands) == 0 {
		then(nil, nil)
		return
	}
	a := &askRound{then: then, replies: make([]any, len(commands)), failures: make([]error, len(commands))}
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

// askRound is the Round of an Ask. A request's Node is its index among the commands.
type askRound struct {
	then     func([]any, error)
	left     atomic.Int32 // replies to come
	replies  []any
	failures []error
}

// Reply implements Round.
func (a *askRound) Reply(i int, reply any, err error) {
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

// Over implements Round. A native command is never sent again.
func (a *askRound) Over() bool { return false }

// Retain implements Round. An askRound is never reused, so nothing is counted.
func (a *askRound) Retain() {}

// Done implements Round.
func (a *askRound) Done() {}
