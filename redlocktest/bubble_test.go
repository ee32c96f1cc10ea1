package redlocktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// In a bubble, waits, renewals and expiry run in virtual time, and all that happens to nodes happens there, too.
func TestInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		masters := redlocktest.NewInBubble(t, 5)
		locker := func() *redlock.Locker {
			l, err := redlock.New(masters.URLs(), redlock.WithNodeConfig(redlock.NodeConfig{Dial: masters.Dial}))
			cases.NoError(t, err)
			t.Cleanup(func() { l.Close() })
			return l
		}
		a, b := locker(), locker()
		held, err := a.Lock(t.Context(), "job")
		cases.NoError(t, err)
		time.Sleep(time.Minute) // a hold that is renewed
		cases.NoError(t, held.Err())

		begun := time.Now()
		waited := make(chan *redlock.Lock)
		go func() {
			k, err := b.Lock(context.Background(), "job")
			cases.NoError(t, err)
			waited <- k
		}()
		masters.Pause(0, 1)
		time.Sleep(20 * time.Second)
		masters.Resume(0, 1)
		cases.NoError(t, held.Unlock())
		k := <-waited
		if took := time.Since(begun); took < 20*time.Second || took > 21*time.Second || k.Token() <= held.Token() {
			t.Errorf("after %v, token %d after %d", took, k.Token(), held.Token())
		}

		masters.Kill(0, 1, 2)
		<-k.Done()
		if err := k.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("got %v, want ErrLost", err)
		}
		cases.NoError(t, masters.Revive(0, 1, 2))
		begun = time.Now()
		k, err = b.Lock(t.Context(), "job") // once the restart guard has passed
		cases.NoError(t, err)
		if took := time.Since(begun); took < 29*time.Second || took > 33*time.Second {
			t.Errorf("got the lock after %v, want the restart guard, 30 s", took)
		}
		cases.NoError(t, k.Unlock())
	})
}
