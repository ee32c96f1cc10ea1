package redlock

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
)

// tenure is the part of a hold that matters only until its end. A handle may outlive its hold for as long as
// somebody keeps it, so what its methods say then stands in the hold, which is small and never used again; and the
// rest, four fifths of it, goes from an unlocked hold to the next one.
//
// The rule of access: while a hold is being acquired, its tenure is its maker's. Once it is shared, whoever uses the
// tenure holds hold.mu and has seen, since taking it, that the hold has not ended (hold.ended) – or knows why it has: a tenure
// is taken out of its hold by the last Unlock alone. It keeps no reference that it was not told to: a call
// copies what it needs when it is filled in.
type tenure struct {
	opts *options
	wanted
	since  instant // when the acquisition began
	place  any     // string: our member of the nodes' queues, or nowhere
	caller callers
	former *hold // what was adopted: others that tried, too, may have set its owner again on some nodes

	start    instant                               // when the request that the validity rests on was begun
	validity time.Duration                         // how long after start the hold may be trusted
	asked    nodeSet                               // the nodes that may have the key
	extended bool                                  // an extension was asked for: it may come late
	handles  int                                   // Locks that have not been unlocked
	cause    error                                 // why the hold ended; nil while it may be trusted: see hold.ended
	detail   string                                // how it was lost
	done     chan struct{}                         // closed when the hold ends; made when first asked for
	ends     map[*context.CancelCauseFunc]struct{} // contexts that end with the hold
	renewal  renewal
}

// wanted is what an attempt is about.
type wanted struct {
	op   string // for errors
	name string
	key  string
	from any // string: the owner to take over from; nil: the lock must be nobody's

	several  *several     // instead of key; nil: one lock
	observed *observation // nil: nobody observes, or a step on the way to another hold
	shared   bool         // with other readers: askFor chooses what is asked accordingly

	waitsSince int64 // when the wait for it began, in µs of the nodes' time; 0: it begins now
}

// nowhere is the place of who waits in no queue; noToken is the token where none is needed.
var nowhere, noToken any = "", ""

// tenures are those that no hold has. All is zero in them.
var tenures = sync.Pool{New: func() any { return new(tenure) }}

// newHold begins an acquisition: it draws an owner and reads the clock.
func (l *Locker) newHold(w wanted, o *options) *hold {
	now := o.clock.begin()
	h := l.holdOf(newOwner(l.tokens.time(now)), w, o)
	h.since, h.start, h.validity = now, now, o.drift.validity(o.ttl, 0)
	return h
}

// holdOf returns what stands for an owner that the nodes may have given a lock to.
func (l *Locker) holdOf(owner uuid.UUID, w wanted, o *options) *hold {
	t := tenures.Get().(*tenure)
	t.opts, t.wanted, t.place = o, w, nowhere
	return &hold{locker: l, tenure: t, name: w.name, several: w.several, shared: w.shared, owner: owner}
}

// take ends the hold by Unlock and takes its tenure out of it. Nobody else has it then: the leases, the
// contexts and the listeners have been told of the end by finish, and all others come by hold.mu. Called with mu held, once,
// where the hold has not ended.
func (h *hold) take() *tenure {
	h.finish(ErrUnlocked)
	h.last = h.end().UnixNano()
	t := h.tenure
	h.tenure = nil
	return t
}

// recycle gives the tenure to a later hold. Called by who took it, at the end.
func (t *tenure) recycle() {
	*t = tenure{} // all of it: nothing is to be kept alive, or found by the next
	tenures.Put(t)
}

// left returns for how long the hold may still be trusted; zero or less: it is over.
func (t *tenure) left(now instant) time.Duration {
	left := t.validity - now.since(t.start)
	if t.opts.maxHold > 0 {
		left = min(left, t.opts.maxHold-now.since(t.since))
	}
	return left
}

// end returns when the hold ends unless it is extended.
func (t *tenure) end() time.Time {
	end := t.start.local.Add(t.validity)
	if t.opts.maxHold > 0 {
		if limit := t.since.local.Add(t.opts.maxHold); limit.Before(end) {
			end = limit
		}
	}
	return end
}

// newOwner draws an owner: a UUID of version 7 (RFC 9562), whose first 60 bits
// tell the time and whose last 62 bits are random. With the nodes' time in it
// owners stand in the order in which they began, whatever machine they are from.
func newOwner(micros int64) (id uuid.UUID) {
	_, _ = rand.Read(id[8:]) // never fails
	binary.BigEndian.PutUint64(id[:8], uint64(micros/1000)<<16|0x7<<12|uint64(micros%1000)<<12/1000)
	id[8] = id[8]&0x3f | 0x80
	return id
}
