package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/runs"
	"github.com/quorumlock/redlock/internal/token"
)

// job is one call of Once or Forget.
type job struct {
	op     string // for errors
	locker *Locker
	opts   *options
	name   string
	key    string
	runs   int    // the number of this run, from 1
	state  string // the state of this run
	text   string // the register entry that write writes: the lock's token, runs and state
}

// setEntry sets the entry that write writes. It must not be called while keep runs, which writes, too.
func (j *job) setEntry(lock *Lock, state string) {
	j.state, j.text = state, runs.Text(lock.Token(), j.runs, state)
}

// newJob validates the options, and returns those for the lock.
func (l *Locker) newJob(ctx context.Context, op, name string, opts []OnceOption) (*job, []LockOption, error) {
	o, err := applyOptions(l.opts, opts)
	if err == nil {
		err = cmp.Or(o.checkOnce(), l.isShut(ctx), l.mayLock())
	}
	if err != nil {
		return nil, nil, err
	}
	key, err := l.key(name)
	if err != nil {
		return nil, nil, err
	}
	// A run inside a hold of the same name would have the hold's token, and could not be distinguished from other such
	// runs.
	carried, _ := ctx.Value(heldKey{}).(*held)
	if outer, err := l.join(carried, &acquisition{op: op, name: name}); outer != nil || err != nil {
		if err != nil {
			return nil, nil, err
		}
		_ = outer.Unlock()
		return nil, nil, invalid("called inside a hold of the same name")
	}
	var forLock []LockOption
	for _, opt := range opts {
		if opt, is := opt.(LockOption); is {
			forLock = append(forLock, opt)
		}
	}
	return &job{op: op, locker: l, opts: o, name: name, key: key}, forLock, nil
}

func (o *options) checkOnce() error {
	if !o.fencing {
		return invalid("WithoutFencing: runs are counted by their tokens")
	}
	return o.checkDoneTTL()
}

// reading is the result of reading the registers of a majority.
type reading struct {
	runs.Reading
	at instant // just before the read
}

// read reads the registers. Only nodes count that know a token of at least least.
func (j *job) read(ctx context.Context, least int64) (reading, error) {
	at := j.opts.clock.now()
	all, err := j.locker.quorumRead(ctx, j.op, j.name, j.key, noChannel, least)
	return reading{readings(all), at}, err
}

// refusal returns an ErrAlreadyRun or ErrRunsExhausted if no run may begin, or nil.
func (j *job) refusal(r reading, held bool) error {
	left := r.Left
	if left > time.Minute {
		left = left.Truncate(time.Second)
	}
	switch r.Final(held, j.locker.electorate, j.opts.maxRuns) {
	case runs.Done:
		e := failed("once", j.name, ErrAlreadyRun)
		e.detail = fmt.Sprintf(": run %d succeeded; another may begin in %s", r.Runs, left)
		return e
	case runs.Failed:
		e := failed("once", j.name, ErrRunsExhausted)
		e.detail = fmt.Sprintf(": %d of %d runs have begun and none succeeded; another may begin in %s",
			r.Runs, j.opts.maxRuns, left)
		return e
	default:
		return nil
	}
}

