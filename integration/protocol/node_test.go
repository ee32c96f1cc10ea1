package protocol_test

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// node is a master as the client sees it: one connection, over which everything goes in order, and whether it votes.
type node struct {
	client *client
	url    string
	calls  chan *call

	conn redis.Conn // owned by run, like raw
	raw  *net.TCPConn

	// Guarded by client.mu.
	known      incarnation
	runID      string
	offset     int64 // of its clock, in µs
	maxError   int64
	read       int   // the number of the last reading of its clock; 0: none
	readAt     int64 // when, in µs of our clock
	ahead      int64 // of the median, before a jump
	jumped     int   // the number of the reading that showed one; 0: none
	jumpedAt   time.Time
	clockWrong bool
	probe      chan struct{}
}

// call is one call of a script.
type call struct {
	script     string
	keys, args []any
	asked      time.Time
	undo       bool
	reply      func(answer)
}

// since returns the time since then, by whichever clock shows more of it.
func since(then time.Time) time.Duration {
	now := time.Now()
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

const tokensKey = "redlock:tokens"

// scripts are put together as the page says.
var scripts = map[string]*redis.Script{
	"acquire":  load(-1, "revoked", "usual", "label", "readers", "queue", "join", "watchers", "acquire"),
	"enqueue":  load(-1, "revoked", "label", "readers", "queue", "join", "watchers", "enqueue"),
	"raise":    load(-1, "raise"),
	"extend":   load(-1, "revoked", "watchers", "value", "extend"),
	"release":  load(-1, "free", "readers", "queue", "watchers", "value", "release"),
	"trim":     load(-1, "trim"),
	"settings": load(-1, "settings"),
}

// config is what a client's user chooses.
type config struct{ ttl, guard, retention, timeout time.Duration }

// newClient returns a client that has asked all nodes for their time, or has failed to.
func newClient(urls []string, o config) *client {
	c := &client{
		ttl: o.ttl, guard: o.guard, retention: o.retention, timeout: o.timeout, need: len(urls)/2 + 1, epoch: time.Now(),
		waiting: map[string]chan struct{}{}, channel: "redlock:wake:" + rand.Text(),
	}
	_, _ = rand.Read(c.id[:])
	c.id[0] = c.id[0]&0x3f | 0x80
	ctx, cancel := context.WithCancel(context.Background())
	var running, ready sync.WaitGroup
	c.kill = func() { cancel(); running.Wait() }
	for _, url := range urls {
		c.nodes = append(c.nodes, &node{
			client: c, url: url, calls: make(chan *call, 1024), probe: make(chan struct{}, 1),
		})
	}
	ready.Add(2 * len(urls))
	for _, n := range c.nodes {
		running.Go(func() { n.run(ctx, sync.OnceFunc(ready.Done)) })
		running.Go(func() { n.hear(ctx, sync.OnceFunc(ready.Done)) })
	}
	ready.Wait()
	return c
}

func source(files ...string) string {
	text := "--!df flags=allow-undeclared-keys\n"
	if slices.Contains([]string{"trim", "settings", "lists", "node"}, files[len(files)-1]) {
		text = ""
	}
	for _, f := range files {
		part, err := os.ReadFile("../../internal/lua/" + f + ".lua")
		if err != nil {
			panic(err)
		}
		text += string(part)
	}
	return text
}

func load(keys int, files ...string) *redis.Script { return redis.NewScript(keys, source(files...)) }

func (n *node) send(c *call) { n.calls <- c }

// run executes calls, one after the other, and probes.
func (n *node) run(ctx context.Context, tried func()) {
	for due := time.NewTimer(0); ; {
		select {
		case <-ctx.Done():
			if n.conn != nil {
				_ = n.conn.Close()
			}
			return
		case c := <-n.calls:
			n.execute(c)
			continue
		case <-due.C:
		case <-n.probe:
		}
		if n.conn == nil {
			_ = n.connect()
		} else if n.ask(false) != nil {
			n.reset()
		} else {
			n.trim(n.client.time(), 20*time.Second, "")
		}
		tried()
		due.Reset(5*time.Second + mathrand.N(10*time.Second))
	}
}

func (n *node) execute(c *call) {
	for {
		a := answer{kind: failed}
		if c.undo || since(c.asked) < n.client.timeout {
			a = readAnswer(c.script, n.call(c))
		}
		if c.undo && a.kind == failed && since(c.asked) < n.client.ttl {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if why := n.votes(c.asked); why != nil && !c.undo && (c.script != "extend" || errors.Is(why, errClock)) {
			if a.uncounted = true; a.kind == granted || a.kind == outbid {
				a.kind = abstained
			}
		}
		c.reply(a)
		return
	}
}

// call returns the reply, or the error.
func (n *node) call(c *call) any {
	if n.conn == nil && n.connect() != nil {
		return errTaken
	}
	var reply any
	var err error
	if c.script == "SET" {
		reply, err = n.conn.Do("SET", append(c.keys[:1:1], c.args...)...)
	} else {
		reply, err = scripts[c.script].Do(n.conn, append(append([]any{len(c.keys)}, c.keys...), c.args...)...)
	}
	if n.conn.Err() != nil {
		n.reset()
	}
	if err != nil {
		return err
	}
	return reply
}

// reset makes the kernel forget what is still on its way.
func (n *node) reset() {
	_ = n.raw.SetLinger(0)
	_ = n.conn.Close()
	n.conn = nil
}

func (n *node) connect() error {
	t := n.client.timeout
	conn, err := redis.DialURL(n.url, redis.DialReadTimeout(t), redis.DialWriteTimeout(t),
		redis.DialContextFunc(func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := (&net.Dialer{Timeout: t}).DialContext(ctx, network, addr)
			n.raw, _ = conn.(*net.TCPConn)
			return conn, err
		}))
	if err != nil {
		return err
	}
	n.conn = conn
	if err = n.ask(true); err != nil {
		n.reset()
	}
	return err
}

// trim has the node drop what is older than the retention, and notes the floor.
func (n *node) trim(micros int64, extra time.Duration, begin string) {
	c := n.client
	note := func(a answer) {
		if floor, err := redis.Strings(a.reply, nil); err == nil {
			c.mu.Lock()
			c.floor = max(c.floor, number(floor[0]))
			c.mu.Unlock()
		}
	}
	n.send(&call{
		script: "trim", keys: []any{"redlock:floor", tokensKey}, asked: time.Now(), reply: note,
		args: []any{micros, c.retention.Microseconds(), (c.retention + extra).Milliseconds(), begin},
	})
}

// hear takes the messages of a second connection.
func (n *node) hear(ctx context.Context, subscribed func()) {
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		conn, err := redis.DialURL(n.url)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		p := redis.PubSubConn{Conn: conn}
		for err = p.Subscribe(n.client.channel); err == nil; {
			switch said := p.Receive().(type) {
			case error:
				err = said
			case redis.Subscription:
				subscribed()
			case redis.Message:
				n.handedOver(string(said.Data))
			}
		}
		stop()
		_ = conn.Close()
	}
}

// handedOver takes a message: owner, known token, key.
func (n *node) handedOver(message string) {
	c, parts := n.client, strings.SplitN(message, " ", 3)
	if len(parts) != 3 {
		return
	}
	c.mu.Lock()
	wake := c.waiting[parts[0]]
	c.mu.Unlock()
	if wake == nil { // given up
		n.send(&call{
			script: "release", keys: []any{parts[2], tokensKey}, args: []any{parts[0]}, asked: time.Now(), undo: true,
			reply: func(answer) {},
		})
		return
	}
	select {
	case wake <- struct{}{}:
	default:
	}
}
