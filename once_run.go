package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/token"
)

// job is one call of Once.
type job struct {
	locker *Locker
	opts   *options
	name   string
	key    string
	runs   int      // the number of this run, from 1
	state  RunState // how it stands
	text   string   // what we have written last: that
}

// enter is what is to be written next. keep writes, too: see to it that it does not run meanwhile.
func (j *job) enter(lock *Lock, state RunState) {
	j.state, j.text = state, entryText(lock.Token(), j.runs, state)
}

// newJob settles the options, and returns those that concern the lock.
func (l *Locker) newJob(ctx context.Context, name string, opts []Option) (*job, []Option, error) {
	all := slices.Clone(opts)
	for i := range all {
		all[i].onceOnly = false
	}
	o, err := applyOptions(l.opts, true, all)
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
	carried, _ := ctx.Value(heldKey{}).(*held)
	if outer, err := l.join(carried, &acquireRequest{op: "once", name: name}); outer != nil || err != nil {
		if err != nil {
			return nil, nil, err
		}
		_ = outer.Unlock(ctx)
		return nil, nil, invalid("called inside a hold of the same name")
	}
	opts = slices.DeleteFunc(slices.Clone(opts), func(o Option) bool { return o.onceOnly })
	return &job{locker: l, opts: o, name: name, key: key}, opts, nil
}

func (o *options) checkOnce() error {
	switch {
	case !o.fencing:
		return invalid("WithoutFencing: runs are counted by their tokens")
	case o.doneTTL < 2*o.ttl:
		return invalid("done TTL %s: less than twice the TTL %s, so that a crashed run could be forgotten before its lock "+
			"is free", o.doneTTL, o.ttl)
	default:
		return nil
	}
}

// read reads the registers of the nodes that know a token which is no smaller than least.
func (j *job) read(ctx context.Context, least int64) (reading, error) {
	at := j.opts.clock.now()
	all, err := j.locker.quorumRead(ctx, "once", j.name, j.key, least)
	r := readings(all)
	r.at = at
	return r, err
}

// over returns ErrDone or ErrExhausted where no run may begin.
func (j *job) over(r reading, held bool) error {
	left := r.left
	if left > time.Minute {
		left = left.Truncate(time.Second)
	}
	switch r.judge(held, j.locker.need, j.opts.maxRuns) {
	case isDone:
		e := failed("once", j.name, ErrDone)
		e.detail = fmt.Sprintf(": run %d succeeded; another may begin in %s", r.runs, left)
		return e
	case hasExhausted:
		e := failed("once", j.name, ErrExhausted)
		e.detail = fmt.Sprintf(": %d of %d runs have begun and none succeeded; another may begin in %s",
			r.runs, j.opts.maxRuns, left)
		return e
	default:
		return nil
	}
}

// begin makes this the next run, or returns why there is none.
func (j *job) begin(ctx context.Context, lock *Lock) error {
	// Another node than those that have our token may yet take what an earlier holder has sent: then that
	// counts, and we would not know. Renewal gives our token to nodes that were out of reach.
	var r reading
	if err := j.insist(ctx, lock, func(ctx context.Context) (err error) {
		r, err = j.read(ctx, lock.Token())
		return err
	}); err != nil {
		return err
	}
	over := j.over(r, true)
	left := func() time.Duration { return j.opts.doneTTL }
	switch {
	case over == nil:
		j.runs = r.runs + 1
		j.enter(lock, RunBegun)
	case r.have >= j.locker.need && r.state != RunBegun:
		j.repair(r)
		return over
	default:
		// It is to be over for everybody, also for who does not see what we have seen. Nodes have
		// accepted our token, so they take it in our name alone.
		j.runs = r.runs
		if r.state == RunBegun {
			r.state = RunFailed // it is not under way, since we have the lock
		}
		j.enter(lock, r.state)
		left = func() time.Duration { return max(r.left-j.opts.clock.now().since(r.at), time.Millisecond) }
	}
	if err := j.insist(ctx, lock, func(ctx context.Context) error {
		_, err := j.write(ctx, lock, left())
		return err
	}); err != nil {
		return err
	}
	if over != nil {
		return over
	}
	return j.valid(lock)
}

// insist tries until it works, as long as the hold is valid: too few nodes may become enough. But nodes remember its
// token for the retention alone. After that nobody could tell which of them refuse what an earlier holder sends.
func (j *job) insist(ctx context.Context, lock *Lock, try func(context.Context) error) error {
	held, cancel := lock.Context(ctx)
	defer cancel()
	for {
		err := try(held)
		if err == nil || !errors.Is(err, ErrNoQuorum) {
			return err
		}
		if sleep(held, j.opts.retryAfter()) != nil {
			return j.gaveUp(ctx, err, "the hold ended before there were more")
		}
		if age := j.locker.tokens.time(j.opts.clock.now()) - lock.Token(); age > j.opts.retention.Microseconds() {
			return j.gaveUp(ctx, err, "the nodes may have forgotten the token of the hold by now")
		}
	}
}

// gaveUp is the error where the hold ended, or the caller's patience, before there was a majority for anything. That a
// hold was lost, this one or one around the call, is not what it says: a run that has lost its hold has failed.
func (j *job) gaveUp(ctx context.Context, last error, detail string) error {
	var q *QuorumError
	if !errors.As(last, &q) {
		return last
	}
	with := *q
	with.reason, with.ctx = ErrNoQuorum, j.locker.ended(ctx)
	switch {
	case errors.Is(with.ctx, ErrLost):
		with.ctx = ctx.Err()
	case with.ctx == nil:
		with.detail = detail
	}
	return &with
}

