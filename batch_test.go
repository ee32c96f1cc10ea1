package redlock

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// requestFor makes a request about one key, or about several.
func requestFor(k *kind, keys ...string) *request {
	c := &call{}
	if c.kind = k; len(keys) == 1 {
		c.key, c.hash = keys[0], hashOf(keys[0])
		return &request{call: c}
	}
	c.several = &several{names: keys, keys: keys}
	for _, key := range keys {
		c.several.hashes = append(c.several.hashes, hashOf(key))
	}
	return &request{call: c}
}

// sorted returns the groups that requests are sent in.
func sorted(asked []*request) (list []*group) {
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

// Whatever is sent together, what concerns one key keeps its order.
func TestABatchKeepsTheOrderOfEachKey(t *testing.T) {
	asked := []*request{
		requestFor(release, "a"), requestFor(acquire, "b"), requestFor(acquireAll, "a", "c"), requestFor(acquire, "d"), requestFor(release, "a", "c"),
		requestFor(acquire, "c"), requestFor(acquireAll, "b", "d"), requestFor(release, "c"), requestFor(release, "b", "d"), requestFor(acquire, "a"), requestFor(acquire, "b"),
	}
	out := sorted(asked)
	sent := map[string][]*request{}
	order := func(into map[string][]*request, r *request) {
		if s := r.call.several; s != nil {
			for _, key := range s.names {
				into[key] = append(into[key], r)
			}
			return
		}
		into[r.call.key] = append(into[r.call.key], r)
	}
	for i, g := range out {
		if len(g.requests) > 1 && g.kind == acquireAll {
			t.Errorf("group %d: the script serves one request at a time, and has %d", i, len(g.requests))
		}
		for _, r := range g.requests {
			order(sent, r)
		}
	}
	want := map[string][]*request{}
	for _, r := range asked {
		order(want, r)
	}
	for key, requests := range want {
		if !slices.Equal(sent[key], requests) {
			t.Errorf("key %s was sent in another order than it was asked about", key)
		}
	}
}

// One reply answers all requests of a group: each gets what is said about its own keys.
func TestAReplyIsDividedAmongTheRequestsOfAGroup(t *testing.T) {
	list := sorted([]*request{requestFor(release, "a"), requestFor(release, "b", "c", "d"), requestFor(release, "e"), requestFor(release, "f", "g")})
	if len(list) != 1 || list[0].keys != 7 {
		t.Fatalf("%d groups, the first of %d keys; want one of 7", len(list), list[0].keys)
	}
	for _, c := range []struct {
		codes []int64 // of the keys a to g
		want  [4]vote
	}{
		{[]int64{1, 1, 1, 1, 1, 1, 1}, [4]vote{voteGranted, voteGranted, voteGranted, voteGranted}},
		{[]int64{2, 1, 1, 1, 1, 1, 1}, [4]vote{voteTaken, voteGranted, voteGranted, voteGranted}},
		{[]int64{1, 2, 1, 1, 1, 1, 1}, [4]vote{voteGranted, voteTaken, voteGranted, voteGranted}},
		{[]int64{1, 1, 1, 2, 1, 1, 1}, [4]vote{voteGranted, voteTaken, voteGranted, voteGranted}},
		{[]int64{1, 1, 0, 1, 2, 1, 1}, [4]vote{voteGranted, voteGranted, voteTaken, voteGranted}},
		{[]int64{0, 1, 1, 1, 1, 1, 2}, [4]vote{voteGranted, voteGranted, voteGranted, voteTaken}},
		{[]int64{1, 1, 1, 1, 1, 1}, [4]vote{voteFailed, voteFailed, voteFailed, voteFailed}},
	} {
		var reply []any
		for _, code := range c.codes {
			reply = append(reply, code)
		}
		for i, want := range c.want {
			if a := list[0].answer(i, reply, nil); a.vote != want {
				t.Errorf("%v: request %d gets vote %d, want %d", c.codes, i, a.vote, want)
			}
		}
	}
	for i := range 4 {
		if a := list[0].answer(i, int64(7), nil); a.vote != voteGranted {
			t.Errorf("all as usual: request %d gets vote %d", i, a.vote)
		}
		if a := list[0].answer(i, int64(4), nil); a.vote != voteFailed {
			t.Errorf("a number that is not that of the keys: request %d gets vote %d", i, a.vote)
		}
	}
}

// How long a script runs is bounded by its keys, not by its requests.
func TestAGroupHasABoundedNumberOfKeys(t *testing.T) {
	var asked []*request
	keys := 0
	for i := range 20 {
		var names []string
		for n := range 2 + i*3 {
			names = append(names, fmt.Sprintf("%d-%d", i, n))
		}
		asked = append(asked, requestFor(release, names...), requestFor(release, fmt.Sprint(i)))
		keys += len(names) + 1
	}
	sum := 0
	for i, g := range sorted(asked) {
		if g.keys > maxGroup {
			t.Errorf("group %d has %d keys", i, g.keys)
		}
		sum += g.keys
	}
	if sum != keys {
		t.Errorf("%d keys in all groups, want %d", sum, keys)
	}
}

// Whatever is sent together, each lock has its own TTL.
func TestLocksThatAreAskedForTogetherHaveTheirOwnTTL(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		const n = 50
		ttl := func(i int) time.Duration { return time.Duration(10+i%3) * time.Second }
		before := fl.nodes[0].Calls("evalsha")
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				if _, err := l.TryLock(t.Context(), fmt.Sprint(i), WithTTL(ttl(i))); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if calls := fl.nodes[0].Calls("evalsha") - before; calls > n/2 {
			t.Errorf("%d calls for %d locks: they were not asked for together", calls, n)
		}
		for i := range n {
			left, _ := fl.nodes[0].Do("PTTL", fmt.Sprint(i)).(int64)
			if d := ttl(i) - time.Duration(left)*time.Millisecond; d < 0 || d > 500*time.Millisecond {
				t.Errorf("lock %d has %d ms left, want about %v", i, left, ttl(i))
			}
		}
	})
}

// Some of those that are released together were extended, and those alone leave a larger token behind.
func TestLocksThatAreReleasedTogetherLeaveTheirOwnTokens(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		const n = 50
		var held []*Lock
		for i := range n {
			k := must(l.TryLock(t.Context(), fmt.Sprint(i)))(t)
			if i%3 == 1 {
				must(0, k.Extend(t.Context()))(t)
			}
			held = append(held, k)
		}
		before := fl.nodes[0].Calls("evalsha")
		var all sync.WaitGroup
		for _, k := range held {
			all.Go(func() {
				if err := k.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if calls := fl.nodes[0].Calls("evalsha") - before; calls > n/2 {
			t.Errorf("%d calls for %d locks: they were not released together", calls, n)
		}
		for i, k := range held {
			want := fmt.Sprint(k.Token())
			if i%3 == 1 {
				want += ".5"
			}
			if known := fl.nodes[0].Do("ZSCORE", tokensName, fmt.Sprint(i)); known != want {
				t.Errorf("lock %d: the node knows %v, want %s", i, known, want)
			}
		}
	})
}
