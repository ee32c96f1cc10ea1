package redlock

import (
	"strconv"
	"strings"
	"time"
)

// A node that restarted may have forgotten votes that it gave, and would give
// them again to somebody else. So its votes abstain until every lock that it may
// have voted for has expired: for the guard period, which no TTL exceeds.
//
// Exclusion needs just that, time out of service + guard period ≥ TTL. Of two holds of a name,
// the majorities share a node that counted for both. If it was up all the time, it
// refused the second; if it forgot the first, it forgot it before the guard
// period began, and the first has ended.
//
// How long a node has forgotten nothing is decided here, from three witnesses,
// none of which is believed beyond what the others allow: what INFO says, the
// record that the node keeps, and what this Locker itself has seen of the node.

// life is how this Locker last saw a node, and since when the node has forgotten
// nothing. It outlives connections: a mere network fault costs no wait.
type life struct {
	epoch   string    // of the node's process and role; "": never seen
	record  record    // that the node had after we had seen to it
	durable bool      // it said of itself that it was
	micros  int64     // the node's clock when we looked
	at      time.Time // ours
	since   time.Time // ours: from then on it has certainly forgotten nothing
	doubt   doubt     // why it may have forgotten what was before
	leap    leap      // of its clock, seen since
}

// leap is a node's clock that was set forward. That is forgetting: keys have expired early. And INFO's uptime, a
// difference of two readings of that clock, has grown by it, so that who meets the node later takes it for older than it is.
type leap struct {
	at time.Time // ours, when it was noticed; zero: there was none
	by time.Duration
}

func (s leap) doubt() doubt {
	return doubt("had its clock set forward by " + s.by.Round(time.Millisecond).String() + ", noticed %s ago: keys expired early")
}

// doubt is why a node's memory does not reach further back.
type doubt string

// The doubts.
const (
	doubtRestart  doubt = "restarted %s ago without durable persistence"
	doubtUnproven doubt = "restarted %s ago, and nothing proves to this client that all its data came back"
	doubtPromoted doubt = "is a promoted replica, met %s ago: what its master had not sent is lost"
	doubtEmptied  doubt = "lost its data %s ago, at the latest"
	doubtNoted    doubt = "lost its data, or had its clock set forward, %s ago, as another client has noted"
	doubtUnknown  doubt = "was met %s ago and may not be asked for its age (INFO is refused)"
)

// record is what a node keeps at {prefix}redlock:node: the epoch in which it was
// written, the node's time from which on nothing was forgotten, and whether the node was
// durable then. It vanishes with FLUSHALL, which INFO does not tell; and it says since when a
// promoted replica, whose uptime means nothing, has been a master.
//
// One that came back with the data of a durable node tells that some file of that node was loaded, not that it was
// the last one: the file may be older than the node's last vote, or a replica's. So it proves nothing by itself.
// A Locker that was told to trust its nodes, and knew the node with the same record before, takes it for proof.
type record struct {
	epoch   string
	since   int64 // µs, by the node's clock
	durable bool
}

func (r record) String() string {
	if r.epoch == "" {
		return ""
	}
	text := r.epoch + " " + strconv.FormatInt(r.since, 10)
	if r.durable {
		text += " durable"
	}
	return text
}

// parseRecord returns the zero record for what is none.
func parseRecord(text string) record {
	parts := strings.Split(text, " ")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" {
		return record{}
	}
	since, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || len(parts) == 3 && parts[2] != "durable" {
		return record{}
	}
	return record{parts[0], since, len(parts) == 3}
}

// unknownEpoch stands in where INFO is refused.
const unknownEpoch = "-"

// recall returns the node's life as it must be taken to be, now that it has told
// f. Its record is the one that the node ought to have. Everything that is
// uncertain makes the life shorter. now was read after the node's answer.
func (was life) recall(f *facts, now time.Time) life {
	is := life{epoch: f.epoch(), micros: f.micros, at: now}
	here := f.record
	known := here.epoch == is.epoch
	// The node's time may have been set since; into the future it means nothing.
	local := func(micros int64) time.Time {
		return now.Add(-time.Duration(max(0, f.micros-micros)) * time.Microsecond)
	}

	switch {
	case f.refused != "":
		// The record, and whether scripts are still there, can only tell that this is the
		// process that this Locker has met before. Others' records are left alone.
		is.since, is.doubt, is.record = now, doubtUnknown, here
		if !f.remembers || here == (record{}) {
			is.record = record{epoch: unknownEpoch, since: f.micros}
		} else if was.epoch == is.epoch && was.record.since == here.since {
			if is.since = was.since; was.leap != (leap{}) {
				is.since, is.doubt = now, was.leap.doubt()
			}
		}
		return is
	case f.promoted:
		is.since, is.doubt = now, doubtPromoted
		if known {
			is.since = local(here.since)
		}
	default:
		is.since, is.doubt = now.Add(-f.age()), doubtRestart
		if f.durable() {
			is.doubt = doubtUnproven
		}
		if written := local(here.since); known && written.After(is.since.Add(uptimeError)) {
			is.since, is.doubt = written, doubtNoted
		}
	}
	started := is.since

	carried := f.carries(was)
	if was.epoch != "" {
		is.outlive(was, here, known, carried)
	}
	is.durable = f.durable()
	is.record = record{is.epoch, f.micros - now.Sub(is.since).Microseconds(), f.durable()}
	switch {
	case known && (is.since.Equal(was.since) || !is.since.After(local(here.since).Add(2*uptimeError))), carried:
		// The same moment, measured when it was fresh. age takes off what the uptime may be wrong by, and that may be wrong
		// the other way: whoever wrote a later moment here would tell all others that the node was emptied.
		is.record.since = here.since
	case is.doubt == doubtUnproven && is.since.Equal(started) && here.durable && local(here.since).Before(started):
		is.record.since = here.since // left to those who knew the node: who did not goes by its uptime all the same
	}
	return is
}

