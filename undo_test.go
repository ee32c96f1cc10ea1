package redlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// A wait ends while its question is on the way to nodes that have forgotten the script of the question, and know that of
// the release. The question must not be repeated behind the release.
func TestAQuestionIsNotRepeatedBehindItsUndo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		b := fl.locker("b", WithBackoff(func(int) time.Duration { return 50 * time.Millisecond }))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			_, err := b.Lock(ctx, "job")
			ended <- err
		}()
		time.Sleep(time.Second)
		fl.net.SetDelay(sim.Link{Client: "b"}, sim.Up, sim.Delay{Min: 200 * ms, Max: 200 * ms})
		time.Sleep(300 * time.Millisecond) // from now on a question is on its way all the time
		for _, n := range fl.nodes {
			n.Do("SCRIPT", "FLUSH")
			n.Do("SCRIPT", "LOAD", release.Script.Source)
			n.Do("DEL", "job")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the wait cancelled", err)
		}
		time.Sleep(2 * time.Second)
		if got := fl.holding("job"); got != 0 {
			t.Errorf("taken on %d nodes by a wait that has ended", got)
		}
		_ = k.Unlock(t.Context())
	})
}

// The same of an extension: it is on its way when the lock is given back.
func TestAnExtensionIsNotRepeatedBehindTheRelease(t *testing.T) {
	modes(t, 3, func(t *testing.T, fl *fleet, opts ...Option) {
		k := must(fl.locker("a", opts...).Lock(t.Context(), "job"))(t)
		fl.net.SetDelay(sim.Link{Client: "a"}, sim.Up, sim.Delay{Min: 100 * ms, Max: 100 * ms})
		extended := make(chan struct{})
		go func() {
			defer close(extended)
			if err := k.Extend(t.Context()); !errors.Is(err, ErrUnlocked) {
				t.Errorf("got %v, want ErrUnlocked", err)
			}
		}()
		time.Sleep(ms)
		for _, n := range fl.nodes {
			n.Do("SCRIPT", "FLUSH")
			n.Do("SCRIPT", "LOAD", release.Script.Source)
		}
		if err := k.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		<-extended
		time.Sleep(time.Second)
		if got := fl.holding("job"); got != 0 {
			t.Errorf("back on %d nodes", got)
		}
	})
}

// The node is known to be away when the lock is given back.
func TestAReleaseWaitsForANodeThatIsAway(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a", WithTTL(20*time.Second))
		k := must(l.Lock(t.Context(), "job"))(t)
		settleNetwork()
		fl.nodes[0].Crash(true)
		settleNetwork()
		if err := k.Unlock(t.Context()); err != nil {
			t.Error(err)
		}
		fl.nodes[0].Restart()
		time.Sleep(2 * time.Second)
		if got := fl.holding("job"); got != 0 {
			t.Errorf("left on %d nodes", got)
		}
	})
}

// A listener's connection may be back before the node is known: it may be another one.
func TestAMessageOfANodeThatIsNotMetAbstains(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		w := l.newWaiter(wanted{op: "lock", name: "job", key: "job"}, l.opts, 0)
		fl.nodes[1].Crash(false)
		settleNetwork()
		l.hear(1, w.owner+"  job")
		if got := w.told[1].vote; got != voteAbstained {
			t.Errorf("got vote %d, want it to abstain", got)
		}
	})
}

// A node that came back empty may tell of a hand-over, as soon as it is known again: it has forgotten who held the lock.
func TestAMessageOfANodeThatAbstainsAbstains(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		l.listen()
		w := l.newWaiter(wanted{op: "lock", name: "job", key: "job"}, l.opts, 0)
		fl.nodes[1].Crash(false)
		fl.nodes[1].Restart()
		time.Sleep(2 * time.Second) // both connections are back
		l.hear(1, w.owner+"  job")
		if got := w.told[1]; got.vote != voteAbstained || errors.Is(got.err, errNotMet) {
			t.Errorf("got vote %d, %v, want it to abstain for its restart", got.vote, got.err)
		}
		l.hear(0, w.owner+"  job")
		if got := w.told[0].vote; got != voteGranted {
			t.Errorf("the healthy node: got vote %d", got)
		}
		_ = l.Close()
	})
}