// begin records this as the next run, or returns why no run may begin.
func (j *job) begin(ctx context.Context, lock *Lock) error {
	// Only nodes count that have accepted this hold's token: another node may still accept the write of an earlier holder,
	// which would then count, unseen by this read. Renewal gives the token to nodes that were out of reach.
	var r reading
	if err := j.retry(ctx, lock, func(ctx context.Context) (err error) {
		r, err = j.read(ctx, lock.Token())
		return err
	}); err != nil {
		return err
	}
	refused := j.refusal(r, true)
	left := func() time.Duration { return j.opts.doneTTL }
	switch {
	case refused == nil:
		j.runs = r.Runs + 1
		j.setEntry(lock, runs.Begun)
	case j.locker.electorate.Suffice(r.Have) && r.State != runs.Begun:
		j.repair(r)
		return refused
	default:
		// Only a minority has the final entry, or the entry still says Begun. Write the final one, so that every client
		// reads it, whichever nodes it reaches. The nodes have accepted this hold's token, so they accept no smaller one.
		j.runs = r.Runs
		if r.State == runs.Begun {
			r.State = runs.Failed // the run is not in progress, since this hold has the lock
		}
		j.setEntry(lock, r.State)
		left = func() time.Duration { return max(r.Left-j.opts.clock.now().since(r.at), time.Millisecond) }
	}
	if err := j.retry(ctx, lock, func(ctx context.Context) error {
		_, err := j.write(ctx, lock, left())
		return err
	}); err != nil {
		return err
	}
	if refused != nil {
		return refused
	}
	return j.valid(lock)
}

// retry repeats try while it finds no quorum and the hold is valid, since nodes may come back. But nodes remember the
// hold's token for the retention only. After that it is unknown which of them would refuse an earlier holder's writes.
func (j *job) retry(ctx context.Context, lock *Lock, try func(context.Context) error) error {
	held, cancel := lock.Context(ctx)
	defer cancel()
	for {
		err := try(held)
		if err == nil || !errors.Is(err, ErrNoQuorum) {
			return err
		}
		if sleep(held, retryAfter(j.opts.ttl)) != nil {
			return j.noQuorum(ctx, err, "the hold ended before there was a majority")
		}
		if age := j.locker.tokens.time(j.opts.clock.now()) - lock.Token(); age > j.opts.retention.Microseconds() {
			return j.noQuorum(ctx, err, "the nodes may have forgotten the token of the hold by now")
		}
	}
}

