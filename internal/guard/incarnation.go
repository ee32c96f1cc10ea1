package guard

import (
	"strconv"
	"strings"
	"time"
)

// incarnation is how this client last saw a node, and since when the node has forgotten nothing. It outlives
// connections: a mere network fault costs no wait.
type incarnation struct {
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
// difference of two readings of that clock, has grown by it, so that who meets the node later takes it for older than
// it is.
type leap struct {
	at time.Time // ours, when it was noticed; zero: there was none
	by time.Duration
}

func (s leap) doubt() doubt {
	by := s.by.Round(time.Millisecond).String()
	return doubt("had its clock set forward by " + by + ", noticed %s ago: keys expired early")
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
// A client that was told to trust its nodes, and knew the node with the same record before, takes it for proof.
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

// reconcile returns the node's incarnation as it must be taken to be, now that it has told said. Its record is the one
// that the node ought to have. Everything that is uncertain makes its memory shorter. now was read after the node's
// answer.
func (old incarnation) reconcile(said *Info, now time.Time) incarnation {
	next := incarnation{epoch: said.epoch(), micros: said.micros, at: now}
	here := said.record
	known := here.epoch == next.epoch
	// The node's time may have been set since; into the future it means nothing.
	local := func(micros int64) time.Time {
		return now.Add(-time.Duration(max(0, said.micros-micros)) * time.Microsecond)
	}

	switch {
	case said.Refused != "":
		// The record, and whether scripts are still there, can only tell that this is the
		// process that this client has met before. Others' records are left alone.
		next.since, next.doubt, next.record = now, doubtUnknown, here
		if !said.remembers || here == (record{}) {
			next.record = record{epoch: unknownEpoch, since: said.micros}
		} else if old.epoch == next.epoch && old.record.since == here.since {
			if next.since = old.since; old.leap != (leap{}) {
				next.since, next.doubt = now, old.leap.doubt()
			}
		}
		return next
	case said.Promoted:
		next.since, next.doubt = now, doubtPromoted
		if known {
			next.since = local(here.since)
		}
	default:
		next.since, next.doubt = now.Add(-said.age()), doubtRestart
		if said.durable() {
			next.doubt = doubtUnproven
		}
		if written := local(here.since); known && written.After(next.since.Add(uptimeError)) {
			next.since, next.doubt = written, doubtNoted
		}
	}
	started := next.since

	carried := said.carries(old)
	if old.epoch != "" {
		next.outlive(old, here, known, carried)
	}
	next.durable = said.durable()
	next.record = record{next.epoch, said.micros - now.Sub(next.since).Microseconds(), said.durable()}
	switch {
	case known && (next.since.Equal(old.since) || !next.since.After(local(here.since).Add(2*uptimeError))), carried:
		// The same moment, measured when it was fresh. age takes off what the uptime may be wrong by, and that may be wrong
		// the other way: whoever wrote a later moment here would tell all others that the node was emptied.
		next.record.since = here.since
	case next.doubt == doubtUnproven && next.since.Equal(started) && here.durable && local(here.since).Before(started):
		next.record.since = here.since // left to those who knew the node: who did not goes by its uptime all the same
	}
	return next
}

// carries reports whether the incarnation that this client knew reaches over a restart.
func (i *Info) carries(old incarnation) bool {
	return i.trusted && !i.Promoted && old.epoch != "" && old.epoch != i.epoch() && old.leap == (leap{}) &&
		i.durable() && i.record.durable && // the node says so now, and said so when the record was written
		old.durable && old.record.durable && old.record.since == i.record.since // and it is the record that we knew
}

// outlive corrects an incarnation by what this client saw before.
//
//nolint:revive,staticcheck // the receiver is what comes of it, and elsewhere what was
func (next *incarnation) outlive(old incarnation, here record, known, carried bool) {
	same := here.epoch == old.record.epoch && here.since == old.record.since
	noted := !same && known && here.since >= old.micros
	switch {
	case carried:
		next.since, next.doubt = old.since, old.doubt
	case old.leap != (leap{}) && !noted:
		// Dated by now and not by when it was noticed, so that who has looked meanwhile finds it newer than
		// what it saw, and takes it over.
		next.since, next.doubt = next.at, old.leap.doubt()
	case next.epoch != old.epoch:
		// Another incarnation began after we had seen the last one, whatever the node's clock says
		// of its uptime.
		if next.since.Before(old.at) {
			next.since = old.at
		}
	case same:
		next.since, next.doubt = old.since, old.doubt // nothing has happened
	case noted:
		// It was emptied, or its clock set forward, and who noticed has dated that.
		if next.since.Before(old.since) {
			next.since = old.since
		}
	default:
		// The record is gone; or somebody has made another one who did not know that
		// there had been one.
		next.since, next.doubt = next.at, doubtEmptied
	}
}

// uptimeError bounds by how much INFO's uptime is wrong, either way: it is a
// difference of two readings of the node's wall clock, in whole seconds.
const uptimeError = time.Second

// age returns how long the node's process has run at least.
func (i *Info) age() time.Duration { return max(0, i.Uptime-uptimeError) }
