package guard

import "time"

// incarnation is what this client knows of a node since the last probe: above all, since when the node has forgotten
// nothing. It outlives connections, so a network fault alone makes no node abstain.
type incarnation struct {
	epoch   string // of the node's process and role; "": never probed
	run     string // of the process; "": it has been a replica since, or is not known
	uptime  time.Duration
	record  record    // the node's record after the probe
	durable bool      // the node reported durable persistence
	micros  int64     // the node's clock at the probe
	at      time.Time // our clock at the probe
	since   time.Time // by our clock: the node has certainly forgotten nothing since then
	reason  reason    // why it may have forgotten what was before
	jump    jump      // of its clock, after the probe
}

// jump is a node's clock that was set forward. The node has forgotten votes then, since keys expired early. INFO's
// uptime is the difference of two readings of that clock, so a client that connects later takes the process for older.
type jump struct {
	at time.Time // by our clock, when it was noticed; zero: there was none
	by time.Duration
}

func (j jump) reason() reason {
	by := j.by.Round(time.Millisecond).String()
	return reason("had its clock set forward by " + by + ", noticed %s ago: keys expired early")
}

// reason says why a node may have forgotten what was before its incarnation's since. %s is the time that has passed.
type reason string

const (
	reasonRestart  reason = "restarted %s ago without durable persistence"
	reasonUnproven reason = "restarted %s ago, and nothing proves to this client that all its data came back"
	reasonPromoted reason = "is a promoted replica, first seen %s ago: writes that its master had not replicated are lost"
	reasonEmptied  reason = "lost its data at least %s ago"
	reasonNoted    reason = "lost its data or had its clock set forward %s ago, as another client noted"
	reasonUnknown  reason = "was first seen %s ago, and its uptime is unknown (INFO is refused)"
	reasonClock    reason = "was first seen %s ago, and its uptime is negative: its clock was ahead when it started, " +
		"or is behind"
)

// reconcile returns the node's incarnation, from the old one and what the node said. Its record is the one that the
// node should have now. Every uncertainty makes since later. now was read after the node's replies.
func (old incarnation) reconcile(said *Info, now time.Time) incarnation {
	old, stored := old.recognize(said)
	next := incarnation{epoch: said.epoch(), run: said.runID, uptime: said.Uptime, micros: said.micros, at: now}
	if said.Refused != "" {
		next.since, next.reason, next.record = old.withoutInfo(said, stored, now)
		return next
	}
	started, why := sinceByReplies(said, stored, now)
	next.since, next.reason = started, why
	if old.epoch != "" {
		next.since, next.reason = old.remembersSince(next, said, stored)
	}
	next.durable = said.durable()
	next.record = record{next.epoch, said.micros - now.Sub(next.since).Microseconds(), said.durable()}
	if keepsDate(old, next, said, stored, started) {
		next.record.since = stored.since
	}
	return next
}

// recognize returns the old incarnation and the node's record, each with the epoch that the node has now if that is
// another name for the one that it had.
func (old incarnation) recognize(said *Info) (incarnation, record) {
	stored, epoch := said.record, said.epoch()
	if said.continues(old) {
		if stored.epoch == old.epoch || stored.since == old.record.since {
			stored.epoch = epoch
		}
		old.epoch = epoch
	}
	if (old.epoch == "" || old.epoch == epoch) && said.outlived(stored) {
		stored.epoch = epoch
	}
	return old, stored
}

// withoutInfo returns since when a node that refuses INFO has forgotten nothing, why, and the record that it should
// have. A record and a script that are still there show only that the process is the one that this client knew. A
// record of another client is left alone.
func (old incarnation) withoutInfo(said *Info, stored record, now time.Time) (time.Time, reason, record) {
	switch {
	case !said.hasScript || stored == (record{}):
		return now, reasonUnknown, record{epoch: unknownEpoch, since: said.micros}
	case old.epoch != said.epoch() || old.record.since != stored.since:
		return now, reasonUnknown, stored
	case old.jump != (jump{}):
		return now, old.jump.reason(), stored
	default:
		return old.since, reasonUnknown, stored
	}
}

// sinceByReplies returns since when the node has forgotten nothing, and why, to a client that meets it now.
func sinceByReplies(said *Info, stored record, now time.Time) (time.Time, reason) {
	current, written := stored.epoch == said.epoch(), said.ourTime(stored.since, now)
	started := now.Add(-said.age())
	switch {
	case said.Promoted || said.Uptime < 0:
		why := reasonPromoted
		if !said.Promoted {
			why = reasonClock
		}
		if current {
			return written, why
		}
		return now, why
	case current && written.After(started.Add(uptimeError)):
		return written, reasonNoted
	case said.durable():
		return started, reasonUnproven
	default:
		return started, reasonRestart
	}
}

