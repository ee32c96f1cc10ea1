package waiting_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/integration/child"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

// What a contender's process is told, by its environment.
const (
	contenderNodes = "REDLOCK_TEST_CONTENDER_NODES"
	contenderLoss  = "REDLOCK_TEST_CONTENDER_LOSS" // how many of 100 messages to lose
	contenderLimit = "REDLOCK_TEST_CONTENDER_NODE_TIMEOUT"
)

// runContender is main of a process that acquires and releases until its
// standard input ends. It tells each step on its standard output, before anything
// comes of it: an "ask" before Lock, a "free" before Unlock.
func runContender() int {
	loss, _ := strconv.Atoi(os.Getenv(contenderLoss))
	limit, _ := time.ParseDuration(os.Getenv(contenderLimit))
	l, err := redlock.New(strings.Split(os.Getenv(contenderNodes), ","), redlock.WithTTL(ttl),
		redlock.WithNodeTimeout(limit),
		redlock.WithNodeConfig(redlock.NodeConfig{NoRestartGuard: true, Dial: lossyDialer(loss)}))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	ctx := child.UntilInputEnds()
	for ctx.Err() == nil {
		say("ask", 0, time.Time{})
		k, err := l.Lock(ctx, name)
		if err != nil {
			say("none", 0, time.Time{})
			continue
		}
		say("held", k.Token(), k.Deadline())
		time.Sleep(time.Duration(1+rand.IntN(8)) * time.Millisecond)
		say("free", 0, k.Deadline())
		_ = k.Unlock() // a lost hold is the judge's business
	}
	_ = l.Close()
	return 0
}

// say tells one step, in one write.
func say(what string, token int64, until time.Time) {
	fmt.Printf("%s %d %d %d\n", what, time.Now().UnixNano(), token, until.UnixNano())
}

// lossyDialer dials connections that lose some of the messages. The node believes that they were received.
func lossyDialer(loss int) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &lossyConn{Conn: c, loss: loss}, err
	}
}

type lossyConn struct {
	net.Conn
	loss int
}

// aMessage is a message on a connection that takes commands, too, or on one for messages alone. No lock's name here has
// a line break.
var aMessage = regexp.MustCompile(`[>*]3\r\n\$7\r\nmessage\r\n\$\d+\r\n[^\r]*\r\n\$\d+\r\n[^\r]*\r\n`)

// Read loses whole messages: a node writes each in one piece.
func (c *lossyConn) Read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		kept := aMessage.ReplaceAllFunc(b[:n], func(message []byte) []byte {
			if rand.IntN(100) < c.loss {
				return nil
			}
			return message
		})
		if len(kept) > 0 || err != nil {
			return copy(b, kept), err
		}
	}
}

// wait is one wait and what came of it, by the contender's clock, which is this process's, too.
type wait struct {
	asked, granted, ended time.Time // granted: zero where it was not; ended: of the hold
	token                 int64
}

// contender is a process that contends.
type contender struct {
	*child.Process

	mu      sync.Mutex // guards the fields below
	waits   []wait     // the last one is the present one
	holding bool
	until   time.Time // of the present hold
}

func startContender(t *testing.T, nodes []*masters.Node, loss int, nodeTimeout time.Duration) *contender {
	t.Helper()
	c := &contender{}
	var err error
	c.Process, err = child.Start(t.Context(), "", []string{
		contenderNodes + "=" + strings.Join(masters.URLs(nodes), ","), contenderLoss + "=" + strconv.Itoa(loss),
		contenderLimit + "=" + nodeTimeout.String(),
	}, nil, func(line []byte) { c.hear(string(line)) })
	fleet.Must(t, err)
	return c
}

func (c *contender) hear(line string) {
	var what string
	var at, token, until int64
	if n, _ := fmt.Sscan(line, &what, &at, &token, &until); n != 4 {
		return // cut off by the kill
	}
	when := time.Unix(0, at)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch what {
	case "ask":
		c.waits = append(c.waits, wait{asked: when})
	case "held":
		last := &c.waits[len(c.waits)-1]
		last.granted, last.token = when, token
		c.holding, c.until = true, time.Unix(0, until)
	case "free":
		c.end(when)
	}
}

// end ends the hold at the time, or when its validity does. Called with mu held.
func (c *contender) end(at time.Time) {
	if at.After(c.until) {
		at = c.until
	}
	c.waits[len(c.waits)-1].ended = at
	c.holding = false
}

// doing reports whether it holds the lock, and whether it waits for it.
func (c *contender) doing() (holds, waits bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waits) == 0 {
		return false, false
	}
	return c.holding, c.waits[len(c.waits)-1].granted.IsZero()
}

// granted returns when it was last granted the lock, as far as is known.
func (c *contender) granted() (last time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.waits[max(0, len(c.waits)-2):] {
		if !w.granted.IsZero() {
			last = w.granted
		}
	}
	return last
}

// kill is kill -9. It returns what the process was doing.
func (c *contender) kill(t *testing.T) (held, waited bool) {
	t.Helper()
	fleet.Must(t, c.Kill())
	held, waited = c.doing()
	c.mu.Lock()
	defer c.mu.Unlock()
	if held {
		c.end(time.Now())
	}
	return held, waited
}

// stop lets it give up its wait, and end.
func (c *contender) stop(t *testing.T) {
	t.Helper()
	if err := c.End(); err != nil {
		t.Errorf("a contender did not contend: %v", err)
	}
}