// carries reports whether the life that this Locker knew reaches over a restart.
func (f *facts) carries(was life) bool {
	return f.trusted && !f.promoted && was.epoch != "" && was.epoch != f.epoch() && was.leap == (leap{}) &&
		f.durable() && f.record.durable && // the node says so now, and said so when the record was written
		was.durable && was.record.durable && was.record.since == f.record.since // and it is the record that we knew
}

// outlive corrects a life by what this Locker saw before.
func (is *life) outlive(was life, here record, known, carried bool) { //nolint:revive // was and is: the life before and the life now
	same := here.epoch == was.record.epoch && here.since == was.record.since
	noted := !same && known && here.since >= was.micros
	switch {
	case carried:
		is.since, is.doubt = was.since, was.doubt
	case was.leap != (leap{}) && !noted:
		// Dated by now and not by when it was noticed, so that who has looked meanwhile finds it newer than
		// what it saw, and takes it over.
		is.since, is.doubt = is.at, was.leap.doubt()
	case is.epoch != was.epoch:
		// Another life began after we had seen the last one, whatever the node's clock says
		// of its uptime.
		if is.since.Before(was.at) {
			is.since = was.at
		}
	case same:
		is.since, is.doubt = was.since, was.doubt // nothing has happened
	case noted:
		// It was emptied, or its clock set forward, and who noticed has dated that.
		if is.since.Before(was.since) {
			is.since = was.since
		}
	default:
		// The record is gone; or somebody has made another one who did not know that
		// there had been one.
		is.since, is.doubt = is.at, doubtEmptied
	}
}

// uptimeError bounds by how much INFO's uptime is wrong, either way: it is a
// difference of two readings of the node's wall clock, in whole seconds.
const uptimeError = time.Second

// age returns how long the node's process has run at least.
func (f *facts) age() time.Duration { return max(0, f.uptime-uptimeError) }

// abstention is why and until when a node's votes do not count.
type abstention struct {
	doubt doubt         // "": its clock is wrong
	since time.Time     // when doubt began
	until time.Time     // doubt: requests asked from then on count
	clock time.Duration // else: by how much its clock is ahead of the others
}

// abstains returns the abstention that a life calls for, or nil. It stays for a while when it is over: an answer to what was asked
// before may be on its way.
func (is life) abstains(o *options, now time.Time) *abstention { //nolint:revive,staticcheck // see outlive
	until := is.since.Add(o.guard)
	if o.guard <= 0 || is.epoch == "" || !now.Before(until.Add(o.connectTimeout())) {
		return nil
	}
	return &abstention{doubt: is.doubt, since: is.since, until: until}
}

// trust says which nodes' word on a question counts.
type trust uint8

// The trusts.
const (
	// trustOld: not an abstaining node's. This is for whatever gives a lock.
	trustOld trust = iota
	// trustOurs: also that of a node that restarted, since it says that the lock is ours there
	// now, and has been since before this round. Who extends a hold that is valid needs no
	// more: whoever comes later meets our key there, or a node that restarted once more.
	trustOurs
	// trustAll: nothing rests on it.
	trustAll
)

// over reports whether a request that was asked at that time is no longer concerned. It is the
// time of asking that counts: a vote that was given earlier does not grow better
// by arriving late.
func (a *abstention) over(asked time.Time) bool { return a.doubt != "" && !asked.Before(a.until) }

// apply turns a grant into an abstention where the question needs more trust.
func (a *abstention) apply(t trust, said *answer, now func() time.Time) {
	switch {
	case t == trustAll, t == trustOurs && a.doubt != "":
	case said.vote == voteGranted, said.vote == voteOutbid:
		said.vote, said.err = voteAbstained, a.tell(now())
	case said.vote == voteTaken:
		said.doubtful = true
	}
}