// Of a majority that has answered just now, one accepted the token; another one had told so before.
func TestAWinOnFreshAnswersNeedsFreshAcceptance(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		w := l.newWaiter(wanted{op: "lock", name: "job", key: "job"}, l.opts, 0)
		for _, n := range fl.nodes {
			n.Do("SET", "job", w.owner, "PX", 10_000)
		}
		w.hold.asked = l.all
		h, err := w.win(t.Context(), view{given: 3, granted: 2, fresh: 2, sure: 1}, l.opts.clock.now())
		if err != nil {
			t.Fatal(err)
		}
		if known := fl.nodes[0].Do("ZSCORE", tokensName, "job"); known != strconv.FormatInt(h.token, 10) {
			t.Errorf("won with token %d, and the nodes know %v", h.token, known)
		}
	})
}

// An extension is on its way to the nodes when the connections break. They are back, and the lock is given back, when it
// lands.
func TestALateExtensionBringsNothingBack(t *testing.T) {
	for what, lock := range map[string]func(context.Context, *Locker) (*Lock, error){
		"a lock":  func(ctx context.Context, l *Locker) (*Lock, error) { return l.Lock(ctx, "job") },
		"several": func(ctx context.Context, l *Locker) (*Lock, error) { return l.LockAll(ctx, []string{"job", "other"}) },
		"a permit": func(ctx context.Context, l *Locker) (*Lock, error) {
			return l.Semaphore("job", 1).Acquire(ctx)
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, fl *fleet) {
				a, b := fl.locker("a"), fl.locker("b")
				before := must(lock(t.Context(), b))(t)
				time.AfterFunc(100*ms, func() { _ = before.Unlock(context.Background()) })
				k := must(lock(t.Context(), a))(t)
				all := sim.Link{Client: "a"}
				fl.net.SetDelay(all, sim.Up, sim.Delay{Min: 3 * time.Second, Max: 3 * time.Second})
				if err := k.Extend(t.Context()); !errors.Is(err, ErrNoQuorum) {
					t.Errorf("got %v, want ErrNoQuorum", err)
				}
				fl.net.SetDelay(all, sim.Both, sim.LAN)
				fl.net.Cut(all)
				time.Sleep(time.Second)
				if err := k.Unlock(t.Context()); err != nil {
					t.Error(err)
				}
				time.Sleep(4 * time.Second)
				if left := fl.leftovers(); len(left) > 0 {
					t.Errorf("a released lock is back: %v", left)
				}
				after := must(lock(t.Context(), b))(t)
				if after.Token() <= k.Token() {
					t.Errorf("token %d after %d", after.Token(), k.Token())
				}
				_ = after.Unlock(t.Context())
			})
		})
	}
}

// What a release makes known is in nobody's way: the next token may be the next number.
func TestAReleaseOfAnExtendedHoldCostsNobodyASecondRound(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		k := must(l.Lock(t.Context(), "job"))(t)
		must(0, k.Extend(t.Context()))(t)
		_ = k.Unlock(t.Context())
		settleNetwork()
		for _, n := range fl.nodes {
			if known, want := n.Do("ZSCORE", tokensName, "job"), fmt.Sprint(k.Token(), ".5"); known != want {
				t.Errorf("a node knows %v, want %s", known, want)
			}
			if got := n.Do("ZADD", tokensName, "GT", "CH", k.Token()+1, "job"); got != int64(1) {
				t.Errorf("the next number is not accepted: %v", got)
			}
		}
		if i := must(l.Inspect(t.Context(), "job"))(t); i.Nodes[0].Token != k.Token()+1 {
			t.Errorf("Inspect tells of token %d", i.Nodes[0].Token)
		}
	})
}
