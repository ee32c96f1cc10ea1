package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/protocol"
	"github.com/quorumlock/redlock/internal/runs"
)

func TestInspect(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a", WithPrefix("p:")), fl.locker("b", WithPrefix("p:"))
		inspect := func() Inspection { t.Helper(); return must(b.Inspect(t.Context(), "job"))(t) }

		if got := inspect(); got.Owner != "" || got.Token != 0 || got.Age != 0 || got.Waiting != 0 || got.Runs != (Runs{}) ||
			len(got.Nodes) != 5 {
			t.Errorf("free: got %+v", got)
		}
		k := must(a.Lock(t.Context(), "job"))(t)
		waiting, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = fl.locker("c", WithPrefix("p:")).Lock(waiting, "job")
		}()
		time.Sleep(time.Second)
		got := inspect()
		if got.Name != "job" || got.Owner != k.Owner() || got.Token != k.Token() || got.Waiting != 1 ||
			got.Remaining < 8*time.Second || got.Remaining > 10*time.Second || got.Age.Round(time.Second/2) != time.Second {
			t.Errorf("held: got %+v", got)
		}
		for i, n := range got.Nodes {
			if n.Addr != fmt.Sprintf("n%d:6379", i) || n.Err != nil || n.Owner != k.Owner() || n.Token != k.Token() ||
				n.Waiting != 1 {
				t.Errorf("node %d: got %+v", i, n)
			}
		}
		stop()
		<-ended
		time.Sleep(2 * time.Minute)
		if got := inspect(); got.Owner != k.Owner() || got.Token != k.Token() || got.Nodes[0].Token != k.Token() ||
			got.Waiting != 0 || got.Age.Round(time.Minute) != 2*time.Minute {
			t.Errorf("held for longer than tokens are kept: got %+v", got)
		}
		_ = k.Unlock()
		settleNetwork()
		if got := inspect(); got.Owner != "" || got.Remaining != 0 {
			t.Errorf("released: got %+v", got)
		}

		succeeds(t, a.Once(t.Context(), "job", func(context.Context, *Lock) error {
			got := inspect()
			if got.Owner == "" || got.Runs.Begun != 1 || got.Runs.Last != runs.Begun || got.Runs.Token != got.Token {
				t.Errorf("in a run: got %+v", got)
			}
			return nil
		}))
		settleNetwork()
		if got := inspect(); got.Owner != "" || got.Runs.Last != runs.Done || got.Runs.Remaining < 119*time.Minute ||
			got.Nodes[4].Runs.Begun != 1 {
			t.Errorf("done: got %+v", got)
		}
	})
}

func TestInspectNamesTheReaders(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		prices := fl.locker("a")
		inspect := func() Inspection { t.Helper(); return must(fl.locker("b").Inspect(t.Context(), "prices"))(t) }
		first, second := must(prices.RLock(t.Context(), "prices"))(t), must(prices.RLock(t.Context(), "prices"))(t)
		settleNetwork()
		want := []string{first.Owner(), second.Owner()}
		slices.Sort(want)
		got := inspect()
		if got.Owner != "readers" || !slices.Equal(got.Readers, want) ||
			!slices.Equal(slices.Sorted(slices.Values(got.Nodes[2].Readers)), want) {
			t.Errorf("got %+v, want the readers %v", got, want)
		}

		// A waiting writer is not a reader, and a reader that only a minority has does not count.
		waiting, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_, _ = prices.Lock(waiting, "prices")
		}()
		time.Sleep(time.Second)
		fl.nodes[:2].do("ZREM", "redlock:read:prices", second.Owner())
		if got := inspect(); !slices.Equal(got.Readers, []string{first.Owner()}) || len(got.Nodes[2].Readers) != 2 {
			t.Errorf("one node of three has the second reader: got %+v", got)
		}
		stop()
		<-ended
		_, _ = first.Unlock(), second.Unlock()
		settleNetwork()
		if got := inspect(); got.Owner != "" || got.Readers != nil {
			t.Errorf("released: got %+v", got)
		}
	})
}

