package guard

import (
	"strings"
	"testing"
	"time"
)

// Between reading the node record and writing it somebody else may have noticed what we have not.
func TestWhoWasFasterWithTheRecordKnowsBetter(t *testing.T) {
	now := time.Unix(1_766_620_800, 0)
	said := &Info{Role: "master", replID: strings.Repeat("a", 40), Uptime: time.Hour, micros: now.UnixMicro()}
	next := incarnation{}.reconcile(said, now)
	theirs := record{next.epoch, said.micros - (5 * time.Second).Microseconds(), false}
	g := New(Rules{}, time.Now, nil)
	asked := 0
	next, err := g.keepRecord(said, incarnation{}, next, func(...[]any) ([]any, error) {
		asked++
		return []any{[]byte(theirs.String())}, nil
	})
	if err != nil || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	if got := now.Sub(next.since); got != 5*time.Second || next.record != theirs || next.doubt != doubtNoted {
		t.Errorf("got an age of %v (%s), record %s; want theirs", got, next.doubt, next.record)
	}
}

// What was learnt over an earlier connection, and comes late, changes nothing.
func TestWhatWasLearntBeforeIsNotBelieved(t *testing.T) {
	now := time.Unix(1_766_620_800, 0)
	said := &Info{Role: "master", replID: strings.Repeat("a", 40), Uptime: time.Hour, micros: now.UnixMicro()}
	g := New(Rules{}, time.Now, nil)
	g.known = incarnation{epoch: strings.Repeat("b", 16), at: now, since: now}
	known := g.known
	err := g.learnt(said, now.Add(-time.Millisecond), true, func(...[]any) ([]any, error) {
		t.Error("the record is written anew")
		return []any{[]byte("")}, nil
	})
	if err != nil || g.known != known || g.info != nil {
		t.Errorf("got %v, %+v, want what was known before: %+v", err, g.known, known)
	}
}
