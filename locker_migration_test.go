package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/quorum"
)

// change is a change of nodes: the members of the old list and of the new one, as indices into a fleet.
type change struct {
	name     string
	old, new []int
}

var changes = []change{
	{"replace one", []int{0, 1, 2, 3, 4}, []int{0, 1, 2, 3, 5}},
	{"move all", []int{0, 1, 2}, []int{3, 4, 5}},
	{"three to five", []int{0, 1, 2}, []int{0, 1, 2, 3, 4}},
	{"five to three", []int{0, 1, 2, 3, 4}, []int{2, 3, 4}},
}

// kinds are the clients of a change in the order in which they are rolled out: neighbours may be out at once.
var kinds = []string{"old", "both", "new"}

func (c change) size() (n int) {
	for _, list := range [][]int{c.old, c.new} {
		for _, i := range list {
			n = max(n, i+1)
		}
	}
	return n
}

func (c change) locker(fl *fleet, kind, client string, opts ...Option) *Locker {
	fl.t.Helper()
	list := c.old
	switch kind {
	case "both":
		opts = append(opts, WithNewNodes(fl.urlsOf(c.new)))
	case "new":
		list = c.new
	}
	return must(fl.open(client, list, opts...))(fl.t)
}

// neighbours runs f for each change and each two kinds of clients that may be out at once, either way round.
func neighbours(t *testing.T, f func(t *testing.T, fl *fleet, a, b *Locker)) {
	t.Helper()
	for _, c := range sized(changes, changes[:1]) {
		for _, pair := range [][2]string{
			{"old", "both"}, {"both", "old"}, {"both", "both"}, {"both", "new"}, {"new", "both"},
		} {
			subtest(t, fmt.Sprintf("%s/%s and %s", c.name, pair[0], pair[1]), c.size(), func(t *testing.T, fl *fleet) {
				f(t, fl, c.locker(fl, pair[0], "a"), c.locker(fl, pair[1], "b"))
			})
		}
	}
}

func TestNeighboursExcludeEachOther(t *testing.T) {
	neighbours(t, func(t *testing.T, fl *fleet, a, b *Locker) {
		ctx := t.Context()
		k := must(a.Lock(ctx, "job"))(t)
		fails(t, errOf(b.TryLock(ctx, "job")), ErrTaken, "the lock is held")
		fails(t, errOf(b.TryLockAll(ctx, []string{"job", "more"})), ErrTaken, "one of the names is held")
		fails(t, errOf(b.TryRLock(ctx, "job")), ErrTaken, "a writer has it")
		if i := must(b.Inspect(ctx, "job"))(t); i.Owner != k.Owner() || i.Token != k.Token() || i.Remaining == 0 {
			t.Errorf("inspect: got %q, token %d, %s; want %q, token %d", i.Owner, i.Token, i.Remaining, k.Owner(), k.Token())
		}
		time.Sleep(15 * time.Second) // and more than one TTL
		succeeds(t, k.Extend(ctx))
		waited := async(func() *Lock { return must(b.Lock(ctx, "job"))(t) })
		time.Sleep(time.Second)
		succeeds(t, k.Unlock())
		within(t, 500*time.Millisecond, "the hand-over", func() {
			next := <-waited
			grows(t, next.Token(), k.Token())
			succeeds(t, next.Unlock())
		})
		fl.clean()
	})
}

func TestNeighboursSharePermitsAndReaders(t *testing.T) {
	neighbours(t, func(t *testing.T, fl *fleet, a, b *Locker) {
		ctx := t.Context()
		p := must(a.Semaphore("pool", 1).Acquire(ctx))(t)
		fails(t, errOf(b.Semaphore("pool", 1).TryAcquire(ctx)), ErrTaken, "the only permit is held")
		succeeds(t, p.Unlock())
		succeeds(t, must(b.Semaphore("pool", 1).Acquire(ctx))(t).Unlock())

		reader := must(a.RLock(ctx, "page"))(t)
		other := must(b.RLock(ctx, "page"))(t)
		fails(t, errOf(b.TryLock(ctx, "page")), ErrTaken, "readers have it")
		succeeds(t, reader.Unlock())
		succeeds(t, other.Unlock())
		succeeds(t, must(b.LockAll(ctx, []string{"page", "pool", "x"}))(t).Unlock())
		fl.clean()
	})
}

// A hold can be handed over to a client with other lists if the nodes in common are a majority of each of its lists.
// Otherwise the ticket stays what it was.
func TestTicketsBetweenNeighbours(t *testing.T) {
	neighbours(t, func(t *testing.T, _ *fleet, a, b *Locker) {
		ctx := t.Context()
		k := must(a.Lock(ctx, "job"))(t)
		ticket := must(k.Ticket())(t)
		adopted, err := b.Adopt(ctx, ticket)
		var common quorum.Set
		for _, n := range b.nodes {
			if slices.ContainsFunc(a.nodes, func(m *node) bool { return m.addr() == n.addr() }) {
				common = common.With(n.index)
			}
		}
		if !b.electorate.Suffice(common) {
			fails(t, err, ErrTaken, "too few nodes in common")
			settleNetwork()
			adopted, err = a.Adopt(ctx, ticket)
		}
		if succeeds(t, err); adopted.Token() <= k.Token() {
			t.Errorf("token %d after %d", adopted.Token(), k.Token())
		}
		succeeds(t, adopted.Unlock())
	})
}

