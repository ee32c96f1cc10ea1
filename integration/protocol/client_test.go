package protocol_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"
)

// client is written from docs/protocol.md, and from nothing else: levels 1 to 3.
type client struct {
	ttl, guard, retention, timeout time.Duration
	nodes                          []*node
	need                           int
	channel                        string
	id                             [4]byte
	epoch                          time.Time
	kill                           func() // ends the client, and leaves everything as it is

	mu          sync.Mutex // guards the fields below and what nodes know
	seen, floor int64
	behind      int64 // a test's: by how much what it proposes is late, in µs
	trimmed     time.Time
	readings    int                      // of clocks
	waiting     map[string]chan struct{} // by owner, while it may be in a queue
}

// hold is a lock, or an attempt at one.
type hold struct {
	client             *client
	key, owner, member string
	token              int64
	start              time.Time // of the round on which the validity rests
	asked              []bool    // which nodes
	extended           bool
}

var (
	errTaken = errors.New("taken")
	errLost  = errors.New("lost")
)

// Owners, tokens, places.

func (c *client) newHold(key string, micros int64) *hold {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(micros/1000)<<16|7<<12|uint64(micros%1000*4096/1000))
	copy(id[8:], c.id[:])
	_, _ = rand.Read(id[12:])
	h := &hold{client: c, key: key, asked: make([]bool, len(c.nodes))}
	h.owner = fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	return h
}

// propose gives the hold a new token.
func (h *hold) propose() {
	c := h.client
	c.mu.Lock()
	h.token = max(c.nodesTime()-c.behind, c.seen+1, c.floor+1, h.token+1)
	c.mu.Unlock()
}

func (c *client) observe(token int64) {
	c.mu.Lock()
	c.seen = max(c.seen, token)
	c.mu.Unlock()
}

func (h *hold) tokenText() string {
	if h.token == 0 {
		return ""
	}
	return fmt.Sprintf("%016d", h.token)
}

func (h *hold) ttl() string { return strconv.FormatInt(h.client.ttl.Milliseconds(), 10) }

// trim goes ahead of the request that proposes a token.
func (c *client) trim() {
	c.mu.Lock()
	due, micros := since(c.trimmed) > time.Second, c.nodesTime()
	if due {
		c.trimmed = time.Now()
	}
	c.mu.Unlock()
	for _, n := range c.nodes {
		if due {
			n.trim(micros, 0, "1")
		}
	}
}

// ask sends a script to the nodes and returns their votes when these are decisive, or at the deadline.
func (h *hold) ask(script string, to func(n int) bool, deadline time.Time, args ...any) *round {
	c := h.client
	r, asked := newRound(len(c.nodes), c.need), time.Now()
	for i, n := range c.nodes {
		if !to(i) {
			r.answers[i].kind = abstained
			continue
		}
		h.asked[i] = true
		n.send(&call{
			script: script, keys: []any{h.key, tokensKey}, args: args, asked: asked, undo: script == "release",
			reply: func(a answer) { r.replies <- vote{i, a} },
		})
	}
	r.wait(time.Until(deadline))
	return r
}

func everyNode(int) bool { return true }

// settle raises the token as long as that is what is missing, and reports whether the lock is held.
func (h *hold) settle(r *round, deadline time.Time) bool {
	c := h.client
	for r.verdict() == short {
		first, highest := r, h.token
		for _, a := range r.answers {
			highest = max(highest, a.known)
		}
		c.mu.Lock()
		now, floor := c.nodesTime(), c.floor
		c.mu.Unlock()
		if highest+1 > max(now, floor)+1e6 {
			return false
		}
		limit := c.retention / 2
		if c.guard > 0 {
			limit = min(limit, c.guard/2)
		}
		if h.token = highest + 1; h.token <= floor || h.token < now-limit.Microseconds() {
			h.propose()
		}
		r = h.ask("raise", func(n int) bool { return h.asked[n] && first.answers[n].kind != taken }, deadline,
			h.owner, "0", h.tokenText())
		c.observe(h.token)
	}
	if r.verdict() != won || h.left() < c.ttl/4 {
		return false
	}
	c.observe(h.token)
	return true
}

// left returns what is left of the validity.
func (h *hold) left() time.Duration {
	ttl := h.client.ttl
	return ttl - ttl/100 - 2*time.Millisecond - time.Nanosecond - since(h.start)
}

