package redlock

import (
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/chance"
)

// request is one node's part in a call. The node holds the call as long as it
// has the request.
type request struct {
	call  *call
	node  int
	voted bool // the vote is cast or will be, by whoever set this; guarded by node.mu
	eval  bool // send the script, not its name; guarded by node.mu
}

// fail casts the vote as a failure. Whoever calls it has set voted, or owns
// the request, and holds the call.
func (r *request) fail(err error) { r.answer(answer{vote: voteFailed, err: err}) }

// again prepares r to be sent with the script's source, unless that was done before. A call
// that is over is not asked again: its undo may be on its way already, and must stay
// behind what it undoes. Called with node.mu held.
func (r *request) again() bool {
	if r.eval || !r.call.kind.undo && r.call.over() {
		return false
	}
	if h := r.call.hold; h != nil && h.ending.Load() {
		return false // its release may be queued already, and must stay behind the extension
	}
	r.eval = true
	return true
}

func (r *request) answer(a answer) {
	r.call.answers[r.node] = a
	r.call.cast(r.node, a.vote)
}

// keep filters a queue in place, releasing the calls of what it drops.
func keep(queue []*request, wanted func(*request) bool) []*request {
	kept := queue[:0]
	for _, r := range queue {
		if wanted(r) {
			kept = append(kept, r)
		} else {
			r.call.release()
		}
	}
	clear(queue[len(kept):])
	return kept
}

// isServerError reports whether err is the node's own word, so that the connection is sound.
func isServerError(err error) bool {
	_, ok := err.(redis.Error) //nolint:errorlint // redigo never wraps it, and every reply passes here
	return ok
}

// saysNoScript reports whether the node has not got the script: after SCRIPT
// FLUSH, or where a proxy has changed the node behind it.
func saysNoScript(err error) bool {
	return err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT")
}

// losesRole reports whether the error says that the node has become a replica.
// Its connections stay open then, so what was learnt at connect is void.
func losesRole(err error) bool {
	return err != nil && codeOf(err.Error()) == "READONLY"
}

// reconnectDelay spreads the attempts of many clients over time.
func reconnectDelay(failures int) time.Duration {
	limit := min(time.Second, 10*time.Millisecond<<min(failures, 10))
	return limit/2 + chance.Duration(limit/2)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
