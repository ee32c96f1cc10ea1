package main

import (
	"cmp"
	"time"

	"github.com/urfave/cli/v3"
)

// A hold that is not renewed has a command that is asked to end by TERM, in good time, and killed before another can
// have the lock: somewhat before the hold ends, since to end takes a process a moment, and us, to be woken. When the
// hold ends without that, as when it was taken by force, somebody may have the lock already: then KILL comes at once.

// termBeforeOf returns how long before the end of its hold a command is asked to end. A hold is renewed when two thirds
// of the TTL are left: before that, nobody is to be asked.
func termBeforeOf(cmd *cli.Command) (time.Duration, error) {
	ttl, before := cmp.Or(cmd.Duration("ttl"), 10*time.Second), cmd.Duration("term-before")
	switch most := ttl * 3 / 5; {
	case !cmd.IsSet("term-before"):
		return min(ttl/4, 5*time.Second), nil
	case before < 0:
		return 0, usagef("--term-before %s is negative", before)
	case before > most:
		return 0, usagef("--term-before %s: at most %s, three fifths of the TTL %s: it is renewed when two thirds are left, "+
			"and would end each run at once", before, most, ttl)
	}
	return before, nil
}

// pauseFromTermToKill is for how long a command may go on after TERM, when its hold ends in left.
func pauseFromTermToKill(termBefore, left time.Duration) time.Duration {
	return min(termBefore, left) - termBefore/10
}

// Whether anything is left of a command that is to end is looked for at once, and then less and less often; once a
// minute it is said what has outlived KILL.
const (
	firstPoll   = 10 * time.Millisecond
	lastPoll    = time.Second
	remindEvery = time.Minute
)

func (s *stay) holdEndsSoon() {
	if s.ends = nil; s.trusted() { // else it is lost, which comes next
		s.term()
	}
}

func (s *stay) holdIsLost() {
	if s.lost, s.ends = nil, nil; s.killed.IsZero() {
		s.kill = time.After(0)
	}
}

func (s *stay) term() {
	s.until = s.lock.Deadline()
	s.kill = time.After(pauseFromTermToKill(s.termBefore, time.Until(s.until))) // also if it is renewed now
	s.p.terminate()
	s.ending("lock %s cannot be renewed: ending the command before the lock is lost", s.name)
}

func (s *stay) killAll() {
	s.kill, s.killed, s.remind = nil, time.Now(), time.Tick(remindEvery)
	s.p.kill()
	if s.end.stopped {
		s.ending("the command has not ended: killing it")
	} else {
		s.ending("lock %s is lost: killing the command", s.name)
	}
}

// ending says why the command has been told to end, and by whom it cannot be.
func (s *stay) ending(format string, args ...any) {
	s.end.stopped, s.stop = true, nil
	clear(s.held) // it has been told enough
	s.pollAfter(firstPoll)
	s.warn(format, args...)
	if refusing := refusing(s.p.left()); len(refusing) > 0 {
		s.warn("cannot end %s; waiting until that has ended", listed(refusing))
	}
}

func (s *stay) sayIfRenewed() {
	if !s.until.IsZero() && s.lock.Deadline().After(s.until) && s.trusted() {
		s.until = time.Time{}
		s.warn("lock %s is renewed after all; the command is ended all the same", s.name)
	}
}

func (s *stay) sayWhatOutlivesKill() {
	if left := s.p.left(); len(left) > 0 {
		s.warn("still running %s after KILL: %s", span(time.Since(s.killed)), listed(left))
	}
}

func (s *stay) lookAgain() {
	if !s.killed.IsZero() {
		s.p.kill() // what has been started since
	}
	s.pollAfter(min(2*s.pause, lastPoll))
}

func (s *stay) pollAfter(d time.Duration) { s.pause, s.poll = d, time.After(d) }
