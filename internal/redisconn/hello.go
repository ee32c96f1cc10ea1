package redisconn

import (
	"context"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/resp"
)

// RESP3 lets a connection take commands while it is subscribed, so that a client needs no second connection. Servers
// before Redis 6 and some proxies do not speak it; then the link stays with RESP2, which each connection begins with.

// protocol is what a connection speaks. The zero value: there was none yet.
type protocol uint8

const (
	resp2 protocol = 2
	resp3 protocol = 3
)

// plainFor is how long no HELLO is sent after one broke a connection: a proxy that does not know it breaks each one.
const plainFor = time.Hour

// connect opens a connection that is ready for requests.
func (d *dialer) connect(ctx context.Context) (*wire, error) {
	w, err := d.establish(ctx, func(ctx context.Context, w *wire) error {
		if err := d.prepare(w); err != nil {
			return d.causeOf(ctx, err, d.config.noReply())
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	w.patience, w.unwatch, w.encoder = nil, nil, resp.Encoder{} // an idle connection keeps nothing of its handshake
	w.decoder.Strict = false
	return w, nil
}

// prepare runs the handshake, which may refuse the server, on a new connection, then greets and loads the scripts.
func (d *dialer) prepare(w *wire) error {
	if d.config.Handshake != nil {
		if err := d.config.Handshake(w.do); err != nil {
			return w.first.Explain(err)
		}
	}
	return d.explain(d.loadScripts(w), "script")
}

// greet asks for RESP3, else stays with RESP2. It returns the replies to more commands, in the same round trip.
func (d *dialer) greet(w *wire, commands ...[]any) ([]any, error) {
	if d.config.Now().Before(d.plainUntil) {
		return w.exchange(commands...)
	}
	replies, err := w.exchange(append([][]any{{"HELLO", 3}}, commands...)...)
	if len(replies) == 0 {
		d.avoidRESP3()
		return nil, err
	}
	w.resp3 = speaksRESP3(replies[0])
	return replies[1:], err
}

// avoidRESP3 makes the next connections stay with RESP2. It is called by the goroutine that calls connect.
func (d *dialer) avoidRESP3() {
	if d.ctx.Err() == nil { // at Stop, the connection ends for another reason
		d.plainUntil = d.config.Now().Add(plainFor)
	}
}

// speaksRESP3 reads the reply to HELLO, names and values in turn.
func speaksRESP3(reply any) bool {
	said, _ := reply.([]any)
	for i := 0; i+1 < len(said); i += 2 {
		if text(said[i]) == "proto" {
			return said[i+1] == int64(3)
		}
	}
	return false
}

// loadScripts greets, and asks in the same round trip which scripts the server has. It loads the others, for EVALSHA to
// work. If the server refuses, as the user may not or it knows no SCRIPT, the first call of each sends its source.
func (d *dialer) loadScripts(w *wire) error {
	if len(d.config.Scripts) == 0 {
		_, err := d.greet(w)
		return err
	}
	ask := []any{"SCRIPT", "EXISTS"}
	for _, s := range d.config.Scripts {
		ask = append(ask, s.SHA)
	}
	replies, err := d.greet(w, ask)
	if err != nil {
		return err
	}
	known, err := redis.Ints(replies[0], nil)
	if err != nil && strings.HasPrefix(strings.ToLower(err.Error()), "err unknown command") { // taken by rename-command
		return nil // who may not ask may yet be allowed to load, but not here
	}
	var load [][]any
	for i, s := range d.config.Scripts {
		if err != nil || i >= len(known) || known[i] == 0 {
			load = append(load, []any{"SCRIPT", "LOAD", s.Source})
		}
	}
	if len(load) == 0 {
		return nil
	}
	if replies, err = w.exchange(load...); err != nil {
		return err
	}
	for _, r := range replies {
		if err, refused := r.(redis.Error); refused && !resp.Is(err, resp.Selective) {
			return err // it refuses all
		}
	}
	return nil
}
