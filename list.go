package redlock

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
)

// Locks returns the locks that a majority of the nodes knows as held and whose names begin with prefix, each as
// [Locker.Inspect] reports it, in the order of their names. Slots of semaphores are among them if the semaphore's name
// begins with prefix. Locks that are taken or released meanwhile may be missing, and so are those whose owner is no
// UUID, as every owner of this library's is. It takes and changes nothing.
//
// It is for people and for inventories: it walks over all keys of each node, a hundred at a time, so that locks are
// hardly delayed (SCAN), and keeps all names in memory. Each step, and each lock, has a node timeout. The user of the
// nodes needs the rights +scan and +strlen.
//
// If too few nodes can be walked over, or answer later, the last pair has a [*QuorumError] that satisfies errors.Is for
// [ErrNoQuorum]; if ctx is done or the Locker closed, its error. A prefix may be empty.
func (l *Locker) Locks(ctx context.Context, prefix string) iter.Seq2[Inspection, error] {
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
	_, err := uuid.Parse(i.Owner)
	return err == nil || len(i.Readers) > 0
}

// namesOnNodes returns, sorted, the names under which some node has what may be a lock. A lock that a majority has is
// on one node at least of any that are too many for a majority without them: so many must have been walked over.
func (l *Locker) namesOnNodes(ctx context.Context, prefix string) ([]string, error) {
	if err := l.begin(ctx); err != nil {
		return nil, &opError{op: "list", reason: err}
	}
	defer l.calls.end()
	var mu sync.Mutex // guards names
	names := make(map[string]bool)
	failure := &QuorumError{Op: "list", reason: ErrNoQuorum}
	failure.Nodes = make([]NodeError, len(l.nodes))
	var walking errgroup.Group
	for i, n := range l.nodes {
		walking.Go(func() error {
			part := NodeError{Addr: n.addr(), List: membershipOf(l.electorate, i), Outcome: OutcomeAnswered}
			if err := n.abstaining(l.opts.clock.local()); err != nil { // it may have forgotten locks
				part.Outcome, part.Err = OutcomeAbstained, err
			} else if err := l.walk(ctx, n, prefix, func(name string) {
				mu.Lock()
				defer mu.Unlock()
				names[name] = true
			}); err != nil {
				part.Outcome, part.Err = OutcomeFailed, err
			}
			failure.Nodes[i] = part
			return nil
		})
	}
	_ = walking.Wait()
	var walked quorum.Set
	for i := range failure.Nodes {
		if failure.Nodes[i].Outcome == OutcomeAnswered {
			walked = walked.With(i)
		}
	}
	if l.electorate.MayHold(l.electorate.All &^ walked) {
		failure.measure(l.electorate, walked)
		failure.ctx = l.ended(ctx)
		return nil, failure
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	return sorted, nil
}

var list = lua.Load("list")

// walkStep is about how many keys a node looks at in one step, during which it does nothing else.
const walkStep = 100

// walk calls found with each name that begins with prefix and under which the node has what may be a lock.
func (l *Locker) walk(ctx context.Context, n *node, prefix string, found func(name string)) error {
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

func oddWalk(reply any) error { return fmt.Errorf("script list: %w", redisconn.Unexpected(reply)) }

func readWalk(reply any) (cursor string, keys []string, _ error) {
	if refusal, refused := reply.(redis.Error); refused {
		return "", nil, explained(refusal, "scan")
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
