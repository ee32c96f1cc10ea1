package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/printable"
	"github.com/quorumlock/redlock/internal/quorum"
)

// eventLog writes events to the log. When many holds fail, most of them because a majority of the nodes is gone, it
// writes a line for each of the first, and then sums up: a log that buries its reader helps nobody. At level Debug it
// writes a line for each event all the same. Nodes' problems are logged with their findings: see look.
//
// Only the goroutine of events uses it, but for ending. A nil *eventLog logs nothing; see and next accept it.
type eventLog struct {
	logger     *slog.Logger
	clock      clock
	nodes      []voter // set before the first event, as is the electorate
	electorate *quorum.Electorate
	ending     atomic.Bool // the Locker is being closed

	since     time.Time // since when there is no majority, if the log has said so
	isSettled bool      // the first attempts to connect have ended

	findings map[voter]string // the codes and severities of those that were logged last

	notRenewed, lost, notUnlocked, atMaximum digest
}

// voter is a node, as the log sees it.
type voter interface {
	addr() string
	vote(now time.Time) (whyNot error)
	// findings returns what is found at the node; settled is false if that is about to change.
	findings() (found []finding.Finding, settled bool)
}

func newEventLog(logger *slog.Logger, c clock) *eventLog {
	return &eventLog{
		logger: logger, clock: c, findings: make(map[voter]string),
		// A renewal is tried again and again, so one line is enough, and a pause between two tries is no calm.
		notRenewed:  digest{level: slog.LevelWarn, inFull: 1, calm: 10 * time.Second},
		lost:        digest{level: slog.LevelError, inFull: 3, calm: firstPace},
		notUnlocked: digest{level: slog.LevelWarn, inFull: 3, calm: firstPace},
		atMaximum:   digest{level: slog.LevelInfo, inFull: 3, calm: firstPace}, // a candidate's term may well end so
	}
}

// see logs an event, or takes it down to be summed up.
func (l *eventLog) see(ev *Event) {
	if l == nil {
		return
	}
	l.flush(ev.Time) // here too, since the queue may never be empty
	l.noteDropped(ev.Dropped)
	level, of := slog.LevelDebug, (*digest)(nil)
	switch ev.Kind {
	case EventClock:
		return
	case eventSettled:
		l.isSettled = true
		l.countVotes(ev.Time)
		return
	case EventRenew:
		if ev.Err != nil {
			of = &l.notRenewed
		} else {
			delete(l.notRenewed.holds, ev.Owner)
		}
	case EventEnd:
		delete(l.notRenewed.holds, ev.Owner)
		switch {
		case errors.Is(ev.Err, ErrLost):
			of = &l.lost
		case errors.As(ev.Err, new(*QuorumError)):
			of = &l.notUnlocked
		case errors.Is(ev.Err, ErrMaxHold):
			of = &l.atMaximum
		}
	case EventNode:
		if ev.Err == nil {
			level = slog.LevelInfo
		}
	default:
	}
	if of != nil && of.admit(ev) {
		level = of.level
	}
	l.write(ev, level)
	if ev.Kind == EventNode {
		l.countVotes(ev.Time)
	}
}

// look logs the findings about a node if they have changed.
func (l *eventLog) look(n voter) {
	found, settled := n.findings()
	if !settled {
		return
	}
	var codes strings.Builder
	for _, f := range found {
		fmt.Fprintln(&codes, f.Code, f.Severity)
	}
	if codes.String() == l.findings[n] {
		return
	}
	l.findings[n] = codes.String()
	for _, f := range found {
		if f.Severity > finding.Note {
			write := l.logger.Warn
			if f.Severity == finding.Unsafe {
				write = l.logger.Error
			}
			write("node: "+f.Text, "node", n.addr(), "finding", f.Code, "remedy", f.Remedy)
		}
	}
}

// noteDropped says that events were dropped, since holds may have been lost among them.
func (l *eventLog) noteDropped(events int) {
	if events > 0 {
		l.logger.Warn("the observer is slow: events were dropped, so the log lacks them, too", "events", events)
	}
}