// notBegun is the error where the lock was not to be had. Where ctx ended with a hold around the call, that one was
// lost, and no run of the job.
func (j *job) notBegun(ctx context.Context, err error) error {
	var q *QuorumError
	switch {
	case !errors.Is(err, ErrLost) || ctx.Err() == nil:
		return err
	case errors.As(err, &q):
		with := *q
		with.ctx = ctx.Err()
		return &with
	default:
		return fmt.Errorf("redlock: once %q: %w", j.name, ctx.Err())
	}
}

// unclear is the error where nobody can say whether the success counts. last is why the last attempt to make it known
// had no majority, refused the same where that was a refusal, or why there was no other.
func (j *job) unclear(ctx context.Context, last, refused error) error {
	if errors.As(refused, new(*QuorumError)) {
		last = refused
	}
	return j.gaveUp(ctx, last, "some may know of the success all the same")
}

var (
	// A text that a run begins with, or a success, goes to nodes that have the lock given to the writer: that is how they
	// know that it is not a straggler. What a majority has is true whoever sends it.
	once    = script(command{read: readOnce}, rows(4), "register", "once")
	deliver = func() *command {
		k := *once
		k.Undo, k.Spare, k.trust = true, true, guard.TrustAll
		return &k
	}()
)

func readOnce(reply any) answer {
	switch reply {
	case int64(1):
		return answer{vote: voteGranted}
	case int64(0):
		return answer{vote: voteTaken}
	case int64(2):
		return answer{vote: voteAbsent}
	case int64(3):
		return answer{vote: voteFailed, err: errStale}
	}
	return badReply(reply)
}

var errStale = errors.New("it came when what it says had ended, by the node's clock")

// ask fills in a call that writes a text to the registers, where it ends left after now. All nodes that vote are to
// keep it for as long: ahead is by how much their clocks may be ahead of the nodes' time.
func (j *job) ask(k *command, text string, now instant, left, ahead time.Duration) *round {
	r := j.locker.rounds.Get().(*round)
	r.set(k, j.key, uuid.Nil, 0)
	r.args[0], r.args[1], r.args[2] = "", text, left.Milliseconds()
	r.args[3] = (j.locker.tokens.time(now) + (left + ahead).Microseconds()) / 1000
	return r
}

// write writes the job's text and returns when a majority has it, or why not. ErrLost says that the hold is over, so
// that nothing was sent, or that a majority refused: they have the lock given to somebody else, or know of a later
// holder. may are the nodes that may have taken the text nevertheless.
func (j *job) write(ctx context.Context, lock *Lock, left time.Duration) (may nodeSet, err error) {
	l := j.locker
	// The clock is read before the hold is looked at. So whatever happens to this process then, the text
	// ends no later than if it had been written while the hold was valid.
	now := j.opts.clock.now()
	if err := j.valid(lock); err != nil {
		return 0, err
	}
	r := j.ask(once, j.text, now, left, token.MaxAhead)
	r.setOwner(lock.hold.owner)
	r.args[0] = r.ownerArg
	sent := r.send(l.nodes, l.all, l.need, now.local)
	defer r.abandon()
	votes, err := r.wait(ctx)
	if votes.verdict(len(l.nodes), l.need) == verdictWon {
		if j.state != RunBegun {
			j.deliver(j.text, l.all&^r.voters(votes, voteGranted), now, left)
		}
		return 0, nil
	}
	if err != nil {
		err = endOf(ctx, err)
	} else {
		votes = j.hear(ctx, r, votes)
	}
	for i, n := range l.nodes {
		if votes.voted(i) && errors.Is(r.answers[i].err, errStale) {
			n.probeSoon() // our own idea of the time may be the wrong one
		}
	}
	may = sent &^ r.voters(votes, voteTaken) &^ r.voters(votes, voteAbsent)
	return may, r.failure("once", j.name, ErrLost, votes, err)
}

// hear gives those a chance whose answers do not matter for a majority: they all vote within the node timeout.
func (j *job) hear(ctx context.Context, r *round, votes tally) tally {
	latest := r.Asked.Add(j.opts.nodeTimeout)
	for pause := time.Millisecond; !votes.complete(len(r.answers)); pause *= 2 {
		left := latest.Sub(j.opts.clock.local())
		if left <= 0 || sleep(ctx, min(pause, left)) != nil {
			break
		}
		votes = tally(r.votes.Load())
	}
	return votes
}

// repair gives the nodes that lack what a majority has the same text, for as long as it still has to live: those that
// were out of reach, or came back without their data.
func (j *job) repair(r reading) { j.deliver(r.text, r.lack, r.at, r.left) }

// deliver gives nodes the text that a majority has, which ends left after now: at once, or when they can be reached
// again. It does not wait.
func (j *job) deliver(text string, to nodeSet, now instant, left time.Duration) {
	if to == 0 {
		return
	}
	r := j.ask(deliver, text, now, left, 0)
	r.expires = now.local.Add(left)
	r.send(j.locker.nodes, to, j.locker.need, j.opts.clock.local())
	r.Done()
}

// valid returns an error where the hold is over.
func (j *job) valid(lock *Lock) error {
	if err := lock.Err(); err != nil {
		return lock.hold.over("once", err)
	}
	return nil
}
