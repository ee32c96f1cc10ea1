package redlock

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
)

// listeners receives the nodes' notifications that a waiter was handed a lock. It subscribes before a caller that
// will wait asks for the first time, where the node's connection serves for that, too, and elsewhere when a caller
// waits for the first time. Waiting never depends on that: a waiter that gets no notification asks again.
type listeners struct {
	channel string    // of this Locker, and of every copy of its process: see leave
	owners  ownership // nil: of an Inspector, which has none
	nodes   []*node
	now     func() time.Time
	heard   sync.Once    // hear was called
	start   sync.Once    // listen was called
	ended   []func()     // wait for the ends of the subscriptions, which end with the Locker's context; set by start
	waiting atomic.Int64 // callers that wait

	mu    sync.Mutex
	of    map[uuid.UUID]listener // by owner, while it may be in a queue and while it has a hold; guarded by mu
	early map[uuid.UUID][]notice // for owners that notify nobody yet, one of each node; guarded by mu
	left  [2]map[uuid.UUID]bool  // the last owners for which leave was called: newer ones, older ones; guarded by mu
	looks map[string][]*look     // of those that watch, by key; guarded by mu
	taken []revocations          // by node; guarded by mu

	revoking  atomic.Bool                 // a node has ever told that an owner was revoked
	told      [2]map[uuid.UUID]quorum.Set // who has told so of which owners: newer ones, older ones; guarded by mu
	toldSince time.Time                   // when the newer ones began; guarded by mu
}

// revocations counts what a node has told within a second. To look for one more takes a while, for there may be many
// holds. An owner whose message is passed over learns of it by its next renewal.
type revocations struct {
	since time.Time
	n     int
}

const maxRevocations = 200

// rememberTold is for how long it is remembered what a node has told of an owner, or twice as long: much longer than
// from there to the beginning of a hold that counts on what the nodes had said before. So a node fills the memory with
// maxRevocations a second at most, and none takes the place of another's.
const rememberTold = 10 * time.Second

// tells notes that a node has told that an owner was revoked, and reports whether the owner's hold is to be looked for.
func (s *listeners) tells(node int, owner uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := &s.taken[node], s.now()
	if now.Sub(r.since) >= time.Second {
		*r = revocations{since: now}
	}
	if r.n++; r.n > maxRevocations {
		return false
	}
	if now.Sub(s.toldSince) >= rememberTold {
		s.told[0], s.told[1], s.toldSince = make(map[uuid.UUID]quorum.Set), s.told[0], now
	}
	s.told[0][owner] = s.told[0][owner].With(node)
	s.revoking.Store(true)
	return true
}

// revokers returns the nodes that have told that the owner was revoked. It is asked where a hold begins: what came
// before that found no hold to end.
func (s *listeners) revokers(owner uuid.UUID) quorum.Set {
	if !s.revoking.Load() {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told[0][owner] | s.told[1][owner]
}

// look is what a watch has heard since it last looked.
type look struct {
	told    atomic.Uint32 // quorum.Set: the nodes that have told of a change
	wake    chan struct{} // holds a value after that
	accepts int64         // see hears; owned by the watch
}

// watch has a watch told of changes until its end.
func (s *listeners) watch(key string) (k *look, end func()) {
	k = &look{wake: make(chan struct{}, 1)}
	s.waiting.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.looks == nil {
		s.looks = make(map[string][]*look)
	}
	s.looks[key] = append(s.looks[key], k)
	return k, func() {
		s.waiting.Add(-1)
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.looks[key] = slices.DeleteFunc(s.looks[key], func(o *look) bool { return o == k }); len(s.looks[key]) == 0 {
			delete(s.looks, key)
		}
	}
}

// tell tells those that watch a key that a node has told of a change.
func (s *listeners) tell(node int, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.looks[key] {
		k.told.Or(uint32(quorum.Set(0).With(node)))
		signal(k.wake)
	}
}

// rememberLeft is how many owners left keeps, or twice as many. A place that is not remembered may keep a lock that
// nobody wants for one TTL.
const rememberLeft = 4096

// listener takes an owner's notifications, which count if they are about what the owner wants. Only a message that some
// node was asked to send can name both: owners cannot be guessed.
type listener struct {
	key    string
	shared bool
	notify func(notice) // gets each; nil: the owner's first request has no outcome yet, or was won
}

// notice is a node's notification, as the answer that it counts for.
type notice struct {
	quorum.Answer
	node    int
	inOrder bool // it came over the connection that answers requests, so in the order in which the node did things
}

// ownership takes the grants to owners that no longer wait: the Locker, which undoes them. It is told, too, which
// owners have been revoked. Function values of its methods would be allocated by each Lock.
type ownership interface {
	returnGrant(node int, g protocol.Message)
	askRevoked(node int, owner uuid.UUID)
}

func (s *listeners) init(o *options, nodes []*node, id string) {
	s.channel = fmt.Sprintf("%s%s%s:%s:%d", o.prefix, ownChannels, id, uuid.NewString(), o.lease().Milliseconds())
	s.nodes, s.now = nodes, o.clock.local
	s.of, s.early = make(map[uuid.UUID]listener), make(map[uuid.UUID][]notice)
	s.taken = make([]revocations, len(nodes))
}

// hear listens where that takes no second connection: where the connection that is there speaks RESP3. So the request
// that follows, which may put its caller into a queue, finds it listening. Calls after the first do nothing.
func (s *listeners) hear() {
	s.heard.Do(func() {
		for _, n := range s.nodes {
			n.conn.Hear(s.subscription(n))
		}
	})
}

// listen subscribes on all nodes until ctx is done. Calls after the first do nothing.
func (s *listeners) listen(ctx context.Context) {
	s.start.Do(func() {
		for _, n := range s.nodes {
			s.ended = append(s.ended, n.conn.Subscribe(ctx, s.subscription(n)))
		}
	})
}

// close waits until the subscriptions have ended. The Locker's context must be done.
func (s *listeners) close() {
	s.start.Do(func() {}) // from now on listen does nothing
	for _, wait := range s.ended {
		wait()
	}
}

// expect has an owner's notifications kept, or given to a listener that notifies, with those kept so far.
func (s *listeners) expect(owner uuid.UUID, by listener) {
	s.mu.Lock()
	s.of[owner] = by
	var early []notice
	if by.notify != nil {
		early = s.early[owner]
		delete(s.early, owner)
	}
	s.mu.Unlock()
	for _, n := range early {
		n.inOrder = false // what has been answered since is not known
		by.notify(n)
	}
}

func (s *listeners) forget(owner uuid.UUID) {
	s.mu.Lock()
	delete(s.of, owner)
	delete(s.early, owner)
	s.mu.Unlock()
}

// leave forgets an owner that may still be in a queue, if the request that takes it out comes too late. Grants to it
// are returned, and those to unknown owners are not: they are another process's. This one may be a copy of it, from a
// snapshot that was started twice. The copy listens to the same channel, which cannot be drawn anew with each
// connection, since it is part of the places that waiters have in the queues. So it hears whatever its original is
// handed, and would give that back while the original works.
func (s *listeners) leave(owner uuid.UUID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, owner)
	delete(s.early, owner)
	if len(s.left[0]) >= rememberLeft || s.left[0] == nil {
		s.left[0], s.left[1] = make(map[uuid.UUID]bool), s.left[0]
	}
	s.left[0][owner] = true
}