// write writes an event's own line.
func (l *eventLog) write(ev *Event, level slog.Level) {
	ctx := cmp.Or(ev.Context, context.Background())
	if !l.logger.Enabled(ctx, level) {
		return
	}
	var attrs []slog.Attr
	if ev.Node != "" {
		attrs = append(attrs, slog.String("node", ev.Node))
	} else {
		attrs = append(attrs, slog.String("name", logged(ev.Name)))
	}
	if ev.Token != 0 {
		attrs = append(attrs, slog.Int64("token", ev.Token))
	}
	if ev.Duration != 0 {
		attrs = append(attrs, slog.Duration("duration", ev.Duration))
	}
	if ev.Err != nil {
		attrs = append(attrs, slog.Any("error", ev.Err))
	}
	l.logger.LogAttrs(ctx, level, ev.inWords(), attrs...)
}

// inWords says what has happened.
func (ev *Event) inWords() string {
	words := cmp.Or(kindInWords[ev.Kind], ev.Kind)
	switch {
	case ev.Kind == EventNode:
		return "node " + stateOf(ev.Err)
	case ev.Kind == EventEnd && errors.Is(ev.Err, ErrLost):
		return "lost"
	case ev.Kind == EventEnd && errors.Is(ev.Err, ErrMaxHold):
		return "at its maximum"
	case ev.endsWait():
		return "waited"
	case ev.Err != nil && (ev.Kind == EventAcquire || ev.Kind == EventRenew):
		return "not " + words
	default:
		return words
	}
}

var kindInWords = map[string]string{
	EventAcquire: "acquired", EventRenew: "renewed", EventRepair: "repaired", EventEnd: "released", EventWait: "waiting",
}

// countVotes says when the majority is lost, and when it is there again. It asks the nodes and does not count events,
// since these may lag behind: New returns while the last nodes are being announced. Until the first attempts to connect
// have ended nothing is lost, and a node that has not been tried says nothing.
func (l *eventLog) countVotes(now time.Time) {
	if l.ending.Load() || !l.isSettled {
		return
	}
	votes, missing := quorum.Set(0), []string(nil)
	for i, n := range l.nodes {
		if why := n.vote(now); why == nil {
			votes = votes.With(i)
		} else {
			missing = append(missing, n.addr()+": "+printable.Beginning(unwrapDown(why), maxReason))
		}
	}
	if l.ending.Load() {
		return // again: what was read may be the end of the connections
	}
	size, need, granted := l.electorate.Worst(votes)
	attrs := []any{"votes", granted, "nodes", size, "needed", need}
	switch there := l.electorate.Suffice(votes); {
	case there && !l.since.IsZero():
		l.flushAll(now)
		l.logger.Info("majority again", append(attrs, "after", now.Sub(l.since))...)
		l.since = time.Time{}
	case !there && l.since.IsZero(): // that it is there from the start, the nodes' lines say
		l.logger.Warn("no majority: nobody can lock", append(attrs, "missing", strings.Join(missing, "; "))...)
		l.since = now
	}
}

// next returns when flush is due, if anything is pending.
func (l *eventLog) next() (in time.Duration, pending bool) {
	if l == nil {
		return 0, false
	}
	var due time.Time
	for _, d := range l.digests() {
		if d.pace > 0 && (due.IsZero() || d.due.Before(due)) {
			due = d.due
		}
	}
	return due.Sub(l.clock.local()), !due.IsZero()
}

func (l *eventLog) digests() [4]*digest {
	return [4]*digest{&l.notRenewed, &l.lost, &l.notUnlocked, &l.atMaximum}
}

// flush writes the sums that are due.
func (l *eventLog) flush(now time.Time) {
	for _, d := range l.digests() {
		if d.pace > 0 && !now.Before(d.due) {
			l.sumUp(d, now)
			d.turn(now)
		}
	}
}

