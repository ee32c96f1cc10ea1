package redlock

import (
	"context"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/redisconn"
	"github.com/quorumlock/redlock/internal/token"
)

// listeners are told by the nodes which waiter was handed a lock: one connection for each node, opened when somebody
// waits for the first time. Waiting never depends on them: a waiter that is not told asks again.
type listeners struct {
	channel string // this Locker's own
	nodes   []*node
	now     func() time.Time
	start   sync.Once
	group   errgroup.Group // ends with the Locker's context
	waiting atomic.Int64   // calls that wait

	mu sync.Mutex
	of map[string]listener // by owner; guarded by mu
}

// listener is told what an owner is handed. One that has become a hold is told still.
type listener struct {
	notify func(node int, a answer) // nil: the hold was handed over, so that what comes is for the process that adopts it
	until  time.Time                // when the hold that was handed over ends
}

// returnGrant has a node let go of what it handed to an owner.
type returnGrant func(node int, key string, owner uuid.UUID, shared bool)

func newListeners(prefix string, nodes []*node, now func() time.Time) listeners {
	channel := prefix + "redlock:wake:" + uuid.NewString() // that no other Locker has
	return listeners{channel: channel, nodes: nodes, now: now, of: make(map[string]listener)}
}

// listen begins to listen on all nodes until ctx is done, unless that was begun before.
func (s *listeners) listen(ctx context.Context, back returnGrant) {
	s.start.Do(func() {
		for _, n := range s.nodes {
			s.group.Go(func() error {
				n.listen(ctx, s.channel, s.waited, func(message string) { s.receive(n.index, message, back) })
				return nil
			})
		}
	})
}

// close waits for the end of listening; the Locker's context is done.
func (s *listeners) close() {
	s.start.Do(func() {}) // nobody begins any more
	_ = s.group.Wait()
}

func (s *listeners) add(owner string, notify func(node int, a answer)) {
	s.mu.Lock()
	s.of[owner] = listener{notify: notify}
	s.mu.Unlock()
}

func (s *listeners) forget(owner string) {
	s.mu.Lock()
	delete(s.of, owner)
	s.mu.Unlock()
}

// handOver remembers until then that the owner's votes are for the process that adopts its hold, also those that a node
// has yet to tell of.
func (s *listeners) handOver(owner string, until time.Time) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.of, func(_ string, at listener) bool { return at.notify == nil && at.until.Before(now) })
	s.of[owner] = listener{until: until}
}

// waited reports whether anybody waits, so that it matters whether the nodes can tell us.
func (s *listeners) waited() bool { return s.waiting.Load() > 0 }

// receive takes a node's message: "owner known key", where known is empty if the waiter's token was accepted and else the
// token that the node knows, or says that the waiter is a reader. A lock that was handed to a waiter that has given up
// – the undo did not get there in time – is given back.
func (s *listeners) receive(node int, message string, back returnGrant) {
	parts := strings.SplitN(message, " ", 3)
	if len(parts) != 3 {
		return
	}
	a := answer{vote: voteGranted}
	shared := parts[1] == readsMark
	if parts[1] != "" && !shared {
		known, ok := token.Parse(parts[1])
		if !ok {
			return
		}
		a = answer{vote: voteOutbid, token: known}
	}
	s.nodes[node].discountUnasked(&a)
	s.mu.Lock()
	at, known := s.of[parts[0]]
	s.mu.Unlock()
	switch {
	case at.notify != nil:
		at.notify(node, a)
		return
	case known && !at.until.Before(s.now()):
		return
	}
	if owner, err := uuid.Parse(parts[0]); err == nil {
		back(node, parts[2], owner, shared)
	}
}

// listen keeps a subscription until ctx is done. Where it is not permitted, callers find out by asking.
func (n *node) listen(ctx context.Context, channel string, waited func() bool, tell func(message string)) {
	n.conn.Subscribe(ctx, redisconn.Subscription{
		Channel: channel, Needed: waited, Message: tell,
		Handshake: func(do redisconn.Do) error {
			replies, err := do([]any{"INFO", "replication"})
			if err == nil {
				n.guard.Heard(replies[0])
			}
			return err
		},
		Denied: func(err error) {
			n.opts.logger.Warn("may not subscribe: waiting asks again instead of being woken", "node", n.addr(), "error", err)
		},
	})
}

// discountUnasked turns a grant that the node has told of unasked into an abstention, where the node abstains, or where it is
// not certain that it is the one that we know.
func (n *node) discountUnasked(said *answer) {
	connected, _ := n.conn.State()
	known := n.guard.KnowsWhoSpeaks()
	now := n.opts.clock.local()
	if a := n.guard.Abstention(); a != nil && !a.Over(now) {
		discount(a, guard.TrustOld, said, n.opts.clock.local)
	} else if n.opts.guard > 0 && !(connected && known) {
		said.vote, said.err = voteAbstained, errNotMet
	}
}

var errNotMet = &AbstainError{Reason: "is being connected"}
