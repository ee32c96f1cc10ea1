package guard

import "time"

// newcomer returns until when a client that meets the node now would not count its votes. of is what this client knows
// of the node; said is what the node said at a time before now.
//
// That may be later than for this client, which may have seen the node start: the uptime is in whole seconds, and one
// may be an error. So a client that was there at the start counts votes up to a second before one that comes then.
//
// dated is false if it would be no answer, since each client counts the votes when it has known the node for long
// enough itself. A client that comes now never does at once; what matters to those that are there is their own date.
func newcomer(said *Info, of incarnation, at, now time.Time) (until time.Time, dated bool) {
	atLeast := said.Uptime + now.Sub(at).Truncate(time.Second)
	current := of.record.epoch == of.epoch
	written := said.ourTime(of.record.since, at)
	switch {
	case said.Refused != "":
		return time.Time{}, false
	case said.Promoted, atLeast < -uptimeError:
		return written.Add(said.period), current
	case said.trusted && said.durable() && of.since.Before(at.Add(-said.Uptime-uptimeError)):
		return time.Time{}, false // its data has survived a restart, which only those know that knew it before
	}
	left := max(0, said.period+uptimeError-said.Uptime)
	until = at.Add((left + time.Second - 1).Truncate(time.Second)) // rounded up
	if current && written.After(at.Add(uptimeError-said.Uptime)) { // see reasonNoted
		until = later(until, written.Add(said.period))
	}
	return until, true
}

// Newcomer returns why and until when the node's votes do not count for a client that meets it now, or for this one; or
// nil. A node that is said to vote by this answer votes for both.
func (g *Guard) Newcomer(now time.Time) *Abstention {
	own := g.Abstention()
	if own != nil && own.Over(now) {
		own = nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.rules.Period <= 0 || g.info == nil || g.known.epoch == "" || own != nil && own.Until.IsZero() {
		return own
	}
	until, dated := newcomer(g.info, g.known, g.at, now)
	if !dated || !now.Before(until) || own != nil && !own.Until.Before(until) {
		return own
	}
	why := Abstention{Until: until, reason: g.known.reason, since: g.known.since}
	if own != nil {
		why.reason, why.since = own.reason, own.since
	}
	return &why
}