// noQuorum returns the error if the hold or ctx ended before there was a majority. It never satisfies errors.Is for
// ErrLost, even if this hold or one around the call was lost: ErrLost from Once means that a run has failed.
func (j *job) noQuorum(ctx context.Context, last error, detail string) error {
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

// notLocked returns the error if the lock could not be acquired. If ctx ended with a hold around the call, that hold
// was lost and not one of the job, so the error does not satisfy errors.Is for ErrLost.
func (j *job) notLocked(ctx context.Context, err error) error {
	var q *QuorumError
	switch {
	case !errors.Is(err, ErrLost) || ctx.Err() == nil:
		return err
	case errors.As(err, &q):
		with := *q
		with.ctx = ctx.Err()
		return notAcquiredError{&with}
	default:
		return notAcquiredError{failed(j.op, j.name, ctx.Err())}
	}
}

// unknownOutcome returns the error if it is unknown whether the success counts. last is the error of the last write
// that found no majority. final is ErrLost, from the write after which there was no other, or nil.
func (j *job) unknownOutcome(ctx context.Context, last, final error) error {
	if errors.As(final, new(*QuorumError)) {
		last = final // nodes refused the write; otherwise the hold was over and nothing was sent
	}
	return j.noQuorum(ctx, last, "some nodes may have recorded the success all the same")
}

var (
	// A node accepts once only while the writer's owner has the lock there, so it refuses a write that comes too late. It
	// accepts deliver from any client, since that sends only entries that a majority has.
	once    = script(command{read: readOnce}, rows(4), "register", "once")
	deliver = func() *command {
		k := *once
		k.Undo, k.BestEffort, k.trust = true, true, guard.TrustAll
		return &k
	}()
)

func readOnce(reply any) quorum.Answer {
	switch reply {
	case int64(1):
		return quorum.Answer{Vote: quorum.Granted}
	case int64(0):
		return quorum.Answer{Vote: quorum.Taken}
	case int64(2):
		return quorum.Answer{Vote: quorum.Absent}
	case int64(3):
		return quorum.Answer{Vote: quorum.Failed, Err: errStale}
	}
	return badReply
}

var errStale = errors.New("the entry arrived after its end, by the node's clock")

// ask fills in a round that writes an entry to the registers, to end left after now. ahead is how much the clock of a
// voting node may be ahead of the nodes' time: the end allows for it, so that each such node keeps the entry until
// then.
func (j *job) ask(k *command, text string, now instant, left, ahead time.Duration) *round {
	r := j.locker.rounds.Get().(*round)
	r.set(k, j.key, uuid.Nil, 0)
	r.args[0], r.args[1], r.args[2] = "", text, left.Milliseconds()
	r.args[3] = (j.locker.tokens.time(now) + (left + ahead).Microseconds()) / 1000
	return r
}

// write writes the job's entry and returns when a majority has accepted it, or why none has. ErrLost means that the
// hold is over, so that nothing was sent, or that so many nodes refused that no majority is possible: the lock is
// another owner's there, or they know of a later holder. may are the nodes that may have accepted the entry
// nevertheless.
func (j *job) write(ctx context.Context, lock *Lock, left time.Duration) (may quorum.Set, err error) {
	l := j.locker
	// Read the clock before checking the hold: even if this process is then suspended, the entry ends no later than one
	// that was written while the hold was valid.
	now := j.opts.clock.now()
	if err := j.valid(lock); err != nil {
		return 0, err
	}
	r := j.ask(once, j.text, now, left, token.MaxAhead)
	r.setOwner(lock.hold.owner)
	r.args[0] = r.ownerArg
	sent := r.send(l.nodes, l.electorate.All, now.local)
	defer r.abandon()
	votes, err := r.wait(ctx)
	if votes.Verdict() == quorum.Won {
		if j.state != runs.Begun {
			j.deliver(j.text, l.electorate.All&^votes.Who(quorum.Granted), now, left)
		}
		return 0, nil
	}
	if err != nil {
		err = endOf(ctx, err)
	} else {
		votes = j.awaitAllVotes(ctx, r, votes)
	}
	for i, n := range l.nodes {
		if votes.Voted(i) && errors.Is(votes.Answer(i).Err, errStale) {
			n.conn.CheckSoon() // this client's estimate of the nodes' time may be wrong
		}
	}
	may = sent &^ votes.Who(quorum.Taken) &^ votes.Who(quorum.Absent)
	return may, r.failure(j.op, j.name, ErrLost, votes, err)
}

// awaitAllVotes waits, for the node timeout at most, for the answers that no longer change the verdict: a node that
// answers may turn out not to have accepted the entry.
func (j *job) awaitAllVotes(ctx context.Context, r *round, votes quorum.Count) quorum.Count {
	latest := r.Asked.Add(j.opts.nodeTimeout)
	for pause := time.Millisecond; votes.Voters() != r.electorate.All; pause *= 2 {
		left := latest.Sub(j.opts.clock.local())
		if left <= 0 || sleep(ctx, min(pause, left)) != nil {
			break
		}
		votes = r.poll.SoFar()
	}
	return votes
}

// repair is read repair: it delivers the entry that a majority has, with its remaining TTL, to the nodes that lack it
// because they were out of reach or came back without their data.
func (j *job) repair(r reading) { j.deliver(r.Text, r.Lack, r.at, r.Left) }

// deliver sends nodes an entry that a majority has, to end left after now: at once, or as soon as they can be reached.
// It does not wait for them.
func (j *job) deliver(text string, to quorum.Set, now instant, left time.Duration) {
	if to == 0 {
		return
	}
	r := j.ask(deliver, text, now, left, 0)
	r.expires = now.local.Add(left)
	r.send(j.locker.nodes, to, j.opts.clock.local())
	r.Done()
}

// valid returns an error if the hold is over.
func (j *job) valid(lock *Lock) error {
	if err := lock.Err(); err != nil {
		return lock.hold.endedError(j.op, err)
	}
	return nil
}
