package redlock

import (
	"context"
	"slices"
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

// listeners hear from the nodes who was handed a lock: one connection for
// each node, opened when somebody waits for the first time. Waiting never depends
// on them: who hears nothing asks again.
type listeners struct {
	channel string // this Locker's own
	start   sync.Once
	group   errgroup.Group // ends with the Locker's context
	waiting atomic.Int64   // calls that wait

	mu      sync.Mutex         // guards the fields below
	waiters map[string]*waiter // by owner, also those that have become holds; nil: the hold was handed over
	handed  []handed           // those that were handed over, in that order
}

// handed is an owner whose hold another process may adopt, until it ends.
type handed struct {
	owner string
	until time.Time
}

// listen begins to listen on all nodes, unless that was begun before.
func (l *Locker) listen() {
	l.listeners.start.Do(func() {
		for _, n := range l.nodes {
			l.listeners.group.Go(func() error {
				n.listen(l.ctx, l.listeners.channel, l.listeners.waited, l.hear)
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

// newChannel returns a channel that no other Locker has.
func newChannel(prefix string) string { return prefix + "redlock:wake:" + uuid.NewString() }

func (s *listeners) add(w *waiter) {
	s.mu.Lock()
	s.waiters[w.owner] = w
	s.mu.Unlock()
}

func (s *listeners) forget(owner string) {
	s.mu.Lock()
	delete(s.waiters, owner)
	s.mu.Unlock()
}

// handOver keeps in mind that the owner's votes are for whoever adopts its hold, also those that a node has yet to tell
// of.
func (s *listeners) handOver(owner string, until, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune(now)
	s.waiters[owner] = nil
	s.handed = append(s.handed, handed{owner, until})
}

// prune forgets who was handed over and has ended. Called with mu held.
func (s *listeners) prune(now time.Time) {
	s.handed = slices.DeleteFunc(s.handed, func(h handed) bool {
		over := h.until.Before(now)
		if over {
			delete(s.waiters, h.owner)
		}
		return over
	})
}

// waited reports whether anybody waits, so that it matters whether the nodes can tell us.
func (s *listeners) waited() bool { return s.waiting.Load() > 0 }

// hear takes a node's message: "owner known key", where known is empty if the waiter's token was accepted and else the
// token that the node knows, or says that the waiter is a reader. A lock that was handed to a waiter that has given up
// – the undo did not get there in time – is given back.
func (l *Locker) hear(node int, message string) {
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
	l.nodes[node].hearsay(&a)
	l.listeners.mu.Lock()
	l.listeners.prune(l.opts.clock.local())
	w, known := l.listeners.waiters[parts[0]]
	l.listeners.mu.Unlock()
	switch {
	case w != nil:
		w.tell(node, a)
		return
	case known:
		return
	}
	if owner, err := uuid.Parse(parts[0]); err == nil {
		l.undo(l.holdOf(owner, wanted{key: parts[2], shared: shared}, l.opts), nodeSet(0).with(node))
	}
}

// listen keeps a subscription until ctx is done. Where it is not permitted, callers find out by asking.
func (n *node) listen(ctx context.Context, channel string, waited func() bool, tell func(node int, message string)) {
	n.conn.Subscribe(ctx, redisconn.Subscription{
		Channel: channel, Needed: waited, Message: func(message string) { tell(n.index, message) },
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

// hearsay turns a grant that the node has told of unasked into an abstention, where the node abstains, or where it is
// not certain that it is the one that we know.
func (n *node) hearsay(said *answer) {
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