// tryLock makes one attempt.
func (c *client) tryLock(key string) (*hold, error) {
	c.trim()
	h := c.newHold(key, c.time())
	h.propose()
	return h.try("acquire", h.owner, h.tokenText(), key, h.ttl(), "")
}

// tryPlain is tryLock without a token.
func (c *client) tryPlain(key string) (*hold, error) {
	h := c.newHold(key, c.time())
	return h.try("SET", h.owner, "NX", "PX", h.ttl())
}

func (h *hold) try(script string, args ...any) (*hold, error) {
	h.start = time.Now()
	deadline := h.start.Add(h.client.timeout)
	if h.settle(h.ask(script, everyNode, deadline, args...), deadline) {
		return h, nil
	}
	h.undo(time.Time{})
	return nil, errTaken
}

// undo takes back what an attempt, a wait or a hold may have on the nodes, and waits for that until the deadline.
func (h *hold) undo(deadline time.Time) *round {
	args := []any{h.owner, h.member}
	if h.extended && h.token > 0 {
		args = append(args, h.tokenText()+".5")
	}
	h.client.mu.Lock()
	delete(h.client.waiting, h.owner)
	h.client.mu.Unlock()
	return h.ask("release", func(n int) bool { return h.asked[n] }, deadline, args...)
}

func (h *hold) unlock() error {
	if h.undo(time.Now().Add(h.client.timeout)).verdict() != won {
		return errLost
	}
	return nil
}

// extend makes the validity begin anew.
func (h *hold) extend() error {
	if h.left() <= 0 {
		return errLost
	}
	asked := time.Now()
	h.extended = true
	r := h.ask("extend", everyNode, asked.Add(h.client.timeout), h.owner, h.ttl(), h.tokenText())
	switch {
	case h.left() <= 0:
		return errLost
	case r.verdict() == won:
		h.start = asked
		return nil
	case r.of(taken)+r.of(absent) > len(r.answers)-r.need:
		return errLost
	}
	return errTaken // no quorum: try again
}

// lock waits in the queue.
func (c *client) lock(ctx context.Context, key string) (*hold, error) {
	began, h := c.time(), (*hold)(nil)
	var partial, split, gaveBack int
	for n := 1; ; n++ {
		if h == nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		c.trim()
		first := h == nil && n == 1
		if h == nil {
			h = c.newHold(key, began)
		}
		h.start = time.Now()
		h.propose()
		deadline := h.start.Add(c.timeout)
		votes := func(n int) bool { return c.nodes[n].votes(h.start) == nil }
		wake := c.expect(h)
		var r *round
		if first {
			r = h.ask("acquire", votes, deadline, h.owner, h.tokenText(), key, h.ttl(), c.channel)
		} else {
			r = h.ask("enqueue", votes, deadline, h.owner, h.ttl(), h.tokenText(), h.member)
		}
		if h.settle(r, deadline) {
			return h, nil
		}
		given := r.of(granted) + r.of(outbid)
		if partial++; given == 0 {
			partial = 0
		}
		yields, stuck := r.decide(h.owner, given, partial)
		if split++; !yields && !stuck {
			split = 0
		}
		revoked := slices.ContainsFunc(r.answers, func(a answer) bool { return a.revoked })
		if revoked || split > 0 && (split > 1 || first || given > 0 && r.ahead() > 0) {
			h.undo(time.Time{})
			h, split = nil, 0
			if gaveBack++; stuck {
				began = c.time()
			} else {
				began++
			}
			if gaveBack > 2 {
				time.Sleep(backoff(n))
			}
			continue
		}
		if err := pause(ctx, r.pause(n, given, partial, c.ttl, since(h.start)), wake); err != nil {
			h.undo(time.Time{})
			return nil, err
		}
	}
}

// expect gives the hold its place in the queues, and returns what a message for it wakes.
func (c *client) expect(h *hold) chan struct{} {
	if h.member == "" {
		h.member = fmt.Sprintf("%s %s %013d %s", h.owner, h.tokenText(), c.ttl.Milliseconds(), c.channel)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting[h.owner] == nil {
		c.waiting[h.owner] = make(chan struct{}, 1)
	}
	return c.waiting[h.owner]
}

// pause returns when it is time for the next question.
func pause(ctx context.Context, d time.Duration, wake chan struct{}) error {
	select {
	case <-wake:
		time.Sleep(time.Millisecond) // for the other nodes' messages
	case <-time.After(d):
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
