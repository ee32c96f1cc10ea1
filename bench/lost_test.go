package main

import (
	"maps"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// Three processes, of which one after the other is frozen, on real masters: where the store checks tokens, no update is
// lost, whatever the machine does. What needs etcd or ZooKeeper is left to make consensus: building one and installing
// the other would cost continuous integration more than all of this module.
func TestNoUpdateIsLostWhereTheStoreChecksTokens(t *testing.T) {
	sc := choose("lost-updates", "redlock,SET NX")[0]
	sc.longer, sc.rounds = 1, 1
	b := &bench{editTTL: 300 * time.Millisecond, length: 3 * time.Second}
	one := b.run(sc)
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
	for number, want := range map[int]float64{7: 0, 5: 2, 8: 0 /* one that failed is in it */} {
		all := tally{updates: 7, failed: 1}
		all.judge(number)
		cases.Equals(t, all[lost], want, "with %d in the end", number)
	}
}

// An editor that writes what another has written meanwhile says so, and one whose store knows a later holder is
// refused, at its read or at its write.
func TestAnEditorThatIsLate(t *testing.T) {
	servers := startServers(1, redisserver.Config{})
	t.Cleanup(func() { stopServers(servers) })
	for name, fenced := range map[string]int64{"fenced": 1, "unfenced": 0} {
		open := func() *editor {
			s := redisStore(servers[0].Addr(), name)
			t.Cleanup(s.close)
			return &editor{store: s}
		}
		first, second := open(), open()
		late, other, again := tally{}, tally{}, tally{}
		first.update(fenced, func() { second.update(2*fenced, func() {}, other) }, late)
		want := func(what string, got, want tally) {
			if !maps.Equal(got, want) {
				t.Errorf("%s, %s: got %v, want %v", name, what, got, want)
			}
		}
		want("the later holder", other, tally{updates: 1})
		first.update(fenced, func() {}, again)
		if fenced > 0 {
			want("a late write", late, tally{rejected: 1})
			want("a late read", again, tally{rejected: 1})
		} else {
			want("a late write that nobody refuses", late, tally{updates: 1, overwrote: 1})
		}
		// The late write undid one update.
		cases.Equals(t, cases.Must(first.read(t.Context(), 0))(t), int(2-fenced), "%s: the number", name)
	}
}
