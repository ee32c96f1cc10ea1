package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/runs"
	"github.com/quorumlock/redlock/internal/token"
)

// Once runs fn under the lock of the name, unless a run has succeeded already. It is for a job that several machines
// start, or that is started repeatedly, and that should be done once. At most one run is in progress at a time. After a
// run has succeeded, no client begins another for the done TTL ([WithDoneTTL], 2 h by default). After a run has failed,
// another may begin, up to [WithMaxRuns] in all (3 by default). See [the recipe].
//
// While another client's run is in progress, Once waits as [Locker.Lock] does, and then reads that run's outcome. The
// context that fn gets ends with the hold, as in [Locker.Do]. Once returns nil if fn has returned nil and a majority of
// the nodes has recorded it. If, and only if, fn was not called, the error satisfies errors.Is for [ErrNotAcquired]:
//
//   - [ErrAlreadyRun] if a run has succeeded before, and [ErrRunsExhausted] if all runs that are allowed have failed;
//   - an error as from Lock if the lock could not be acquired;
//   - [ErrLost] if the hold ended before the run began, and [ErrNoQuorum] if too few nodes could record its beginning
//     before that, before ctx ended, or for as long as nodes remember the hold's token: the run may count nevertheless.
//
// Otherwise it is
//
//   - the error of fn: the run has failed;
//   - [ErrLost], joined with the error of fn, if the hold ended before the run did, or before any node could record its
//     success: this counts as a failed run;
//   - [ErrNoQuorum] if too few nodes could record the success before the hold ended, or within one TTL after the run:
//     it is unknown whether it counts.
//
// A panic of fn counts as a failed run, and Once panics with it; in the end a crash of the process counts as one, too.
// A run counts from just before fn is called. If the process crashes, before or after fn did its work, the nodes only
// know that the run began. So fn may be called again although it has succeeded, if the process crashes or loses its
// hold just afterwards: a job whose work must not be repeated passes on its token ([Lock.Token]).
//
// The count and the success are kept for the done TTL after the last run, by a majority of the nodes, and by the others
// as soon as they can be reached, if before the Locker is closed. They are lost if too many nodes lose their data: see
// [the recipe]. Once needs a token: with [WithoutFencing], and inside a hold of the same name, it returns [ErrInvalid].
//
// [the recipe]: https://github.com/quorumlock/redlock/blob/main/docs/recipes.md
func (l *Locker) Once(
	ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...OnceOption,
) error {
	return l.once(ctx, plan{name: name, waits: true}, fn, opts)
}

// TryOnce is Once for a caller that does not wait: while another run is in progress, its error satisfies errors.Is for
// [ErrTaken]. [ErrAlreadyRun] and [ErrRunsExhausted] are as with Once.
func (l *Locker) TryOnce(
	ctx context.Context, name string, fn func(ctx context.Context, lock *Lock) error, opts ...OnceOption,
) error {
	return l.once(ctx, plan{name: name}, fn, opts)
}

func (l *Locker) once(
	ctx context.Context, p plan, fn func(context.Context, *Lock) error, opts []OnceOption,
) (err error) {
	l.work.begin()
	defer l.work.end()
	var token int64 // of the run
	begun := l.opts.clock.now()
	defer func() { l.events.ran(ctx, p.name, token, begun, err) }()
	j, forLock, err := l.newJob(ctx, "once", p.name, opts)
	if err == nil && !p.waits {
		err = onlyOnce(forLock)
	}
	if err != nil {
		return notAcquiredError{failed("once", p.name, err)}
	}

	// 1. If no run may begin, the lock is not needed. Read the nodes' clocks as well: each write to a register ends at a
	// time by these clocks, which may have been set since the last probe.
	for _, n := range l.nodes {
		n.measureSoon()
	}
	if read, err := j.read(ctx, 0); err == nil && read.Settled(l.electorate) {
		if refused := j.refusal(read); refused != nil {
			j.repair(read)
			return notAcquiredError{refused}
		}
	}

	// 2. Take the lock, and with it the right to write: earlier holders can no longer write. An error of Unlock does not
	// change the job's outcome: the lock is then free when its TTL is over.
	p.op = "lock"
	lock, err := l.lock(ctx, p, forLock)
	if err != nil {
		return j.notLocked(ctx, err)
	}
	defer func() { _ = lock.Unlock() }()

	// 3. Read again under the lock. If another run may begin, record its beginning first: it counts even if we crash.
	if err := j.begin(ctx, lock); err != nil {
		return notAcquiredError{err}
	}

	// 4. Run, and record the success. After fn has returned, the end of ctx does not undo the success. The end of the hold
	// does, until a majority has recorded it: another client may have begun a run.
	token, err = lock.Token(), errPanicked
	if err = j.run(ctx, lock, fn); err != nil {
		return err
	}
	return j.succeed(ctx, lock)
}

