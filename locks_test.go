package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// namesOf returns the names that Locks yields.
func namesOf(t *testing.T, l *Locker, prefix string) []string {
	t.Helper()
	var names []string
	for i, err := range l.List(t.Context(), prefix) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, i.Name)
	}
	return names
}

func TestLocks(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a", WithPrefix("p:"), WithOwnerLabel("web-3/812")), fl.locker("b", WithPrefix("p:"))
		equals(t, len(namesOf(t, b, "")), 0, "names when nothing is held")
		for _, name := range []string{"job:2", "job:1", "other", "job*", `jo\b`} {
			must(a.Lock(t.Context(), name))(t)
		}
		must(a.LockAll(t.Context(), []string{"x", "y"}))(t)
		must(a.RLock(t.Context(), "read"))(t)
		must(a.Semaphore("job:permits", 3).Acquire(t.Context()))(t)
		succeeds(t, a.Once(t.Context(), "done", func(context.Context, *Lock) error { return nil }))
		must(fl.locker("c").Lock(t.Context(), "without the prefix"))(t)
		// Records of a longer prefix begin with this one.
		longer := fl.locker("d", WithPrefix("p:longer:"), WithOwnerLabel("web-4"))
		lock := must(longer.Lock(t.Context(), "held"))(t)
		succeeds(t, longer.ForceUnlock(t.Context(), "held", lock.Owner()))
		succeeds(t, longer.Once(t.Context(), "done", func(context.Context, *Lock) error { return nil }))
		for _, n := range fl.nodes {
			n.Do("SET", "p:text", "of another program")
			n.Do("SET", "p:code", "1234567", "PX", "100000") // a secret, perhaps
			n.Do("SET", "p:session", "f1bde82ce1bd66ae2ab1d32b7a03b5ba1fe0", "PX", "100000")
			n.Do("HSET", "p:hash", "f", "v", "EX", "100")
		}
		fl.nodes[0].Do("SET", "p:lonely", "aaaaaaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa", "PX", "100000") // no majority has it
		go func() { _, _ = b.Lock(t.Context(), "other", WithMaxWait(5*time.Second)) }()
		time.Sleep(time.Second)

		all := namesOf(t, b, "")
		permit := slices.IndexFunc(all, func(name string) bool { return strings.HasPrefix(name, permitsName) })
		if permit < 0 {
			t.Fatalf("no slot of the semaphore in %q", all)
		}
		want := []string{`jo\b`, "job*", "job:1", "job:2", "other", "read", all[permit], "x", "y"}
		if !slices.Equal(all, want) {
			t.Errorf("all: got %q, want %q", all, want)
		}
		for prefix, want := range map[string][]string{
			"job:": {"job:1", "job:2", all[permit]}, "job*": {"job*"}, `jo\`: {`jo\b`}, "none": nil, "other": {"other"},
			"p:": nil,
		} {
			if got := namesOf(t, b, prefix); !slices.Equal(got, want) {
				t.Errorf("%q: got %q, want %q", prefix, got, want)
			}
		}
		for i, err := range b.List(t.Context(), "other") {
			if err != nil || i.Label != "web-3/812" || i.Waiting != 1 || i.Token == 0 || i.Remaining <= 0 {
				t.Errorf("got %+v, %v", i, err)
			}
		}
		for i := range b.List(t.Context(), "") { // a caller may stop
			equals(t, i.Name, `jo\b`, "first")
			break
		}
		time.Sleep(10 * time.Second)
	})
}

// Three of five nodes are enough to find each lock that a majority has: also one that two of them lack.
func TestLocksWithNodesOutOfReach(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		must(fl.locker("a").Lock(t.Context(), "job"))(t)
		settleNetwork()
		l := fl.locker("b")
		fl.nodes[2].Do("DEL", "job")
		fl.nodes[3].Do("DEL", "job")
		if got := namesOf(t, l, ""); !slices.Equal(got, []string{"job"}) {
			t.Errorf("got %q", got)
		}
		fl.cut("b", 0, 1)
		for i, err := range l.List(t.Context(), "") {
			if err != nil { // three of the nodes do not have it, but whether a majority has cannot be ruled out
				t.Errorf("got %+v, %v", i, err)
			}
		}
		fl.cut("b", 2)
		failed := 0
		for i, err := range l.List(t.Context(), "") {
			failed++
			if !errors.Is(err, ErrNoQuorum) || i.Name != "" {
				t.Errorf("two of five: got %+v, %v, want ErrNoQuorum", i, err)
			}
		}
		equals(t, failed, 1, "two of five: pairs")
	})
}

// Masters that have been restarted may have forgotten locks: they say of none that it is not held.
func TestLocksOfNodesThatAbstain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for i := range 2 {
			fl.nodes[i].Crash(false)
			fl.nodes[i].Restart()
		}
		time.Sleep(5 * time.Second)
		for _, err := range l.List(t.Context(), "") {
			var q *QuorumError
			if !errors.Is(err, ErrNoQuorum) || !errors.As(err, &q) || !errors.Is(q.Nodes[0], ErrNodeAbstains) {
				t.Errorf("got %v", err)
			}
			return
		}
		t.Error("no error")
	})
}

func TestLocksAfterClose(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		_ = l.Close()
		for _, err := range l.List(t.Context(), "") {
			fails(t, err, ErrClosed)
		}
		done := cancelled(t)
		for _, err := range fl.locker("b").List(done, "") {
			fails(t, err, context.Canceled)
		}
	})
}
