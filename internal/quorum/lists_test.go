package quorum

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// For all pairs of lists of up to five of seven nodes, majoritiesMeet says what trying all majorities finds. If some do
// not meet, one client can work without those nodes on which the other was first, or the other without the rest.
func TestMajoritiesMeetExhaustively(t *testing.T) {
	majorities := make(map[Set][]Set)
	for list := Set(1); list < 1<<7; list++ {
		if list.Size() > 5 {
			continue
		}
		for sub := list; sub > 0; sub = (sub - 1) & list {
			if sub.Size() == Majority(list.Size()) {
				majorities[list] = append(majorities[list], sub)
			}
		}
	}
	listed := func(s Set) (list []ListedNode) {
		for i := range 7 {
			if s.Has(i) {
				list = append(list, ListedNode{ID: strconv.Itoa(i)})
			}
		}
		return list
	}
	pairs := 0
	for a, ofA := range majorities {
		for b, ofB := range majorities {
			want := true
			for _, m := range ofA {
				for _, n := range ofB {
					want = want && m&n != 0
				}
			}
			pairs++
			if got := majoritiesMeet(a.Size(), b.Size(), bits.OnesCount32(uint32(a&b))); got != want {
				t.Fatalf("%b and %b: got %t, want %t", a, b, got, want)
			}
			// At each node one of two clients is first, and does not learn there of the other.
			for first := a & b; !want && a < b; first = (first - 1) & (a & b) {
				if !(NodeLists{listed(b)}).MayWork(listed(first)) && !(NodeLists{listed(a)}).MayWork(listed(a&b&^first)) {
					t.Fatalf("%b, first on %b, and %b: each finds that the other cannot work", a, first, b)
				}
				if first == 0 {
					break
				}
			}
		}
	}
	t.Logf("%d pairs of lists", pairs)
}

func TestWhichListsExcludeEachOther(t *testing.T) {
	lists := func(text string) (l NodeLists) {
		for part := range strings.SplitSeq(text, "+") {
			var list []ListedNode
			for word := range strings.FieldsSeq(part) {
				id, addr, _ := strings.Cut(word, "@")
				id, stale := strings.CutPrefix(id, "?")
				list = append(list, ListedNode{id, addr, stale && id != ""})
			}
			l = append(l, list)
		}
		return l
	}
	for at, cells := range cases.Rows(t, "testdata/lists.txt", 3) {
		wantExclusion(t, at, lists(cells[0]), lists(cells[1]), cells[2])
	}
}

// wantExclusion compares the lists in both orders.
func wantExclusion(t *testing.T, at string, ours, theirs NodeLists, want string) {
	t.Helper()
	for _, pair := range [][2]NodeLists{{ours, theirs}, {theirs, ours}} {
		got := map[[2]bool]string{{true, true}: "exclude", {true, false}: "lately", {false, false}: "conflict"}[[2]bool{
			pair[0].AllStale().Exclude(pair[1]), pair[0].Exclude(pair[1]),
		}]
		cases.Equals(t, got, want, "%s: %v beside %v", at, pair[0], pair[1])
	}
	// A Locker may have to compare a hundred when it opens.
	each := testing.AllocsPerRun(1, func() { ours.Exclude(theirs) }) / float64(len(ours)*len(theirs))
	if each > 2 {
		t.Errorf("%s: %v beside %v: %v allocations for each two lists, want 2", at, ours, theirs, each)
	}
}

// Clients that reach the same nodes by any permutation of the addresses exclude each other, also if one node is down,
// so that one of them or both have not met it, and if it has lost its data.
func TestPermutedAddressesAreNoConflict(t *testing.T) {
	for _, size := range []int{3, 4, 5} {
		order := make([]int, size)
		for i := range order {
			order[i] = i
		}
		var permute func(k int)
		permute = func(k int) {
			if k < size {
				for i := k; i < size; i++ {
					order[k], order[i] = order[i], order[k]
					permute(k + 1)
					order[k], order[i] = order[i], order[k]
				}
				return
			}
			lists := func(down int, id string, addr func(i int) int) NodeLists {
				var list []ListedNode
				for i := range size {
					n := ListedNode{ID: strconv.Itoa(i), Addr: fmt.Sprint("n", addr(i))}
					if i == down {
						n.ID = id
					}
					list = append(list, n)
				}
				return NodeLists{list}
			}
			same, other := func(i int) int { return i }, func(i int) int { return order[i] }
			wantExclusion(t, "all", lists(-1, "", same), lists(-1, "", other), "exclude")
			emptied := map[bool]string{true: "exclude", false: "lately"}[size == 4] // four may lack one
			for down := range size {
				for _, ids := range [][2]string{{"", "9"}, {"9", ""}, {"", ""}} {
					wantExclusion(t, "down", lists(down, ids[0], same), lists(down, ids[1], other), "exclude")
				}
				wantExclusion(t, "emptied", lists(down, "8", same), lists(down, "9", other), emptied)
			}
		}
		permute(0)
	}
}