func TestInspectWithFailedNodes(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a := fl.locker("a")
		k := must(a.Lock(t.Context(), "job"))(t)
		fl.nodes[0].Crash(false)
		fl.nodes[1].Pause()
		time.Sleep(ms)
		var got Inspection
		within(t, 250*ms, "Inspect", func() { got = must(a.Inspect(t.Context(), "job"))(t) })
		if got.Owner != k.Owner() || got.Token != k.Token() {
			t.Errorf("got %+v", got)
		}
		var down NodeError
		if err := got.Nodes[0].Err; !errors.As(err, &down) || down.Addr != "n0:6379" || !errors.Is(err, ErrNodeDown) {
			t.Errorf("a dead node: got %v", err)
		}
		fails(t, got.Nodes[1].Err, ErrNodeTimeout, "a silent node")

		// The answer of a node that restarted is reported, but does not count.
		fl.nodes[1].Resume()
		fl.nodes[0].Restart()
		time.Sleep(5 * time.Second)
		got = must(a.Inspect(t.Context(), "job"))(t)
		if n := got.Nodes[0]; !errors.Is(n.Err, ErrNodeAbstains) || n.Owner != k.Owner() {
			t.Errorf("a node that restarted: got %+v", n)
		}

		fl.nodes[1].Crash(false)
		fl.nodes[2].Crash(false)
		time.Sleep(ms)
		got, err := a.Inspect(t.Context(), "job")
		var q *QuorumError
		if !errors.Is(err, ErrNoQuorum) || !errors.As(err, &q) || q.Granted != 2 || q.Need != 3 || q.Op != "inspect" {
			t.Errorf("three nodes down: got %v", err)
		}
		if got.Owner != "" || len(got.Nodes) != 5 || got.Nodes[3].Owner != k.Owner() {
			t.Errorf("three nodes down: got %+v", got)
		}
		ended := cancelled(t)
		fails(t, errOf(a.Inspect(ended, "job")), context.Canceled, "cancelled")
		fails(t, errOf(a.Inspect(t.Context(), "")), ErrInvalid, "no name")
		_ = a.Close()
		fails(t, errOf(a.Inspect(t.Context(), "job")), ErrClosed, "closed")
	})
}

// A hold without a token has none, whatever the nodes remember of an earlier one.
func TestInspectShowsNoEarlierHoldersToken(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		fenced := must(a.Lock(t.Context(), "job"))(t)
		waiter := async(func() *Lock { return must(b.Lock(t.Context(), "job", WithoutFencing()))(t) })
		time.Sleep(time.Second)
		equals(t, must(a.Inspect(t.Context(), "job"))(t).Token, fenced.Token(), "the token of who has it")
		succeeds(t, fenced.Unlock())
		k := <-waiter
		seen := must(a.Inspect(t.Context(), "job"))(t)
		equals(t, seen.Owner, k.Owner(), "the owner")
		equals(t, seen.Token, 0, "the token of one without")
		equals(t, seen.Age, 0, "its age")
		succeeds(t, k.Unlock())
		for _, owner := range []string{"somebody's", new(agreement.Label).Owner(fenced.Token()+1, true).String()} {
			fl.nodes.do("SET", "job", owner, "PX", 1000)
			seen := must(a.Inspect(t.Context(), "job"))(t)
			equals(t, seen.Owner, owner, "the owner")
			equals(t, seen.Token+seen.Nodes[0].Token+int64(seen.Age), 0, "the token of another library's lock, and its age")
		}
		fl.nodes[:3].do("SET", "job", "for good")
		equals(t, must(a.Inspect(t.Context(), "job"))(t).Remaining, protocol.Left(-1), "what is left of a key without a TTL")
		failsSaying(t, errOf(b.TryLock(t.Context(), "job")), ErrTaken, "the key has no TTL", "ForceUnlock")
		succeeds(t, a.ForceUnlock(t.Context(), "job", "for good"))
		succeeds(t, errOf(b.TryLock(t.Context(), "job")))
	})
}
