package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/chance"
	"github.com/quorumlock/redlock/internal/token"
)

// probeEvery is the pause between a node's probes: its clock is read, and
// tokens that are older than the retention are dropped.
const probeEvery = 10 * time.Second

// probing is what a node's probes need.
type probing struct {
	calls *sync.Pool    // of *call, to this node alone
	soon  chan struct{} // asks for one before its time
}

func newProbing() probing {
	return probing{calls: newCallPool(1), soon: make(chan struct{}, 1)}
}

var (
	readTime = &kind{index: 5, command: "TIME", native: noArgs, read: readMicros, trust: trustAll}
	trim     = &kind{index: 6, layout: rows(2), tokens: true, read: readFloor, trust: trustAll, script: newScript("trim")}
)

func noArgs(_ *question, args []any) []any { return args }

func readMicros(reply any) answer {
	parts, err := redis.Int64s(reply, nil)
	if err != nil || len(parts) != 2 {
		return garbled(reply)
	}
	return answer{vote: voteGranted, token: parts[0]*1e6 + parts[1], reply: reply}
}

func readFloor(reply any) answer {
	text, ok := reply.([]byte)
	if !ok {
		return garbled(reply)
	}
	floor, _ := token.Parse(string(text)) // none where it is nothing
	return answer{vote: voteGranted, token: floor}
}

// probeSoon asks for a probe before its time, for example because the nodes' clocks seem to be off.
func (n *node) probeSoon() {
	select {
	case n.probing.soon <- struct{}{}:
	default:
	}
}

// probe reads the node's clock, looks whether it is still what it was, and trims
// its tokens, now and then. It ends with ctx, or when the connection is to be given up.
func (n *node) probe(ctx context.Context) error {
	for {
		t := time.NewTimer(probeEvery/2 + chance.Duration(probeEvery))
		select {
		case <-t.C:
		case <-n.probing.soon:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
		t.Stop()
		if a, asked := n.inquire(ctx, readTime, ""); a.vote == voteGranted {
			n.measured(a.token, asked, n.opts.clock.now())
		}
		if err := n.relearn(ctx); err != nil {
			return err
		}
		if n.opts.fencing && n.tokens.KnowsMost() { // a floor is not to come from one clock's idea of the time
			n.trim(ctx)
		}
	}
}

// trim has the node drop the tokens that are older than the retention, and takes note of its floor.
func (n *node) trim(ctx context.Context) {
	now := n.tokens.time(n.opts.clock.now())
	a, _ := n.inquire(ctx, trim, n.floorKey(), now, n.opts.retention.Microseconds())
	if a.vote == voteGranted {
		n.tokens.Dropped(a.token)
	}
}

// readClock has the node's clock read and does not wait for it.
func (n *node) readClock() {
	c := n.probing.calls.Get().(*call)
	c.kind, c.begun = readTime, n.opts.clock.now()
	c.then = func(c *call) {
		if votes := tally(c.votes.Load()); votes.count(voteGranted) > 0 {
			n.measured(c.answers[0].token, c.begun, n.opts.clock.now())
		}
		c.release()
	}
	c.put([]*node{n}, allNodes(1), 1, c.begun.local)
}

// inquire asks this node alone and waits for its answer.
func (n *node) inquire(ctx context.Context, k *kind, key string, args ...any) (answer, instant) {
	c := n.probing.calls.Get().(*call)
	c.kind, c.tokensKey = k, n.tokensKey
	c.setKey(key)
	copy(c.args[:], args)
	asked := n.opts.clock.now()
	c.put([]*node{n}, allNodes(1), 1, asked.local)
	defer c.giveUp()
	if _, err := c.wait(ctx); err != nil {
		return answer{vote: voteFailed}, asked
	}
	return c.answers[0], asked
}
