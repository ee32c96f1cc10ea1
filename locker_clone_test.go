package redlock

import (
	"crypto/rand"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// clones returns a Locker and such a one as a snapshot of its process makes it when it is started a second time: both
// have drawn the same random bits, so to the nodes they are one.
func (fl *fleet) clones() (original, clone *Locker) {
	fl.t.Helper()
	succeeds(fl.t, fl.locker("first").Close()) // so that the nodes have ids, which are not the same
	settleNetwork()
	defer drawZeros()()
	original, clone = fl.locker("a"), fl.locker("clone")
	clone.listeners.channel = original.listeners.channel
	settleNetwork()
	return original, clone
}

// A copy of a process hears whatever its original is handed. It must give back nothing of that.
func TestACloneLeavesTheOriginalsLocksAlone(t *testing.T) {
	for _, lock := range some("Lock", "RLock") {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			a, clone := fl.clones()
			other := fl.locker("b")
			clone.listeners.listen(clone.ctx)
			held := must(other.Lock(t.Context(), "job"))(t)
			got := async(func() *Lock { return must(lock(t.Context(), a))(t) })
			time.Sleep(time.Second)
			succeeds(t, held.Unlock())
			mine := <-got
			settleNetwork()
			if _, err := other.TryLock(t.Context(), "job"); !errors.Is(err, ErrTaken) || mine.Err() != nil {
				t.Errorf("a second hold beside the first: got %v, want ErrTaken; the first: %v", err, mine.Err())
			}
			succeeds(t, mine.Unlock())
		})
	}
}

// The end of the copy takes nothing away that the original has told the nodes, nor that of the original what the copy
// has. If the copy ends before the original has confirmed its registration, the original notices that with any answer.
func TestACloneLeavesTheOriginalsRegistrationAlone(t *testing.T) {
	for _, c := range []struct {
		ends   string
		after  time.Duration
		asks   bool
		beside bool // a client with lists that do not conflict, so that the nodes know some
	}{
		{"original", time.Second, false, false},
		{"clone", confirmsWithin, false, false},
		{"clone", time.Second, true, false},
		{"clone", time.Second, true, true},
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			original, clone := fl.clones()
			if c.beside {
				fl.locker("b", WithNewNodes(fl.urls[:1]))
			}
			fl.net.Reset(sim.Link{Client: "clone"}) // the connections of the snapshot are the original's
			time.Sleep(c.after)
			if c.ends == "clone" {
				original, clone = clone, original
			}
			_ = original.Close()
			settleNetwork()
			if c.asks {
				clone.Status(t.Context())
				settleNetwork()
			}
			other, err := New(fl.urls[:1], dialing(fl.net.Dialer("c")))
			if err == nil {
				_ = other.Close()
			}
			if !errors.As(err, new(*ListConflictError)) || clone.mayLock() != nil {
				t.Errorf("the %s ends after %v, beside another %t. "+
					"A client with another list: got %v, want a ListConflictError; the other copy: %v",
					c.ends, c.after, c.beside, err, clone.mayLock())
			}
		})
	}
}

// drawZeros has all random bits be zeros, until the function that it returns is called.
func drawZeros() (end func()) {
	synctest.Wait()
	from := rand.Reader
	rand.Reader = zeros{}
	return func() {
		synctest.Wait()
		rand.Reader = from
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}

// The copy may even read the same random bits, and go on with a wait that began when the original's did.
func TestACloneDrawsOtherOwners(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		clone := fl.locker("a").peers.agreement.Label
		defer drawZeros()()
		original := clone.Owner(1, true)
		fl.net.Reset(sim.Link{Client: "a", Node: fl.nodes[0].Addr()})
		time.Sleep(time.Second)
		synctest.Wait()
		copied := clone.Owner(1, true)
		if copied == original {
			t.Errorf("both draw %s", copied)
		}
	})
}
