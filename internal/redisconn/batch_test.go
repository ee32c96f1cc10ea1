package redisconn

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"testing"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/resp"
)

var seed = maphash.MakeSeed()

// The commands of the tests. Each request's argument is its number.
var (
	first   = &Command{Script: lua.New("return 1"), Args: numbers}
	second  = &Command{Script: lua.New("return 2"), Args: numbers}
	third   = &Command{Script: lua.New("return 3"), Args: numbers, ExtraKey: true}
	undo    = &Command{Script: lua.New("return 'undo'"), Args: numbers, Undo: true}
	another = &Command{Script: lua.New("return 'another'"), Args: numbers, Undo: true}
	urgent  = &Command{Script: lua.New("return 'urgent'"), Args: numbers, Urgent: true}
	spare   = &Command{Script: lua.New("return 'spare'"), Args: numbers, Undo: true, BestEffort: true}
)

func numbers(all []*Request, e *resp.Encoder) {
	for _, r := range all {
		e.Arg(fmt.Sprint("#", r.Node))
	}
}

// about makes a request about keys.
func about(k *Command, keys ...string) *Request {
	m := &Message{Command: k}
	for _, key := range keys {
		m.Hashes = append(m.Hashes, maphash.String(seed, key))
		m.Keys = resp.AppendBulk(m.Keys, key)
	}
	return &Request{Message: m, Round: askRound(nil)}
}

// sorted returns the groups that requests are sent in.
func sorted(asked []*Request) (list []*group) {
	b, out := batch{}, groups{}
	for _, r := range asked {
		b.add(r, &out)
	}
	b.close(&out)
	for i := range out.n {
		list = append(list, out.at(i))
	}
	return list
}

// The keys of a group are bounded, not its requests: they decide how long a script runs.
func TestAGroupHasABoundedNumberOfKeys(t *testing.T) {
	var asked []*Request
	keys := 0
	for i := range 20 {
		var names []string
		for n := range 2 + i*3 {
			names = append(names, fmt.Sprintf("%d-%d", i, n))
		}
		asked = append(asked, about(first, names...), about(first, fmt.Sprint(i)))
		keys += len(names) + 1
	}
	sum := 0
	for i, g := range sorted(asked) {
		if g.keys > maxGroup {
			t.Errorf("group %d has %d keys", i, g.keys)
		}
		sum += int(g.keys)
	}
	if sum != keys {
		t.Errorf("%d keys in all groups, want %d", sum, keys)
	}
}

// Groups leave the ring in the order in which they came.
func TestGroupsAreARing(t *testing.T) {
	var f groups
	var want []*group
	for i := range 100 {
		g := &group{requests: make([]*Request, i%3)}
		f.push(g)
		want = append(want, g)
		if i%3 == 0 {
			if f.peek() != want[0] {
				t.Fatalf("after %d: not the oldest", i)
			}
			f.pop()
			want = want[1:]
		}
	}
	var left []*group
	for f.peek() != nil {
		left = append(left, f.peek())
		f.pop()
	}
	if !slices.Equal(left, want) || f.total != 0 {
		t.Errorf("%d are left in another order, want %d; %d requests", len(left), len(want), f.total)
	}
}

// A set counts what was added since it was cleared, and nothing else.
func TestKeySet(t *testing.T) {
	s := keySet{generation: math.MaxUint32 - 3}
	collide := uint64(len(s.slots)) // hashes that far apart share a slot
	for round := range 6 {
		for i := uint64(0); s.hasRoom(2); i++ {
			before := s.n
			one, two := []uint64{i}, []uint64{i + collide}
			levels := []int{s.add(one), s.add(two), s.add(two), s.add(append(one, two...)), s.add(one), s.add(two)}
			if want := []int{0, 0, 1, 2, 3, 3}; !slices.Equal(levels, want) || s.n != before+2 {
				t.Fatalf("round %d: levels %v, want %v; %d keys more, want 2", round, levels, want, s.n-before)
			}
		}
		if s.n < len(s.slots)/2 {
			t.Fatalf("round %d: full with %d", round, s.n)
		}
		s.clear()
	}
}

// However many keys are in a queue, and however often they come, none is lost or overtaken, and no native command is.
func TestAQueueOfManyKeys(t *testing.T) {
	var b batch
	for range 3 { // it is reused
		var out groups
		var asked []*Request
		for i := range 2000 {
			k := []*Command{first, second}[i%2]
			asked = append(asked, about(k, fmt.Sprint("of all", i%3), fmt.Sprint(i%700)), about(native))
		}
		for _, r := range asked {
			b.add(r, &out)
		}
		b.close(&out)
		at := map[*Request]int{}
		for out.peek() != nil {
			for _, r := range out.peek().requests {
				at[r] = len(at)
			}
			b.recycle(out.peek())
			out.pop()
		}
		last := map[uint64]int{}
		for i, r := range asked {
			place, sent := at[r]
			keys := r.Hashes
			if r.Command == native {
				keys = []uint64{0} // as if they were about one key
			}
			for _, h := range keys {
				if before, ok := last[h]; !sent || ok && place < before {
					t.Fatalf("request %d is lost, or goes before an earlier one about the same key", i)
				}
				last[h] = place
			}
		}
	}
}

// Two requests about each key, as where a released lock is acquired again, make two groups and not one for each key.
// What is urgent goes before the rest of its batch, but not before what is about the same key.
func TestTheOrderOfGroups(t *testing.T) {
	var again []*Request
	for i := range 60 {
		again = append(again, about(undo, fmt.Sprint(i)), about(first, fmt.Sprint(i)))
	}
	for _, c := range []struct {
		asked []*Request
		want  []string // the commands, with the number of their requests
	}{
		{again, []string{"undo 60", "first 60"}},
		{[]*Request{
			about(first, "a"), about(urgent, "b"), about(second, "c"), about(urgent, "d"), about(urgent, "c"), about(first, "e"),
		}, []string{"urgent 2", "first 2", "second 1", "urgent 1"}},
	} {
		var got []string
		for _, g := range sorted(c.asked) {
			got = append(got, fmt.Sprint(named.Replace(g.command.Script.SHA), " ", len(g.requests)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}