// A run that was done under the old list is done under the new one, if a client with both lists has looked at it.
func TestRunsGoAlong(t *testing.T) {
	for _, c := range changes {
		subtest(t, c.name, c.size(), func(t *testing.T, fl *fleet) {
			for i, kind := range kinds {
				l := c.locker(fl, kind, kind)
				err := l.Once(t.Context(), "nightly", func(context.Context, *Lock) error { return nil })
				if i == 0 && err != nil || i > 0 && !errors.Is(err, ErrAlreadyRun) {
					t.Errorf("%s list: got %v", kind, err)
				}
				succeeds(t, l.Close())
			}
		})
	}
}

// With one majority of two there is no lock, and the error says which list lacks votes.
func TestEachListNeedsAMajority(t *testing.T) {
	c := changes[1]
	for down, want := range map[string]string{
		"0 1": "old list 1 of 3 can vote, new list 3 of 3 can vote, n0:6379 n1:6379 unreachable",
		"3 5": "old list 3 of 3 can vote, new list 1 of 3 can vote, n3:6379 n5:6379 unreachable",
		"0 5": "",
	} {
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			for word := range strings.FieldsSeq(down) {
				fl.cut("a", int(word[0]-'0'))
			}
			l := c.locker(fl, "both", "a")
			k, err := l.TryLock(t.Context(), "job")
			if want == "" {
				succeeds(t, err)
				succeeds(t, k.Unlock())
				return
			}
			var q *QuorumError
			if !errors.As(err, &q) || err.Error() != "redlock: lock job: no quorum: "+want || q.Need != 2 {
				t.Errorf("got %+v, want %s", err, want)
			} else if q.Nodes[0].List != inOldList || q.Nodes[5].List != inNewList {
				t.Errorf("lists: %+v", q.Nodes)
			}
			fl.clean()
		})
	}
}

// A hold that a majority of one list does not have any more is lost, whatever the other list says.
func TestEitherListLosesAHold(t *testing.T) {
	for _, c := range changes {
		for _, side := range []string{"old", "new"} {
			subtest(t, c.name+"/"+side, c.size(), func(t *testing.T, fl *fleet) {
				l := c.locker(fl, "both", "a")
				k := must(l.Lock(t.Context(), "job"))(t)
				taken := c.old
				if side == "new" {
					taken = c.new
				}
				for _, i := range taken[:quorum.Majority(len(taken))] {
					fl.nodes[i].Do("SET", "job", "somebody", "PX", 60_000)
				}
				fails(t, k.Extend(t.Context()), ErrLost)
			})
		}
	}
}

func TestBadMigrations(t *testing.T) {
	many := make([]string, 32)
	for i := range many {
		many[i] = fmt.Sprintf("m%d", i)
	}
	for _, c := range []struct {
		old, to []string
		want    string
	}{
		{[]string{"a"}, nil, "no nodes of the new list"},
		{nil, []string{"a"}, "no nodes"},
		{[]string{"a", "b"}, []string{"a", "c", "c"}, "nodes 2 and 3 of the new list are the same server c:6379"},
		{[]string{"a", "redis://secret@b"}, []string{"b", "c"}, "b:6379 is in both lists with different URLs"},
		{[]string{"a", "b"}, []string{"redis://b/1"}, "b:6379 is in both lists with different URLs"},
		{[]string{"a"}, []string{"b", "http://c"}, "node 2 of the new list: "},
		{many[:16], many[16:], "32 nodes in both lists together: at most 31"},
	} {
		_, err := New(c.old, WithNewNodes(c.to))
		if !errors.Is(err, ErrInvalid) || !says(err, c.want) || says(err, "secret") {
			t.Errorf("%q to %q: got %v, want ErrInvalid with %q", c.old, c.to, err, c.want)
		}
	}
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithNewNodes([]string{fl.urls[2], fl.urls[0], fl.urls[1]})) // nothing is to be changed
		must(l.TryLock(t.Context(), "job"))(t)
	})
}

// Three of six nodes can be a majority of both lists. Then their clocks are compared as those of three of five are: a
// node whose clock was set forward may have let locks expire, so it must not vote.
func TestClocksAreComparedByThoseThatDecide(t *testing.T) {
	c := changes[0]
	bubble(t, c.size(), func(t *testing.T, fl *fleet) {
		for _, i := range []int{3, 4, 5} {
			fl.nodes[i].Crash(false)
		}
		l := c.locker(fl, "both", "a")
		succeeds(t, must(l.TryLock(t.Context(), "job"))(t).Unlock())
		time.Sleep(20 * time.Second)
		fl.nodes[0].Step(10 * time.Second)
		time.Sleep(20 * time.Second)
		_, err := l.TryLock(t.Context(), "job")
		failsSaying(t, err, ErrNoQuorum, "n0:6379 (both lists) abstained: its clock is ")
	})
}

// A token counts where a majority of each list accepted it. Here the clocks of one list are behind those of the other,
// and so is the first proposal of a client with both.
func TestATokenIsAcceptedInBothLists(t *testing.T) {
	c := changes[1]
	for _, ahead := range [][]int{c.old, c.new} {
		bubble(t, c.size(), func(t *testing.T, fl *fleet) {
			for _, i := range ahead {
				fl.nodes[i].Step(400 * time.Millisecond)
			}
			kind := "old"
			if ahead[0] == c.new[0] {
				kind = "new"
			}
			one, both := c.locker(fl, kind, "a"), c.locker(fl, "both", "b")
			first := must(one.TryLock(t.Context(), "job"))(t)
			succeeds(t, first.Unlock())
			settleNetwork()
			k := must(both.TryLock(t.Context(), "job"))(t)
			grows(t, k.Token(), first.Token())
			succeeds(t, k.Unlock())
		})
	}
}
