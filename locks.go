package redlock

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/resp"
)

// List returns the locks that a majority of the nodes knows as held and whose names begin with prefix, each as
// [Inspector.Inspect] reports it, in the order of their names. Slots of semaphores are among them if the semaphore's
// name begins with prefix. Locks that are taken or released meanwhile may be missing, and so are those whose owner is
// no UUID, as every owner of this library's is. It takes and changes nothing.
//
// It is for people and for inventories: it walks over all keys of each node, a hundred at a time, so that locks are
// hardly delayed (SCAN), and keeps all names in memory. Each step, and each lock, has a node timeout. The user of the
// nodes needs the rights +scan and +strlen.
//
// If too few nodes can be walked over, or answer later, the last pair has a [*QuorumError] that satisfies errors.Is for
// [ErrNoQuorum]; if ctx is done or the Locker closed, its error. A prefix may be empty.
func (l *core) List(ctx context.Context, prefix string) iter.Seq2[Inspection, error] {
	return func(yield func(Inspection, error) bool) {
		names, err := l.namesOnNodes(ctx, prefix)
		if err != nil {
			yield(Inspection{}, err)
			return
		}
		const atOnce = 64
		for chunk := range slices.Chunk(names, atOnce) {
			found, errs := make([]Inspection, len(chunk)), make([]error, len(chunk))
			var asking sync.WaitGroup
			for i, name := range chunk {
				asking.Go(func() { found[i], errs[i] = l.Inspect(ctx, name) })
			}
			asking.Wait()
			for i := range chunk {
				if errs[i] == nil && !isLock(&found[i]) {
					continue
				}
				if !yield(found[i], errs[i]) || errs[i] != nil {
					return
				}
			}
		}
	}
}

// isLock reports whether the value of a key that expires is an owner: what else is there may be a record of a Locker
// with a longer prefix, or another program's secret, which must not be shown.
func isLock(i *Inspection) bool {
	_, ok := agreement.ParseOwner(i.Owner)
	return ok || len(i.Readers) > 0
}

// namesOnNodes returns, sorted, the names under which some node has what may be a lock. A lock that a majority has is
// on one node at least of any that are too many for a majority without them: so many must have been walked over.
func (l *core) namesOnNodes(ctx context.Context, prefix string) ([]string, error) {
	if err := l.begin(ctx); err != nil {
		return nil, &opError{op: "list", reason: err}
	}
	defer l.calls.end()
	var mu sync.Mutex // guards names
	names := make(map[string]bool)
	failure := &QuorumError{Op: "list", reason: ErrNoQuorum, Nodes: make([]NodeError, len(l.nodes))}
	var walking errgroup.Group
	for i, n := range l.nodes {
		walking.Go(func() error {
			part := NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: outcomeAnswered}
			if err := n.abstaining(l.opts.clock.local()); err != nil { // it may have forgotten locks
				part.Outcome = outcomeAbstained
				part.because(err)
			} else if err := l.walk(ctx, n, prefix, func(name string) {
				mu.Lock()
				defer mu.Unlock()
				names[name] = true
			}); err != nil {
				part.Outcome, part.Err = outcomeFailed, err
			}
			failure.Nodes[i] = part
			return nil
		})
	}
	_ = walking.Wait()
	walked := quorum.Where(len(l.nodes), func(i int) bool { return failure.Nodes[i].Outcome == outcomeAnswered })
	if l.electorate.MayHold(l.electorate.All &^ walked) {
		failure.measure(l.electorate, walked)
		failure.ctx = l.ended(ctx)
		return nil, failure
	}
	return slices.Sorted(maps.Keys(names)), nil
}

var list = lua.Load("list")

// walkStep is about how many keys a node looks at in one step, during which it does nothing else.
const walkStep = 100

// walk calls found with each name that begins with prefix and under which the node has what may be a lock.
func (l *core) walk(ctx context.Context, n *node, prefix string, found func(name string)) error {
	begins := []string{prefix}
	if prefix != "" {
		begins = append(begins, permitsName+prefix)
	}
	for _, begin := range begins {
		pattern := globEscaper.Replace(l.opts.prefix+begin) + "*"
		for cursor, first := "0", true; first || cursor != "0"; first = false {
			replies, err := n.conn.Do(ctx, []any{"EVAL", list.Source, 1, n.rules.TokensKey(), cursor, pattern, walkStep})
			if err != nil {
				return explained(err, "")
			}
			next, keys, err := readWalk(replies[0])
			if err == nil && next == cursor && next != "0" {
				err = oddWalk(replies[0]) // the walk would never end
			}
			n.heard("script list", err)
			if err != nil {
				return err
			}
			cursor = next
			for _, key := range keys {
				name := strings.TrimPrefix(key, l.opts.prefix)
				if _, err := l.heldKey(name); err == nil {
					found(name)
				}
			}
		}
	}
	return nil
}

