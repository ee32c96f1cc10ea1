package main

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The limit is no lock: a hand-written client sends SET NX PX for each lock, and one script for
// all releases of a batch, to five masters and counts replies without looking at them. It stands for as
// many callers as the others have goroutines, each with one request under way; they go on when three
// masters have answered. What a lock library can reach at most on this machine. With tokens it sends one ZADD for each
// batch, too.
var (
	limitTogether = limit("limit", limitClient{each: 1})
	limitTokens   = limit("limit with tokens", limitClient{each: 1, tokens: true})
	limitTen      = limit("limit with tokens"+tenNames, limitClient{each: 10, tokens: true})
)

type limitClient struct {
	each   int // names of a lock
	tokens bool
	conns  []net.Conn
	sha    string
}

func limit(name string, form limitClient) contestant {
	return contestant{name: name, nodes: 5, open: func(nodes []string, _ wish) *client {
		c := form
		for _, node := range nodes {
			c.connect(node)
		}
		return &client{run: c.run, close: c.close}
	}}
}

func (c *limitClient) connect(node string) {
	conn := made(net.Dial("tcp", node))
	c.conns = append(c.conns, conn)
	made(conn.Write(command(nil, "SCRIPT", "LOAD", releaseAllScript)))
	r := bufio.NewReader(conn)
	made(r.ReadString('\n')) // $40
	c.sha = strings.TrimSpace(made(r.ReadString('\n')))
}

func (c *limitClient) close() {
	for _, conn := range c.conns {
		conn.Close()
	}
}

// command appends one command in the protocol's form.
func command(b []byte, args ...string) []byte {
	line := func(kind byte, n int) { b = append(strconv.AppendInt(append(b, kind), int64(n), 10), '\r', '\n') }
	line('*', len(args))
	for _, arg := range args {
		line('$', len(arg))
		b = append(append(b, arg...), '\r', '\n')
	}
	return b
}

// callers send together.
type callers struct {
	names  [][]string
	round  int
	bytes  [2][]byte // acquire, release
	args   []string  // scratch
	owners []string  // scratch
	scores []string  // scratch
}

// A batch is what they send at one time. Its late answers must not count for the next.
type batch struct {
	lines   int // of one master's answer
	replies atomic.Int32
	done    chan struct{} // closed when three masters have answered
}

func (c *limitClient) run(ctx context.Context, inFlight int, names [][]string, rec *recorder) error {
	if c.each > 1 {
		for i := range names {
			names[i] = expand(names[i], c.each)
		}
	}
	queues := make([]chan *batch, len(c.conns)) // under way on each connection, in order
	var readers sync.WaitGroup
	for i, conn := range c.conns {
		queues[i] = make(chan *batch, 1<<12)
		readers.Go(func() { countReplies(conn, queues[i]) })
	}
	defer func() {
		for _, q := range queues {
			close(q)
		}
		readers.Wait()
	}()
	all := &callers{names: names[:inFlight]}
	for ctx.Err() == nil {
		began := time.Now()
		lines := [2]int{all.encode(c), 1}
		for i, bytes := range all.bytes {
			b := &batch{lines: lines[i], done: make(chan struct{})}
			for i, conn := range c.conns {
				queues[i] <- b
				if _, err := conn.Write(bytes); err != nil {
					return err
				}
			}
			<-b.done
		}
		rec.cycles(time.Since(began), inFlight)
	}
	return nil
}

// countReplies reads the lines of each answer, until the queue is closed and empty. A
// dead connection counts as silence.
func countReplies(conn net.Conn, queue <-chan *batch) {
	buf := make([]byte, 64<<10)
	unclaimed := 0
	for b := range queue {
		for unclaimed < b.lines {
			n, err := conn.Read(buf)
			if err != nil {
				for range queue {
				}
				return
			}
			unclaimed += bytes.Count(buf[:n], []byte{'\n'})
		}
		unclaimed -= b.lines
		if b.replies.Add(1) == 3 {
			close(b.done)
		}
	}
}

// encode writes what the callers send next, and returns how many lines answer its acquire.
func (h *callers) encode(c *limitClient) (lines int) {
	keys := len(h.names) * c.each
	acquire, release, owners := h.bytes[0][:0], h.args[:0], h.owners[:0]
	release = append(release, "EVALSHA", c.sha, strconv.Itoa(keys))
	for _, names := range h.names {
		at := h.round % (len(names) / c.each) * c.each
		for _, name := range names[at : at+c.each] {
			acquire = command(acquire, "SET", name, limitOwner, "NX", "PX", "10000")
			release, owners = append(release, name), append(owners, limitOwner)
		}
	}
	if lines = keys; c.tokens {
		token := strconv.FormatInt(time.Now().UnixMicro(), 10)
		h.scores = append(h.scores[:0], "ZADD", "redlock:tokens", "GT", "CH")
		for _, name := range release[3:] {
			h.scores = append(h.scores, token, name)
		}
		acquire = command(acquire, h.scores...)
		lines++
	}
	h.args, h.owners = append(release, owners...), owners
	h.bytes[0], h.bytes[1] = acquire, command(h.bytes[1][:0], h.args...)
	h.round++
	return lines
}

const (
	limitOwner       = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	releaseAllScript = `
local holders, ours = redis.call("MGET", unpack(KEYS)), {}
for i = 1, #KEYS do
	if holders[i] == ARGV[i] then ours[#ours + 1] = KEYS[i] end
end
return redis.call("DEL", unpack(ours))`
)
