package redisconn

import (
	"errors"
	"net"
	"time"

	"github.com/quorumlock/redlock/internal/endpoint"
)

// What it means that requests have no reply, decided by values alone; testdata/silence.txt has cases.
//
// Requests that are older than the time-out fail. The server then counts as unresponsive until its next reply, unless
// it is this process that sent them late or was not scheduled. A server that stays unresponsive gets a new connection:
// over the old one, TCP would repeat lost segments at ever longer intervals. But not while this process runs late, or
// the server answers over other connections: a new one would be as slow, and its handshake would add to the work.

// suspicion is what the watchdog knows of a server's silence from one time to the next. It is guarded by Conn.mu.
type suspicion struct {
	unresponsive time.Time // since when: a request timed out then, and no reply has come since; zero: it responds
	giveUp       time.Time // when an unresponsive server's connection is replaced
	spared       spared    // of the unresponsive connection
	grace        bool      // the watchdog fired late, and will fire again
	starved      int       // how often in a row it fired late, and no reply has come since
}

// snapshot is what the watchdog finds when it fires.
type snapshot struct {
	suspicion
	config    *Config // for its durations
	now, due  time.Time
	connected bool          // else there is no link
	since     time.Time     // when the last link was made
	took      time.Duration // of the link
	oldest    time.Time     // when the oldest request in flight was sent; zero: none is
	answers   uint64        // of the server, over all connections: see spared
	retries   int           // not connected: see Conn
	down      error         // why not connected

	firedLate, excused bool      // excused: this process is to blame, and not the server
	overdue, anyLate   bool      // there are such requests
	next               time.Time // when the next request is due; zero: there is none
}

// maxStarved is how often in a row the watchdog may fire late before a server that has not replied is blamed even so.
const maxStarved = 3

// waitsForReader reports whether the watchdog fired so late that this process was probably not scheduled. Replies may
// then wait to be read, so it must fire again, once, to give the reader a moment. It is called before judge.
func (w *snapshot) waitsForReader() bool {
	w.firedLate = w.grace
	if w.grace = !w.grace && !w.due.IsZero() && w.now.Sub(w.due) >= w.config.lateness(); w.grace {
		return true
	}
	if w.starved++; !w.firedLate {
		w.starved = 0
	}
	w.excused = w.firedLate && w.starved <= maxStarved // else the server is silent all the while
	return false
}

// fate is what becomes of a request without a reply.
type fate uint8

const (
	waits    fate = iota
	timesOut      // it fails with plan.why
	isLate        // it fails with ErrLate: not for the server's sake
)

// judge decides about a request that was sent at the time sent; zero: not yet.
func (w *snapshot) judge(r *Request, sent time.Time) fate {
	deadline := r.Asked.Add(w.config.Timeout)
	switch {
	case w.now.Before(deadline):
		w.next = sooner(w.next, deadline)
		return waits
	case w.connected && (w.excused || w.sentLate(r, sent)):
		w.anyLate = true
		return isLate
	default:
		w.overdue = true
		return timesOut
	}
}

// sentLate reports whether the server had less than half of the time-out, because this process was late to send the
// request. It was not if the server does not read or lacked the script, or if there was no connection.
func (w *snapshot) sentLate(r *Request, sent time.Time) bool {
	if sent.IsZero() && w.took > 0 {
		sent = w.since.Add(w.took)
	}
	return !r.eval && !r.Asked.Before(w.since) && (sent.IsZero() || w.now.Sub(sent) < w.config.Timeout/2)
}

// plan is what the watchdog has to do.
type plan struct {
	suspicion           // from now on
	why       error     // what overdue requests fail with
	failFast  bool      // the attempt to connect hangs, and delays no other request
	replace   bool      // the connection is given up
	changed   bool      // State has changed
	next      time.Time // when to fire again; zero: not before something is sent
}

// decide is called when all requests are judged.
func (w *snapshot) decide() plan {
	p := plan{suspicion: w.suspicion, why: ErrTimeout, next: w.next}
	if w.connected {
		p.suspect(w)
		return p
	}
	if errors.As(w.down, new(endpoint.CredentialsError)) || errors.As(w.down, new(*net.DNSError)) {
		p.why = w.down // the server was not asked
	}
	p.failFast = w.overdue && !w.excused
	p.changed = p.failFast && w.retries > 0 && !errors.Is(w.down, errConnecting) // else its outcome is awaited
	return p
}

// suspect decides about the connection.
func (p *plan) suspect(w *snapshot) {
	// Where all requests are late, nobody would notice that the server is silent.
	blamed := w.overdue || w.anyLate && !w.oldest.IsZero() && w.now.Sub(w.oldest) >= w.config.Timeout
	responds := w.unresponsive.IsZero()
	p.changed = responds && blamed && !w.excused
	if p.changed || !responds && w.excused { // its silence counts from now
		p.unresponsive, p.giveUp = w.now, w.now.Add(w.config.ConnectTimeout)
		p.spared = spared{answers: w.answers}
	}
	switch {
	case p.unresponsive.IsZero():
		return
	case w.now.Before(p.giveUp):
	case p.spared.excuse(w.answers, w.firedLate):
		p.giveUp = w.now.Add(w.config.ConnectTimeout)
	default:
		p.replace = true
		return
	}
	p.next = sooner(p.next, p.giveUp)
}

// sooner returns the earlier of two times. Zero: never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
