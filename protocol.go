package redlock

import (
	"context"
	"errors"
	"strconv"
)

// kind is one of the things that a node can be asked. What a script does, and
// what it replies, stands in its head, in internal/lua/.
type kind struct {
	index   int
	script  *script // nil: a native command
	command string  // its name
	native  func(q *question, args []any) []any
	form    func(q *question, b []byte) []byte // instead of native: appends the whole command, in the form of the wire
	layout  func(g *group, w *wire)            // script: adds the arguments
	tokens  bool                               // script: the last key is the set of tokens
	trust   trust                              // which nodes' grants count
	undo    bool                               // must reach every node that may have done what it undoes; may be sent twice
	spare   bool                               // undo: is not kept for a node that is away and has much to catch up with already
	read    func(reply any) answer
	toRead  *kind // what is asked in place of it for a hold that readers share
}

const kinds = 24

// The kinds. A batch sends them in the order of their indexes.
var (
	acquirePlain = &kind{index: 0, command: "SET", form: setForm, read: readSet, toRead: read}
	acquire      = &kind{index: 1, layout: columns, tokens: true, read: readAcquire, script: newScript("acquire")}
	raise        = &kind{index: 2, layout: rows(3), tokens: true, read: readAcquire, script: newScript("raise")}
	extend       = &kind{index: 3, trust: trustOurs, layout: rows(3), tokens: true, read: readExtend, toRead: keepReading, script: newScript("extend")}
	adopt        = &kind{index: 7, layout: rows(4), tokens: true, read: readAcquire, script: newScript("adopt")}
	revert       = &kind{index: 8, layout: rows(2), undo: true, trust: trustAll, read: readRevert, script: newScript("revert")}
	release      = &kind{index: 4, layout: toRelease, tokens: true, undo: true, trust: trustAll, read: readRelease, toRead: stopReading, script: newScript("free", "readers", "queue", "release")}
	acquireAll   = &kind{index: 15, layout: rowForAll(3), tokens: true, read: readAcquire, script: newScript("acquire_all")}
	enqueue      = &kind{index: 9, layout: rows(4), tokens: true, read: readAcquire, toRead: read, script: newScript("readers", "queue", "stand", "enqueue")}
	surveySlots  = &kind{index: 17, layout: rows(1), tokens: true, read: readSurvey, script: newScript("readers", "queue", "survey")}

	read        = &kind{index: 18, layout: rows(3), tokens: true, read: readAcquire, script: newScript("readers", "queue", "stand", "read")}
	keepReading = &kind{index: 19, trust: trustOurs, layout: rows(2), tokens: true, read: readExtend, script: newScript("readers", "keep_reading")}
	stopReading = &kind{index: 20, layout: rows(2), tokens: true, undo: true, trust: trustAll, read: readRelease, script: newScript("readers", "queue", "stop_reading")}
)

// setForm is SET key owner NX PX TTL.
func setForm(q *question, b []byte) []byte {
	b = append(append(append(b, setHead...), q.keyForm...), q.ownerForm[:]...)
	return appendNumber(append(b, setOptions...), q.args[1].(int64))
}

const setHead, setOptions = "*6\r\n$3\r\nSET\r\n", "$2\r\nNX\r\n$2\r\nPX\r\n"

// askFor fills in a call about a hold.
func (l *Locker) askFor(k *kind, h *hold) *call {
	if h.shared {
		k = k.toRead
	}
	c := l.calls.Get().(*call)
	if h.several != nil {
		c.setSeveral(k, h.several, h.owner)
	} else {
		c.set(k, h.key, h.owner)
	}
	c.tokensKey = l.tokensKey
	c.args[1], c.args[2], c.args[3] = h.opts.ttlArg, "", h.from
	if h.token > 0 {
		c.setToken(h.token)
	}
	switch k {
	case release:
		c.args[1], c.args[2] = h.place, noToken
		if h.extended && h.token > 0 {
			// An extension that went down another connection, now broken, may land behind this. Half a step is above our
			// token and below everybody else's, so it costs nobody a second round.
			c.args[2] = strconv.FormatInt(h.token, 10) + ".5"
		}
	case stopReading:
		c.args[1] = h.place
	case read:
		c.args[2] = h.place
	case enqueue:
		c.args[3] = h.place
	case revert:
		c.args[1] = h.from
	}
	if k.form != nil {
		c.command = k.form(&c.question, c.command[:0])
	}
	return c
}

// askToAcquire fills in a call that acquires, with a token unless there is to be none.
func (l *Locker) askToAcquire(h *hold) *call {
	if h.opts.fencing {
		h.token = l.tokens.propose(h.start)
	}
	switch {
	case h.from != nil:
		return l.askFor(adopt, h)
	case h.several != nil:
		return l.askFor(acquireAll, h)
	case h.opts.fencing:
		return l.askFor(acquire, h)
	default:
		return l.askFor(acquirePlain, h)
	}
}

// undo lets go of what a hold may have on the nodes, and does not wait.
func (l *Locker) undo(h *hold, nodes nodeSet) {
	if nodes == 0 {
		return
	}
	k := release
	if h.from != nil {
		k = revert
	}
	c := l.askFor(k, h)
	now := l.opts.clock.local()
	c.expires = now.Add(h.opts.ttl)
	c.put(l.nodes, nodes, l.need, now)
	c.release()
}

// notHeld describes an attempt that failed: because of err, or late though it
// was won, or for want of votes.
func (l *Locker) notHeld(ctx context.Context, w wanted, c *call, votes tally, err error, won bool) *QuorumError {
	failure := l.failure(w.op, w.name, ErrTaken, c, votes, nil)
	switch {
	case won:
		failure.reason, failure.detail = ErrNoQuorum, "a majority came too late: too little of the TTL was left"
	case errors.Is(err, errTokenAhead):
		failure.reason, failure.detail = ErrNoQuorum, err.Error()
	default:
		failure.ctx = endOf(ctx, err)
	}
	return failure
}

// failure describes a call that found no majority. refused is what it means that a majority refused: ErrTaken, or
// ErrLost where the lock was ours. ended is what ended the caller's wait, or nil. The error is not changed
// once it is handed out: observers read it in a goroutine of their own.
func (l *Locker) failure(op, name string, refused error, c *call, votes tally, ended error) *QuorumError {
	e := &QuorumError{Op: op, Name: name, Need: l.need, Granted: votes.count(voteGranted), reason: ErrNoQuorum, ctx: ended}
	for i, n := range l.nodes {
		part := NodeError{Addr: n.target.String(), Outcome: OutcomeLate}
		if votes.voted(i) {
			a := &c.answers[i]
			part.Outcome, part.Owner, part.Remaining, part.Err = outcomes[a.vote], a.owner, a.remaining, a.err
			if c.several != nil && a.vote == voteTaken {
				part.Name = c.several.names[a.which]
			}
		} else if why := n.abstaining(c); why != nil {
			part.Err = why // so it would not have counted
		}
		e.Nodes = append(e.Nodes, part)
	}
	// Refused is what so many nodes said that the others cannot make a majority.
	if votes.count(voteTaken)+votes.count(voteAbsent) > len(l.nodes)-l.need {
		e.reason = refused
	}
	return e
}
