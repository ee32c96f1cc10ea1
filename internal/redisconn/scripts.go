package redisconn

import (
	"strings"

	"github.com/gomodule/redigo/redis"
)

// loadScripts makes EVALSHA work: it loads the scripts that the server does not have. If the server refuses to, since
// the user may not or it does not know SCRIPT, the first call of each script sends its source. The question which ones
// it has carries the greeting.
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
	if err != nil && unknownCommand(err) { // who may not ask may yet be allowed to load, but not here
		return nil
	}
	var load [][]any
	for i, s := range c.config.Scripts {
		if err != nil || i >= len(known) || known[i] == 0 {
			load = append(load, []any{"SCRIPT", "LOAD", s.Source})
		}
	}
	if len(load) == 0 {
		return nil
	}
	if replies, err = l.exchange(load...); err != nil {
		return err
	}
	for _, r := range replies {
		err, refused := r.(redis.Error)
		if code := Code(err); refused && code != "NOPERM" && code != "ERR" {
			return err // it refuses all
		}
	}
	return nil
}

// unknownCommand reports whether the server does not know the command: rename-command takes one away.
func unknownCommand(err error) bool {
	return strings.HasPrefix(strings.ToLower(err.Error()), "err unknown command")
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