// errPanicked is what the observer is told of a run that panics.
var errPanicked = errors.New("redlock: once: the run panicked")

// succeed records the success of the run. It counts as soon as a majority has recorded it, on nodes where this hold had
// the lock at that moment: every later holder reads it, even if the hold's validity is over by now.
func (j *job) succeed(ctx context.Context, lock *Lock) error {
	caller := context.WithoutCancel(ctx)
	ctx, cancel := context.WithTimeout(caller, j.opts.ttl)
	defer cancel()
	held, stop := lock.Context(ctx)
	defer stop()
	j.setEntry(lock, runs.Done)
	var may quorum.Set // the nodes that may have recorded the success or may do so later: a later holder may read it
	var last error     // of the last write that was sent
	for {
		some, err := j.write(ctx, lock, j.opts.doneTTL)
		may |= some
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrLost):
			last = err
		case may == 0:
			return err
		default:
			return j.unknownOutcome(caller, last, err)
		}
		if sleep(held, retryAfter(j.opts.ttl)) != nil && ctx.Err() != nil {
			return j.unknownOutcome(caller, last, nil)
		} // if only the hold is over, the next write returns ErrLost
	}
}

// run calls fn, and records the failure if it fails.
func (j *job) run(ctx context.Context, lock *Lock, fn func(context.Context, *Lock) error) (err error) {
	held, cancel := lock.Context(ctx)
	// The run continues until fn returns, even if ctx ends first.
	kept, stop := lock.Context(context.WithoutCancel(ctx))
	var keeping sync.WaitGroup
	keeping.Go(func() { j.keep(kept, lock) })
	succeeded := false
	defer func() {
		cancel()
		stop()
		keeping.Wait()
		if !succeeded {
			// This only lets other clients know at once. If the write is lost, the next holder concludes from Begun that
			// the run has failed: it has the lock, so the run is not in progress.
			state, notBegun := runs.Failed, errors.Is(err, runs.ErrNotBegun)
			if notBegun {
				state = runs.NotBegun
			}
			j.setEntry(lock, state)
			if _, lost := j.write(context.WithoutCancel(ctx), lock, j.opts.doneTTL); notBegun && lost != nil {
				err = errors.Join(err, lost)
			}
		}
	}()
	err = calledWith(fn(held, lock))
	switch ended := j.valid(lock); {
	case err == nil:
		err = ended
	case errors.Is(ended, ErrLost):
		err = errors.Join(err, ended)
	}
	succeeded = err == nil
	return err
}

// keepEvery is the longest interval at which a run's entry is written again: so the entry outlives the run by the done
// TTL, and nodes that are restarted one after the other get it back.
const keepEvery = 30 * time.Second

// keep rewrites the job's entry on the nodes until ctx is done.
func (j *job) keep(ctx context.Context, lock *Lock) {
	every := time.NewTicker(min(j.opts.doneTTL/3, keepEvery))
	defer every.Stop()
	for {
		select {
		case <-every.C:
			_, _ = j.write(ctx, lock, j.opts.doneTTL) // a failed write is repeated by the next
		case <-ctx.Done():
			return
		}
	}
}

// Forget makes the nodes forget the runs of a job ([Locker.Once]), so that the next Once begins the first run: after a
// job is exhausted and what made it fail is mended, or to do one again. It returns what was known of the runs.
//
// It takes the job's lock for a moment and does not wait for it. So while a run is in progress it returns an error that
// satisfies errors.Is for [ErrTaken], and no run that is in progress can be forgotten. If it returns nil, a majority of
// the nodes has noted that there are no runs. They keep this note for the done TTL, which should therefore be that of
// the job ([WithDoneTTL]), so that no older entry on a node that is out of reach counts again. If too few nodes can
// note it before the hold of the lock is over, or ctx is done, the error satisfies errors.Is for [ErrNoQuorum], and it
// is unknown which counts. As Once, it needs the fencing token: with [WithoutFencing] it returns [ErrInvalid].
func (l *Locker) Forget(ctx context.Context, name string, opts ...OnceOption) (Runs, error) {
	j, forLock, err := l.newJob(ctx, "forget", name, opts)
	if err != nil {
		return Runs{}, notAcquiredError{failed("forget", name, err)}
	}
	lock, err := l.lock(ctx, plan{op: j.op, name: name}, forLock)
	if err != nil {
		return Runs{}, j.notLocked(ctx, err)
	}
	defer func() { _ = lock.Unlock() }()
	r, err := j.readAsHolder(ctx, lock)
	if err != nil {
		return Runs{}, err
	}
	if r.Text == "" && r.Have == l.electorate.All {
		return Runs{}, nil // nor can any node remember one later
	}
	j.setEntry(lock, runs.Forgotten)
	err = j.retry(ctx, lock, func(ctx context.Context) error {
		_, err := j.write(ctx, lock, max(j.opts.doneTTL, r.Left+time.Second))
		return err
	})
	if err != nil {
		return Runs{}, err
	}
	return runsOf(&r.Entry), nil
}

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
	// A run inside a hold of the same name would have the hold's token, and could not be told from other such runs.
	if outer, err := l.join(carriedBy(ctx), &plan{op: op, name: name}); outer != nil || err != nil {
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
	all, err := j.locker.quorumRead(ctx, j.op, j.name, j.key, "", least)
	return reading{readings(all), at}, err
}

