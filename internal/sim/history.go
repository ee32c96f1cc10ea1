package sim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// End says how a hold ended.
type End uint8

// The ends of a hold. One that is still open ends with its validity.
const (
	Open     End = iota
	Released     // the holder let go
	Lost         // the holder was told that it is over
)

func (e End) String() string { return [...]string{"open", "released", "lost"}[e] }

// A Hold is one acquisition as its holder saw it. All instants are true (virtual) time.
type Hold struct {
	Name   string
	Client string
	Token  int64 // 0: without fencing
	Reads  bool  // shared with others that read

	Start   time.Time // before the first request of the winning attempt was sent
	Granted time.Time // when Lock returned: from here on the holder trusts it
	Until   time.Time // the last end of validity that the holder was shown
	Ended   time.Time // when the holder asked for release, or Done was closed, whichever was first; zero while open
	Works   time.Time // until when it is kept for work that goes on after its end; zero: there was none
	Revoked time.Time // when somebody set about taking it from the holder, who does not know; zero: nobody did
	How     End
	id      int
}

// over returns the instant from which the holder does not trust the hold any more.
func (h *Hold) over() time.Time {
	if !h.Ended.IsZero() && h.Ended.Before(h.Until) {
		return h.Ended
	}
	return h.Until
}

// excludes returns the instant from which the hold excludes others no more: later than its end, if its work goes on.
// Nobody promises it of a hold that is taken away, though its holder trusts it until it learns of that.
func (h *Hold) excludes() time.Time {
	last := h.over()
	if h.Works.After(last) {
		last = h.Works
	}
	if h.Revoked.IsZero() || last.Before(h.Revoked) {
		return last
	}
	return h.Revoked
}

func (h *Hold) String() string {
	what := fmt.Sprintf("token %d", h.Token)
	if h.Reads {
		what = "to read"
	}
	return fmt.Sprintf("%s by %s %s [sent %s, granted %s, until %s, %s %s]", h.Name, h.Client, what, clockTime(h.Start),
		clockTime(h.Granted), clockTime(h.Until), h.How, clockTime(h.over()))
}

// bubbleEpoch is where virtual time begins in a synctest bubble; instants are shown relative to it.
var bubbleEpoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func clockTime(t time.Time) string { return t.Sub(bubbleEpoch).String() }

// A History records holds. Its methods may be called from any goroutine.
type History struct {
	mu         sync.Mutex // protects the following fields
	holds      []*Hold
	violations []Violation // seen while recording: honesty
}

// HistoryOf returns a history that was recorded elsewhere.
func HistoryOf(holds []*Hold) *History {
	for i, h := range holds {
		h.id = i
	}
	return &History{holds: holds}
}

// A Violation is a broken invariant.
type Violation struct {
	Invariant string // exclusion, order, uniqueness, honesty, clean, progress
	Text      string
}

func (v Violation) String() string { return v.Invariant + ": " + v.Text }

// Granted records a hold at the moment of the call.
func (h *History) Granted(name, client string, token int64, start, until time.Time) *Hold {
	return h.grant(Hold{Name: name, Client: client, Token: token, Start: start, Until: until})
}

// GrantedToRead records a hold that may be shared.
func (h *History) GrantedToRead(name, client string, start, until time.Time) *Hold {
	return h.grant(Hold{Name: name, Client: client, Reads: true, Start: start, Until: until})
}

func (h *History) grant(given Hold) *Hold {
	now, hold := time.Now(), &given
	h.mu.Lock()
	defer h.mu.Unlock()
	hold.Granted, hold.id = now, len(h.holds)
	h.holds = append(h.holds, hold)
	if !now.Before(hold.Until) {
		h.dishonest("granted when its validity was over: %s", hold)
	}
	return hold
}

// Extended records that the holder was told so, with the new end of validity.
func (h *History) Extended(hold *Hold, until time.Time) {
	now := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !hold.Ended.IsZero():
		h.dishonest("extend reported success at %s for a hold that was over: %s", clockTime(now), hold)
	case !now.Before(until):
		h.dishonest("extend at %s to %s reported success when that was over: %s", clockTime(now), clockTime(until), hold)
	case until.After(hold.Until):
		hold.Until = until
	}
}

// Renewed records the end of validity that the holder is shown, without judging: renewals happen by themselves. Call it
// before Releasing and when Done is closed.
func (h *History) Renewed(hold *Hold, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if hold.Ended.IsZero() && until.After(hold.Until) {
		hold.Until = until
	}
}

// Releasing records that the holder asks for release: it trusts the hold no longer. It must have been told of an end
// before.
func (h *History) Releasing(hold *Hold) { h.leave(hold, Released) }

// WorkedOn records that work went on after the holder was told of the end, and until when the hold was to be kept for
// it.
func (h *History) WorkedOn(hold *Hold, until time.Time) { h.note(func() { hold.Works = until }) }

// Unlocked records the outcome of a release that was asked for at the given instant.
func (h *History) Unlocked(hold *Hold, asked time.Time, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil && !asked.Before(hold.Until) {
		h.dishonest("unlock at %s reported success for a hold that was over: %s", clockTime(asked), hold)
	}
}

// Revoked records that somebody sets about taking the hold from its holder.
func (h *History) Revoked(hold *Hold) { h.note(func() { hold.Revoked = time.Now() }) }

func (h *History) note(what func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what()
}

// Done records that the holder's Done was closed.
func (h *History) Done(hold *Hold) { h.leave(hold, Lost) }

func (h *History) leave(hold *Hold, how End) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if !hold.Ended.IsZero() {
		return
	}
	if now.After(hold.Until) {
		h.dishonest("not told of its end before %s: %s", clockTime(now), hold)
	}
	hold.Ended, hold.How = now, how
}

// dishonest records a violation. Caller holds mu.
func (h *History) dishonest(format string, args ...any) {
	h.violations = append(h.violations, Violation{"honesty", fmt.Sprintf(format, args...)})
}

// Holds returns copies of the holds in the order of their granting; ties by token, so that a trace does not depend on
// the scheduler.
func (h *History) Holds() []Hold {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := make([]Hold, len(h.holds))
	for i, x := range h.holds {
		out[i] = *x
	}
	slices.SortStableFunc(out, func(a, b Hold) int {
		return cmp.Or(a.Granted.Compare(b.Granted), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Client, b.Client))
	})
	return out
}
