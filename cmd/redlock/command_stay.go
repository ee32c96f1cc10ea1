package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"
)

// child is a running command as a platform knows it: a process, except in tests.
type child interface {
	news() (changes <-chan change, orphans <-chan os.Signal)
	reap()                                                 // what has ended, of what the command has left to us
	hasHeard(sig syscall.Signal) bool                      // without us
	forward(sig syscall.Signal, trusted func() bool) error // what the system says where nobody may be signalled
	stopped(by syscall.Signal, trusted func() bool)        // follows the command into a stop
	pause()                                                // asks the command to stop, since we are to
	suspend(trusted func() bool)                           // stops it, and us, until somebody continues us
	terminate()                                            // asks the command, and all it has started, to end
	kill()                                                 // ends them
	left() []remnant                                       // which of them live
	gone() bool                                            // whether none does, once the command itself has ended
	interrupted(c change) bool
}

// hold is what a command needs to know of its lock.
type hold interface {
	Ending(before time.Duration) <-chan struct{}
	Done() <-chan struct{}
	Deadline() time.Time
	Err() error
}

// A supervisor may signal every process of a service, redlock and the command: if redlock passed that on at once, the
// command would hear it twice, and many programs give up a second time in a hurry. The system does not tell which
// signals another process has had. So a command gets a moment to end by the signal of its own.
const heldBack = time.Second

// stopsWithin is for how long a command may go on that is to stop with redlock, before it is made to.
const stopsWithin = 500 * time.Millisecond

// stay is what becomes of a running command: it may be asked to end, then killed, and has ended when nothing is left.
type stay struct {
	*command
	p    child
	lock hold
	end  ending

	changes   <-chan change
	orphans   <-chan os.Signal
	ends      <-chan struct{} // the hold will end soon; nil once it was
	lost      <-chan struct{} // it has ended; nil once it was
	hasExited bool
	held      map[syscall.Signal]*time.Timer // what is held back; each comes to due
	due       chan syscall.Signal
	stop      <-chan time.Time // set while the command may stop before redlock does

	// What follows when the hold ends: see command_term_then_kill.go.
	until  time.Time        // when the hold was to end, when TERM was sent; zero: it was not, or that is said
	kill   <-chan time.Time // set while a command that was asked to end may still do so
	poll   <-chan time.Time // set once end.stopped is
	pause  time.Duration    // until the next poll
	killed time.Time        // zero: it was not
	remind <-chan time.Time // set when it is
}

// stayWith returns when the command has ended and, if we have ended it, nothing is left of what it has started.
func (c *command) stayWith(p child, lock hold) ending {
	s := stay{
		command: c, p: p, lock: lock, ends: lock.Ending(c.termBefore), lost: lock.Done(),
		held: make(map[syscall.Signal]*time.Timer), due: make(chan syscall.Signal, 16),
	}
	s.changes, s.orphans = p.news()
	for !s.over() {
		s.next()
		s.sayIfRenewed()
	}
	if left := p.left(); s.end.stopped && len(left) > 0 {
		c.warn("still running, without the lock: %s", listed(left))
	}
	return s.end
}

func (s *stay) over() bool { return s.hasExited && (!s.end.stopped || s.p.gone()) }

// next waits for one thing to happen, and does what follows from it.
func (s *stay) next() {
	select {
	case <-s.ends:
		s.holdEndsSoon()
	case <-s.lost:
		s.holdIsLost()
	case <-s.kill:
		s.killAll()
	case <-s.remind:
		s.sayWhatOutlivesKill()
	case <-s.poll:
		s.lookAgain()
	case <-s.orphans:
		s.p.reap()
	case sig := <-s.signals:
		s.signalled(sig.(syscall.Signal))
	case sig := <-s.due:
		if s.held[sig] != nil {
			s.forward(sig)
		}
	case <-s.stop:
		s.suspend()
	case change := <-s.changes:
		s.changed(change)
	}
}

func (s *stay) trusted() bool { return s.lock.Err() == nil }

// signalled holds a signal back that the command may have had, too. Who sends it twice has that passed on once, now.
func (s *stay) signalled(sig syscall.Signal) {
	s.end.asked = s.end.asked || endsWaiting(sig) && (s.end.stopped || sig != syscall.SIGHUP) // which many reload by
	s.end.heard = s.end.heard || sig == syscall.SIGINT
	switch {
	case s.p.hasHeard(sig):
	case stopsUs(sig):
		if !s.end.stopped && s.stop == nil {
			s.p.pause()
			s.stop = time.After(stopsWithin)
		}
	case s.held[sig] == nil && !s.end.stopped && maySignalAll(sig):
		s.held[sig] = time.AfterFunc(heldBack, func() { s.due <- sig })
	default:
		s.forward(sig)
	}
}

func (s *stay) forward(sig syscall.Signal) {
	if t := s.held[sig]; t != nil {
		t.Stop()
		delete(s.held, sig)
	}
	if err := s.p.forward(sig, s.trusted); err != nil {
		s.warn("%s cannot be passed on: %s", signalName(sig), cmp.Or(listed(refusing(s.p.left())), err.Error()))
	}
}

func (s *stay) changed(c change) {
	switch {
	case c.exited:
		s.hasExited, s.end.code, s.end.interrupted = true, c.code, s.p.interrupted(c)
		if s.end.stopped {
			s.pollAfter(firstPoll)
		}
	case s.stop != nil:
		s.suspend()
	default:
		s.p.stopped(c.signal, s.trusted)
	}
}

func (s *stay) suspend() {
	s.stop = nil
	s.p.suspend(s.trusted)
}

// remnant is a process that is left of a command.
type remnant struct {
	pid     int
	name    string // of its program, or ""
	user    string // or ""
	refuses bool   // we may not signal it
}

func (r remnant) String() string {
	text := fmt.Sprintf("process %d", r.pid)
	if r.name != "" {
		text += fmt.Sprintf(" (%s)", r.name)
	}
	if r.user != "" {
		text += " of user " + r.user
	}
	if r.refuses {
		text += ": operation not permitted"
	}
	return text
}

// refusing are those that we may not signal: they, or what has started them, have become another user.
func refusing(all []remnant) []remnant {
	return slices.DeleteFunc(slices.Clone(all), func(r remnant) bool { return !r.refuses })
}

func listed(all []remnant) string {
	const most = 4
	var texts []string
	for i, r := range all {
		if i == most {
			texts = append(texts, fmt.Sprintf("and %d more", len(all)-most))
			break
		}
		texts = append(texts, r.String())
	}
	return strings.Join(texts, ", ")
}
