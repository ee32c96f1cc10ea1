package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
)

// job is one call of Once.
type job struct {
	locker *Locker
	opts   *options
	name   string
	key    string
	runs   int    // the number of this run, from 1
	text   string // what we have written last
}

// newJob settles the options, and returns those that concern the lock.
func (l *Locker) newJob(ctx context.Context, name string, opts []Option) (*job, []Option, error) {
	all := slices.Clone(opts)
	for i := range all {
		all[i].onceOnly = false
	}
	o, err := settle(l.opts, true, all)
	if err == nil {
		err = o.checkOnce()
	}
	if err != nil {
		return nil, nil, err
	}
	key, err := l.key(name)
	if err != nil {
		return nil, nil, err
	}
	// Two runs under one token could not be told apart.
	if outer, err := l.join(ctx, wanted{op: "once", name: name}); outer != nil || err != nil {
		if err != nil {
			return nil, nil, err
		}
		_ = outer.Unlock(ctx)
		return nil, nil, invalid("called inside a hold of the same name")
	}
	return &job{locker: l, opts: o, name: name, key: key}, slices.DeleteFunc(slices.Clone(opts), func(o Option) bool { return o.onceOnly }), nil
}

func (o *options) checkOnce() error {
	switch {
	case !o.fencing:
		return invalid("WithoutFencing: runs are counted by their tokens")
	case o.doneTTL < 2*o.ttl:
		return invalid("done TTL %s: less than twice the TTL %s, so that a crashed run could be forgotten before its lock is free", o.doneTTL, o.ttl)
	default:
		return nil
	}
}

func (j *job) read(ctx context.Context) (reading, error) {
	all, err := j.locker.look(ctx, "once", j.name, j.key)
	return readings(all), err
}

// over returns ErrDone or ErrExhausted where no run may begin.
func (j *job) over(r reading, held bool) error {
	left := r.left
	if left > time.Minute {
		left = left.Truncate(time.Second)
	}
	switch r.judge(held, j.locker.need, j.opts.maxRuns) {
	case isDone:
		return fmt.Errorf("redlock: once %q: %w: run %d succeeded; another may begin in %s", j.name, unprefixed{ErrDone}, r.runs, left)
	case hasExhausted:
		return fmt.Errorf("redlock: once %q: %w: %d of %d runs have begun and none succeeded; another may begin in %s", j.name, unprefixed{ErrExhausted}, r.runs, j.opts.maxRuns, left)
	default:
		return nil
	}
}

// mend gives the nodes that lack what a majority has the same text, for as long as it still has to live: those that were out of
// reach, or came back without their data. It does not wait, and nothing depends on it.
func (j *job) mend(r reading) {
	if r.lack == 0 {
		return
	}
	c := j.ask(r.text, r.left)
	c.put(j.locker.nodes, r.lack, j.locker.need, j.opts.clock.local())
	c.giveUp()
}

// begin makes this the next run, or returns why there is none.
func (j *job) begin(ctx context.Context, lock *Lock) error {
	var r reading
	if err := j.insist(ctx, lock, func(ctx context.Context) (err error) {
		r, err = j.read(ctx)
		return err
	}); err != nil {
		return err
	}
	over := j.over(r, true)
	state, left := RunBegun, j.opts.doneTTL
	j.runs = r.runs + 1
	switch {
	case over == nil:
	case r.lack == 0 && r.have >= j.locker.need && r.state != RunBegun:
		return over
	default:
		// It is to be over for everybody, also for who does not see what we have seen. Nodes have
		// accepted our token, so they take it in our name alone.
		j.runs, state, left = r.runs, r.state, max(r.left, time.Millisecond)
		if state == RunBegun {
			state = RunFailed // it is not under way, since we have the lock
		}
	}
	j.text = entryText(lock.Token(), j.runs, state)
	if err := j.insist(ctx, lock, func(ctx context.Context) error { return j.write(ctx, left) }); err != nil {
		return err
	}
	if over != nil {
		return over
	}
	return j.valid(lock)
}

// insist tries until it works, as long as the hold is valid: too few nodes may become enough.
func (j *job) insist(ctx context.Context, lock *Lock, try func(context.Context) error) error {
	held, cancel := lock.Context(ctx)
	defer cancel()
	for {
		err := try(held)
		if err == nil || !errors.Is(err, ErrNoQuorum) {
			return err
		}
		if ended := sleep(held, j.opts.retryAfter()); ended != nil {
			return j.locker.waitEnded(wanted{op: "once", name: j.name}, err, endOf(held, ended))
		}
	}
}

var once = &kind{index: 22, layout: rows(2), tokens: true, read: readOnce, script: newScript("register", "once")}

func readOnce(reply any) answer {
	switch reply {
	case int64(1):
		return answer{vote: voteGranted}
	case int64(0):
		return answer{vote: voteTaken}
	}
	return garbled(reply)
}

// ask fills in a call that writes a text to the registers.
func (j *job) ask(text string, left time.Duration) *call {
	c := j.locker.calls.Get().(*call)
	c.set(once, j.key, uuid.Nil)
	c.tokensKey = j.locker.tokensKey
	c.args[0], c.args[1] = text, left.Milliseconds()
	return c
}

// write writes the job's text and returns when a majority has it, or why not. ErrLost says that somebody with a
// larger token was there before.
func (j *job) write(ctx context.Context, left time.Duration) error {
	l := j.locker
	c := j.ask(j.text, left)
	c.put(l.nodes, l.all, l.need, j.opts.clock.local())
	votes, err := c.wait(ctx)
	defer c.giveUp()
	if votes.verdict(len(l.nodes), l.need) == verdictWon {
		return nil
	}
	if err != nil {
		err = endOf(ctx, err)
	}
	return l.failure("once", j.name, ErrLost, c, votes, err)
}
