package redlock

import (
	"strings"
	"testing"
	"time"
)

// Between reading the node record and writing it somebody else may have noticed what we have not.
func TestWhoWasFasterWithTheRecordKnowsBetter(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		n := fl.locker("a").nodes[0]
		now := time.Now()
		micros := now.UnixMicro()
		f := facts{role: "master", replID: strings.Repeat("a", 40), uptime: time.Hour, micros: micros}
		is := life{}.recall(&f, now)
		theirs := record{is.epoch, micros - (5 * time.Second).Microseconds(), false}
		asked := 0
		is, err := n.keepRecord(&f, life{}, is, func(*kind, *question) (any, error) {
			asked++
			return []byte(theirs.String()), nil
		})
		if err != nil || asked != 1 {
			t.Errorf("asked %d times, %v", asked, err)
		}
		if got := now.Sub(is.since); got != 5*time.Second || is.record != theirs || is.doubt != doubtNoted {
			t.Errorf("got an age of %v (%s), record %s; want theirs", got, is.doubt, is.record)
		}
	})
}

// What was learnt over an earlier connection, and comes late, changes nothing.
func TestWhatWasLearntBeforeIsNotBelieved(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		n := fl.locker("a").nodes[0]
		time.Sleep(time.Second)
		known := n.standing.life
		f := facts{role: "master", replID: strings.Repeat("a", 40), uptime: time.Hour, micros: time.Now().UnixMicro()}
		err := n.learnt(&f, known.at.Add(-time.Millisecond), true, func(*kind, *question) (any, error) {
			t.Error("the record is written anew")
			return []byte(""), nil
		})
		if err != nil || n.standing.life != known || n.standing.facts == &f {
			t.Errorf("got %v, %+v, want what was known before: %+v", err, n.standing.life, known)
		}
	})
}