// handOver leaves grants to the owner to the process that adopts its hold, until its end. They are returned after that.
func (s *listeners) handOver(owner uuid.UUID, until time.Time) {
	s.forget(owner)
	time.AfterFunc(until.Sub(s.now()), func() { s.leave(owner) })
}

// receive takes a node's message, which is in order or is not.
func (s *listeners) receive(n notice, message string) {
	m, ok := protocol.ParseMessage(message)
	switch {
	case !ok:
	case m.Kind == protocol.Changed:
		s.tell(n.node, m.Key)
	case m.Kind == protocol.Revoked:
		if s.owners != nil && s.tells(n.node, m.Owner) {
			s.owners.askRevoked(n.node, m.Owner)
		}
	default:
		n.Answer = m.Answer
		s.vote(n, m)
	}
}

// vote gives a waiter what counts as a node's vote. If the waiter has given up and its undo reached the node too late,
// the grant is returned.
func (s *listeners) vote(n notice, m protocol.Message) {
	s.nodes[n.node].discountNotice(&n)
	s.mu.Lock()
	by, known := s.of[m.Owner]
	about := known && by.key == m.Key && by.shared == m.Shared
	if about && by.notify == nil {
		early := slices.DeleteFunc(s.early[m.Owner], func(e notice) bool { return e.node == n.node })
		s.early[m.Owner] = append(early, n)
	}
	left := s.left[0][m.Owner] || s.left[1][m.Owner]
	s.mu.Unlock()
	switch {
	case about && by.notify != nil:
		by.notify(n)
	case left && !known && m.Kind == protocol.HandedOver:
		s.owners.returnGrant(n.node, m)
	}
}

func (s *listeners) subscription(n *node) *redisconn.Subscription {
	return &redisconn.Subscription{
		Channel: s.channel,
		Message: func(message string, main bool) { s.receive(notice{node: n.index, inOrder: main}, message) },
		Needed:  func() bool { return s.waiting.Load() > 0 },
		Handshake: func(do redisconn.Do) error {
			replies, err := do([]any{"INFO", "replication"})
			if err == nil {
				n.guard.SetSubscribed(replies[0])
			}
			return err
		},
		Denied: func(err error) {
			n.opts.logger.Warn("no permission to subscribe: waiters poll instead of being notified",
				"node", n.addr(), "error", err)
		},
	}
}

// discountNotice turns a notified grant into an abstention if the node abstains, or if it may not be the node that the
// last handshake identified. What comes in order is from that node: its handshake was over before it subscribed.
func (n *node) discountNotice(said *notice) {
	connected, _ := n.conn.State()
	known := said.inOrder || n.guard.SubscribedToKnown()
	now := n.opts.clock.local()
	if a := n.guard.Abstention(); a != nil && !a.Over(now) {
		discount(a, guard.TrustOld, &said.Answer, n.opts.clock.local)
	} else if n.opts.guard > 0 && !(connected && known) {
		said.Vote, said.Err = quorum.Abstained, errNoHandshake
	}
}

var errNoHandshake = &abstainError{reason: "is being connected"}