// flushAll writes all sums. What comes next is logged in full again.
func (l *eventLog) flushAll(now time.Time) {
	for _, d := range l.digests() {
		l.sumUp(d, now)
		d.end()
	}
}

// sumUp writes one line for all holds of a digest, if there are any.
func (l *eventLog) sumUp(d *digest, now time.Time) {
	ctx := context.Background()
	if len(d.holds) == 0 || !l.logger.Enabled(ctx, d.level) {
		return
	}
	text := ""
	switch holds, nodes := d.inWords(), l.downInWords(now); d {
	case &l.notRenewed:
		text = "not renewed: " + holds + nodes
		first := slices.MinFunc(slices.Collect(maps.Values(d.holds)), time.Time.Compare)
		if left := first.Sub(now); left > 0 {
			text += ", first ends in " + brief(left)
		}
	case &l.lost:
		text = "lost: " + holds + nodes
	case &l.atMaximum:
		text = "at their maximum: " + holds
	case &l.notUnlocked:
		text = "not unlocked: " + holds + nodes + ": nodes may keep them for the rest of the TTL"
	}
	l.logger.Log(ctx, d.level, text, "holds", len(d.holds), "names", d.names)
}

// inWords says how many holds there are.
func (d *digest) inWords() string {
	more, holds := "", "holds"
	if d.inFull > 1 {
		more = "more " // than those that were logged in full
	}
	if len(d.holds) == 1 {
		holds = "hold"
	}
	return fmt.Sprintf("%d %s%s", len(d.holds), more, holds)
}

// downInWords says how many nodes are down; "": none is.
func (l *eventLog) downInWords(now time.Time) string {
	down := 0
	for _, n := range l.nodes {
		if stateOf(n.vote(now)) == "down" {
			down++
		}
	}
	if down == 0 || l.ending.Load() {
		return ""
	}
	return fmt.Sprintf(", %d of %d nodes down", down, len(l.nodes))
}

const (
	firstPace = time.Second      // until the first sum; each further pause is twice the one before
	lastPace  = 30 * time.Second // the longest
	sumNames  = 5                // how many names are in the line of a sum, at most
	maxReason = 100              // bytes of what is said of each node that is missing for a majority
)

// digest sums up failures of one kind. The first are logged in full, and at once.
type digest struct {
	level  slog.Level
	inFull int           // how many are logged in full
	calm   time.Duration // after so long without a failure, the next is logged in full again

	pace  time.Duration        // between the last line and the next; 0: there was no failure for a while
	due   time.Time            // when the next line is due
	last  time.Time            // when the last failure came
	full  int                  // how many were logged in full
	holds map[string]time.Time // those that failed since the last line, by owner, and when they end
	names []string             // of the first of them
}

// admit reports whether a failure is to be logged in full. If not, it goes into the next sum.
func (d *digest) admit(ev *Event) bool {
	if d.pace == 0 {
		d.pace, d.due = firstPace, ev.Time.Add(firstPace)
	}
	d.last = ev.Time
	if d.full < d.inFull {
		d.full++
		return true
	}
	if d.holds == nil {
		d.holds = make(map[string]time.Time)
	}
	if _, known := d.holds[ev.Owner]; !known && len(d.names) < sumNames {
		d.names = append(d.names, logged(ev.Name))
	}
	d.holds[ev.Owner] = ev.Until
	return false
}

// turn begins the time until the next sum.
func (d *digest) turn(now time.Time) {
	switch empty := len(d.holds) == 0; {
	case empty && now.Sub(d.last) >= d.calm:
		d.end()
	case empty:
		d.due = d.last.Add(d.calm)
	default:
		d.pace = min(2*d.pace, lastPace)
		d.due = now.Add(d.pace)
	}
	d.holds, d.names = nil, nil
}

// end ends the sums: the next failure is logged in full.
func (d *digest) end() { d.pace, d.full, d.holds, d.names = 0, 0, nil, nil }