// keepsDate reports whether the node's record keeps the time stored there. started is what sinceByReplies returned.
func keepsDate(old, next incarnation, said *Info, stored record, started time.Time) bool {
	current, written := stored.epoch == next.epoch, said.ourTime(stored.since, next.at)
	switch {
	case said.Uptime < 0 && stored.since > said.micros && old.epoch == next.epoch &&
		next.at.Sub(next.since) >= said.period:
		// The clock was set back: whoever meets the node would take it for one that was just emptied. What is dated anew is
		// so old that it does not matter if the clock is set forward again.
		return false
	case old.epoch == "" && said.startedAfterRecord(next.at):
		// The clock was behind the start of the process. Those that know the node go by that time, this client does not.
		return true
	case current && (next.since.Equal(old.since) || !next.since.After(written.Add(2*uptimeError))), said.dataSurvived(old):
		// The stored time is the same moment, measured when it was fresh. age subtracts uptimeError, but the uptime may err
		// the other way: a client that wrote a later time would tell all others that the node was emptied.
		return true
	default:
		// Kept as proof for clients that knew the node. Those that did not go by its uptime all the same.
		return next.reason == reasonUnproven && next.since.Equal(started) && stored.durable && written.Before(started)
	}
}

// ourTime converts the node's time to ours; now is when it spoke. A time in the future counts as now: clocks are set.
func (i *Info) ourTime(micros int64, now time.Time) time.Time {
	return now.Add(-time.Duration(max(0, i.micros-micros)) * time.Microsecond)
}

// startedAfterRecord reports whether the process has run for less long than its own record says.
func (i *Info) startedAfterRecord(now time.Time) bool {
	return i.record.epoch == i.epoch() && i.Uptime >= 0 && i.ourTime(i.record.since, now).Before(now.Add(-i.age()))
}

// continues reports whether the node is the process that this client knew, and has been a master since. Its epoch may
// be another: a master takes a new replication id when its first replica comes, as which a backup counts (redis-cli
// --rdb), when the last one has been gone for repl-backlog-ttl, and when promoted, which shows for as long: see apply.
func (i *Info) continues(old incarnation) bool {
	return i.Refused == "" && !i.Promoted && old.run != "" && old.run == i.runID && i.Uptime >= old.uptime
}

// outlived reports whether a record, of whatever epoch, is no older than the node's process, but for the error of the
// uptime. To a client that goes by the uptime it can only say that the node has forgotten something since.
func (i *Info) outlived(r record) bool {
	return i.Refused == "" && !i.Promoted && i.Uptime >= 0 && r.epoch != "" && r.epoch != unknownEpoch &&
		r.since >= i.micros-(i.Uptime+2*uptimeError).Microseconds() && r.since <= i.micros
}

// dataSurvived reports whether the node restarted with all the data of the old incarnation.
func (i *Info) dataSurvived(old incarnation) bool {
	return i.trusted && !i.Promoted && old.epoch != "" && old.epoch != i.epoch() && old.jump == (jump{}) &&
		i.durable() && i.record.durable && // the node reports it now, and did when the record was written
		old.durable && old.record.durable && old.record.since == i.record.since // and this client knew that record
}

// remembersSince corrects next's since and reason, which come from the node's replies, by what this client knew before.
func (old incarnation) remembersSince(next incarnation, said *Info, stored record) (time.Time, reason) {
	same := stored.since == old.record.since
	// Where the uptime is no age, nobody dates a node earlier than when it was seen. So if the clock was set back, the
	// record that this client knew is from the future, and was dated anew.
	set := old.record.since > next.micros-next.at.Sub(old.at).Microseconds() &&
		(next.reason == reasonClock || next.reason == reasonPromoted)
	noted := !same && stored.epoch == next.epoch && (stored.since >= old.micros || set)
	switch {
	case said.dataSurvived(old):
		return old.since, old.reason
	case old.jump != (jump{}) && !noted:
		// Dated now, not when noticed: a client that probed the node in between must find this record newer, to adopt it.
		return next.at, old.jump.reason()
	case next.epoch != old.epoch:
		// The new epoch began after the last probe of the old one, whatever uptime the node's clock says.
		return later(next.since, old.at), next.reason
	case same:
		return old.since, old.reason // nothing has happened
	case noted:
		// The node was emptied, or its clock set. The client that noticed it has dated it.
		return later(next.since, old.since), next.reason
	default:
		// The record is gone; or a client has written a new one that knew of none.
		return next.at, reasonEmptied
	}
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// uptimeError bounds the error of INFO's uptime, either way: the difference of two readings, in s, of the wall clock.
const uptimeError = time.Second

// age returns the least time for which the node's process has run.
func (i *Info) age() time.Duration { return max(0, i.Uptime-uptimeError) }
