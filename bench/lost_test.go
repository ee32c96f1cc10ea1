package main

import (
	"maps"
	"math"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// Three processes, of which one after the other is frozen, on real masters: where the store checks tokens, no update is
// lost, whatever the machine does. What needs etcd or ZooKeeper is left to make consensus: building one and installing
// the other would cost continuous integration more than all of this module.
func TestNoUpdateIsLostWhereTheStoreChecksTokens(t *testing.T) {
	sc := cases.Must(choose("lost-updates", "redlock,SET NX"))(t)[0]
	sc.longer, sc.rounds = 1, 1
	b := &bench{editTTL: 300 * time.Millisecond, length: 3 * time.Second}
	one, err := b.run(sc)
	if err != nil {
		t.Fatal(err)
	}
	cases.Equals(t, len(one.Rows), 3, "contestants")
	for _, r := range one.Rows {
		t.Log(r.lock, r.figures)
		if r.figures[updates]+r.figures[rejected] == 0 || r.figures[pauses] == 0 {
			t.Errorf("%s: got %v, which shows nothing", r.lock, r.figures)
		}
		if checked(r.lock) && (r.figures[lost] != 0 || r.figures[overwrote] != 0) {
			t.Errorf("%s: %v updates are lost, %v writes were late", r.lock, r.figures[lost], r.figures[overwrote])
		}
		if r.figures[overwrote] == 0 && r.figures[lost] != 0 {
			t.Errorf("%s: %v updates are lost, and nobody has overwritten them", r.lock, r.figures[lost])
		}
	}
}

func TestTheJudgeOfLostUpdates(t *testing.T) {
	var all tally
	for _, one := range []tally{{Updates: 3, Overwrote: 1}, {Updates: 4, Rejected: 2, Unknown: 1}} {
		all.add(one)
	}
	for number, want := range map[int]float64{7: 0, 5: 2, 8: 0 /* the unknown one is in it */} {
		figures := map[string]float64{updates: 7, rejected: 2, overwrote: 1, failed: 1, lost: want}
		if got := all.judge(number); !maps.Equal(got, figures) {
			t.Errorf("with %d in the end: got %v, want %v", number, got, figures)
		}
	}
}

// An editor that writes what another has written meanwhile says so, and one whose store knows a later holder is
// refused, at its read or at its write.
func TestAnEditorThatIsLate(t *testing.T) {
	servers := cases.Must(startServers(1, redisserver.Config{}))(t)
	t.Cleanup(func() { stopServers(servers) })
	for name, fenced := range map[string]int64{"fenced": 1, "unfenced": 0} {
		open := func() *editor {
			s := cases.Must(redisStore(servers[0].Addr(), name))(t)
			t.Cleanup(s.close)
			return &editor{store: s}
		}
		first, second := open(), open()
		var late, other, again tally
		first.update(fenced, func() { second.update(2*fenced, func() {}, &other) }, &late)
		cases.Equals(t, other, tally{Updates: 1}, "%s: the later holder", name)
		first.update(fenced, func() {}, &again)
		if fenced > 0 {
			cases.Equals(t, late, tally{Rejected: 1}, "a late write")
			cases.Equals(t, again, tally{Rejected: 1}, "a late read")
		} else {
			cases.Equals(t, late, tally{Updates: 1, Overwrote: 1}, "a late write that nobody refuses")
		}
		want := int(2 - fenced) // the late write undid one update
		cases.Equals(t, cases.Must(first.read(t.Context(), math.MaxInt64))(t), want, "%s: the number", name)
	}
}
