package agreement

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

func TestNodeListsAsText(t *testing.T) {
	lists := quorum.NodeLists{
		{{ID: "2", Addr: "b:1"}, {Addr: "unix:///tmp/a b|c%20"}, {ID: "3", Addr: "d:1", Stale: true}},
		{{ID: "1", Addr: "a@x:1"}},
	}
	const want = "2@b:1 ?3@d:1 ?@unix:///tmp/a%20b%7Cc%2520|1@a@x:1"
	for life, want := range map[time.Duration]string{time.Minute: want, 8 * time.Minute: want + "|8"} {
		text := listsText(lists, life)
		if text != want {
			t.Errorf("got %q, want %q", text, want)
		}
		parsed, lives := parseNodeLists(text)
		if lives != life || listsText(parsed, lives) != text || parsed[0][2].Addr != "unix:///tmp/a b|c%20" {
			t.Errorf("parsed: %v, %v", parsed, lives)
		}
	}
	for _, bad := range []string{
		"", "|", "x", "@a", "1@", "1@a||2@b", "1@a|2@b|3@c", "8", "1@a|1", "1@a|61", "1@a|8|2@b", "1@a|8|8",
	} {
		if l, _ := parseNodeLists(bad); l != nil {
			t.Errorf("%q was parsed as %v", bad, l)
		}
	}
}

// What was found of other lists is found anew when more is known of the own nodes.
func TestAVerdictFollowsTheIdentities(t *testing.T) {
	const unmet, met = "?@other-n1 ?@other-n2 a@n0", "a@n0 b@other-n1 c@other-n2"
	for _, order := range [][2]string{{unmet, met}, {met, unmet}} {
		used := (&listsCache{of: make(map[string]func() *usedLists)}).read([]string{"a@n0 b@n1 c@n2"})
		for _, own := range order {
			if v := used.judge(knownLists.read([]string{own})); (v.conflicts != nil) != (own == unmet) {
				t.Errorf("%s after %s: conflict with %v", own, order[0], v.conflicts)
			}
		}
	}
}

// What all nodes say at one moment is parsed once.
func TestListsAreParsedOnce(t *testing.T) {
	for round := range 50 {
		known := listsCache{of: make(map[string]func() *usedLists)}
		texts := make([]string, 100)
		for i := range texts {
			texts[i] = fmt.Sprintf("%d.%d@a:1 2@b:1 3@c:1", round, i)
		}
		read := make([]*usedLists, 8)
		var all sync.WaitGroup
		for i := range read {
			all.Go(func() { read[i] = known.read(texts) })
		}
		all.Wait()
		for _, r := range read {
			if r != read[0] || r != known.find(r.digest) {
				t.Fatal("parsed twice")
			}
		}
	}
}