// globEscaper makes a pattern of a text that stands for itself.
var globEscaper = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)

func oddWalk(reply any) error { return fmt.Errorf("script list: %w", resp.Unexpected(reply)) }

func readWalk(reply any) (cursor string, keys []string, _ error) {
	if refusal, refused := reply.(redis.Error); refused {
		return "", nil, explained(refusal, "scan or strlen")
	}
	parts, _ := reply.([]any)
	if len(parts) != 2 {
		return "", nil, oddWalk(reply)
	}
	cursor, err := redis.String(parts[0], nil)
	if err == nil {
		keys, err = redis.Strings(parts[1], nil)
	}
	if err != nil || cursor == "" {
		return "", nil, oddWalk(reply)
	}
	return cursor, keys, nil
}

// ForceUnlock takes the lock of the name from owner, which need not be an owner of this Locker, and hands it to the
// client that has waited longest. It is for an administrator who knows that a holder is stuck although its process
// renews the hold. A holder that has crashed needs no such help: its lock is free when its TTL is over. owner is
// [Inspection.Owner], or one of [Inspection.Readers]. If another owner has the lock by now, nothing is taken from it.
//
// The holder learns of it at once if its process has renewed a hold or waited for a lock before, the nodes speak RESP3
// and your user has the right +pubsub; otherwise with its next renewal or [Lock.Extend]: at the latest when its
// validity ends, which is the TTL at most. Until then it works on, next to the new holder. A resource that checks
// fencing tokens refuses the former holder as soon as it has seen the new holder's token, which is larger. Nothing
// protects any other resource: make sure first that the holder does no harm.
//
// When ForceUnlock returns nil, a majority of the nodes does not have the lock under owner any more. Unless they lose
// their data, these nodes also give owner nothing more for a minute, or twice the longest TTL ([WithMaxTTL]) if that is
// longer: no extension, no place in a queue, and no grant, even to a request that was under way. There is one
// exception: a late request [WithoutFencing] may still set a key that is free, for its TTL; it is not extended. A
// caller that only waited under owner goes on waiting, under a new one. Nodes that were out of reach keep the lock for
// the rest of its TTL, or for as long as the holder extends it there; they are too few for a hold. If too few nodes
// answer, the error is a [*QuorumError] that satisfies errors.Is for [ErrNoQuorum]: then the lock may be taken from
// owner all the same, if it had no more nodes than it needed. An unsuitable name or owner is an [ErrInvalid].
func (l *core) ForceUnlock(ctx context.Context, name, owner string) error {
	key, err := l.heldKey(name)
	switch {
	case err != nil:
	case owner == "" || len(owner) > maxOwner || slices.Contains(noOwners, owner):
		err = invalid("the owner %q: want what Inspect reports as Owner, or one of Readers", owner)
	default:
		err = l.begin(ctx)
	}
	if err != nil {
		return failed("force-unlock", name, err)
	}
	defer l.calls.end()
	r := l.rounds.Get().(*round)
	r.AboutRevoking(key, owner, l.revokedFor())
	r.poll.Everyone = true // the other nodes should not keep it longer than need be
	r.send(l.nodes, l.electorate.All, l.opts.clock.local())
	votes, err := r.wait(ctx)
	defer r.abandon()
	if votes.Verdict() == quorum.Won {
		return nil
	}
	return r.failure("force-unlock", name, ErrNoQuorum, votes, endOf(ctx, err))
}

// noOwners are what nodes have in an owner's place while there are readers: see readers.lua.
var noOwners = []string{quorum.Marker, "unknown", "writer"}

// maxOwner is the longest owner, in bytes. Ours have 36; other clients of the nodes may have others.
const maxOwner = 128

// revokedFor returns for how long the nodes refuse an owner that was revoked: until its holder has learnt of
// that, and nothing that it has sent before can be on its way. No TTL is longer than the guard, unless that is off.
func (l *core) revokedFor() time.Duration {
	return max(time.Minute, 2*l.opts.guard, 2*l.opts.ttl)
}
