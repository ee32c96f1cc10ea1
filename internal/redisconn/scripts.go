package redisconn

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/lua"
)

// loadScripts makes EVALSHA work: it loads the scripts that the server does not have. If the user may not use SCRIPT
// LOAD, the first call of each script sends its source. The question which ones it has carries the greeting.
func (c *Conn) loadScripts(l *link) error {
	if len(c.config.Scripts) == 0 {
		_, err := c.greet(l)
		return err
	}
	ask := []any{"SCRIPT", "EXISTS"}
	for _, s := range c.config.Scripts {
		ask = append(ask, s.SHA)
	}
	replies, err := c.greet(l, ask)
	if err != nil {
		return err
	}
	known, err := redis.Ints(replies[0], asError(replies[0]))
	var load [][]any
	for i, s := range c.config.Scripts {
		if err != nil || i >= len(known) || known[i] == 0 {
			load = append(load, []any{"SCRIPT", "LOAD", s.Source})
		}
	}
	if len(load) == 0 {
		return nil
	}
	if replies, err = l.exchange(c.config.ConnectTimeout, load...); err != nil {
		return err
	}
	for _, r := range replies {
		if err, refused := r.(redis.Error); refused && Code(err) != "NOPERM" {
			return err
		}
	}
	return nil
}

// resend queues a request again, with the script's source, if the server has refused it for lack of the script, once. A
// server loses its scripts by SCRIPT FLUSH, and a proxy may change the server behind it. A request that is over is not
// sent again: its undo may have been sent already, and must stay behind it. For the same reason mu is held from Over to
// the append.
func (c *Conn) resend(r *Request, refusal error) bool {
	if Code(refusal) != "NOSCRIPT" || r.eval || r.Round.Over() {
		return false
	}
	r.eval = true
	c.queue = append(c.queue, r)
	return true
}

// Eval runs a script and waits for its reply. Its error may be an error reply.
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