// readAsHolder reads the registers under the lock. Only nodes count that have accepted the hold's token: another node
// may still accept the write of an earlier holder, which would then count, unseen by this read. Renewal gives the token
// to nodes that were out of reach.
func (j *job) readAsHolder(ctx context.Context, lock *Lock) (r reading, err error) {
	err = j.retry(ctx, lock, func(ctx context.Context) (err error) {
		r, err = j.read(ctx, lock.Token())
		return err
	})
	return r, err
}

// refusal returns an ErrAlreadyRun or ErrRunsExhausted if no run may begin, or nil; r: see runs.Reading.Final.
func (j *job) refusal(r reading) error {
	left := r.Left
	if left > time.Minute {
		left = left.Truncate(time.Second)
	}
	switch r.Final(j.opts.maxRuns) {
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
	r, err := j.readAsHolder(ctx, lock)
	if err != nil {
		return err
	}
	refused := j.refusal(r)
	left := func() time.Duration { return j.opts.doneTTL }
	switch {
	case refused == nil:
		j.runs = r.Runs + 1
		j.setEntry(lock, runs.Begun)
	case r.Settled(j.locker.electorate):
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
	switch {
	case !errors.Is(err, ErrLost) || ctx.Err() == nil:
		return err
	case errors.As(err, new(*QuorumError)):
		return notAcquiredError{waitEnded(err, ctx.Err())}
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

// ask fills in a round that writes an entry to the registers, to end left after now. ahead is how much the clock of a
// voting node may be ahead of the nodes' time: the end allows for it, so that each keeps the entry until then.
func (j *job) ask(k *protocol.Command, text string, now instant, left, ahead time.Duration) *round {
	r := j.locker.rounds.Get().(*round)
	r.About(k, j.key)
	r.Value, r.TTL = text, left
	r.End = (j.locker.tokens.time(now) + (left + ahead).Microseconds()) / 1000
	return r
}

// write writes the job's entry and returns when a majority has accepted it, or why none has. ErrLost means that the
// hold is over, so that nothing was sent, or that so many nodes refused that no majority is possible: the lock is
// another owner's there, or they know of a later holder. may are the nodes that may have accepted it all the same.
func (j *job) write(ctx context.Context, lock *Lock, left time.Duration) (may quorum.Set, err error) {
	l := j.locker
	// Read the clock before checking the hold: even if this process is then suspended, the entry ends no later than one
	// that was written while the hold was valid.
	now := j.opts.clock.now()
	if err := j.valid(lock); err != nil {
		return 0, err
	}
	r := j.ask(protocol.Once, j.text, now, left, token.MaxAhead)
	r.Owner = lock.hold.owner
	sent := r.send(l.nodes, l.electorate.All, now.local)
	defer r.abandon()
	votes, err := r.wait(ctx)
	if votes.Verdict() == quorum.Won {
		if j.state != runs.Begun {
			j.deliver(j.text, l.electorate.All&^votes.Who(quorum.Granted), now, left)
		}
		return 0, nil
	}
	if err == nil {
		votes = j.awaitAllVotes(ctx, r, votes)
	}
	for i, n := range l.nodes {
		if votes.Voted(i) && errors.Is(votes.Answer(i).Err, protocol.ErrStale) {
			n.conn.CheckSoon() // this client's estimate of the nodes' time may be wrong
		}
	}
	may = sent &^ votes.Who(quorum.Taken) &^ votes.Who(quorum.Absent)
	return may, r.failure(j.op, j.name, ErrLost, votes, endOf(ctx, err))
}

// awaitAllVotes waits, for the node timeout at most, for the other answers: a node may turn out not to have the entry.
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

// deliver sends nodes an entry that a majority has, to end left after now, once they can be reached. It does not wait.
func (j *job) deliver(text string, to quorum.Set, now instant, left time.Duration) {
	if to == 0 {
		return
	}
	r := j.ask(protocol.Deliver, text, now, left, 0)
	r.Expires = now.local.Add(left)
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
