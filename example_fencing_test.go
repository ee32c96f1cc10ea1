package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/fence"
	"github.com/quorumlock/redlock/redlocktest"
)

// stock is a store that writes on the condition that nobody has written meanwhile, and keeps tokens beside the data.
type stock struct {
	mu      sync.Mutex // guards the fields below
	version int
	token   int64
	data    []byte
}

func (s *stock) Get(context.Context, string) (data []byte, token int64, version string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.data, s.token, fmt.Sprint(s.version), nil
}

func (s *stock) Put(_ context.Context, _ string, data []byte, token int64, version string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if version != fmt.Sprint(s.version) {
		return false, nil
	}
	s.version, s.token, s.data = s.version+1, token, data
	return true, nil
}

// write writes as a holder, and says how that went.
func (s *stock) write(lock *redlock.Lock, text string) error {
	return fence.WriteObject(context.Background(), s, "4711", lock, []byte(text))
}

// A holder cannot know that a later holder has the lock; the resource to which both write can.
func ExampleLock_Token() {
	masters, stop := fiveMasters()
	defer stop()
	a := newLocker(masters)
	defer a.Close()
	b := newLocker(masters)
	defer b.Close()
	ctx := context.Background()
	var store stock

	first, err := a.Lock(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	masters.FastForward(time.Minute) // all nodes' clocks jump: the key expires too early
	second, err := b.Lock(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("b writes:", store.write(second, "b was here"))
	fmt.Println("a believes that it holds the lock:", first.Err() == nil)
	fmt.Println("a is overtaken:", errors.Is(store.write(first, "a was here"), fence.ErrOvertaken))
	fmt.Printf("in stock: %s\n", store.data)
	// Output:
	// b writes: <nil>
	// a believes that it holds the lock: true
	// a is overtaken: true
	// in stock: b was here
}

// The scenario of the literature, in real time. A checks that it holds the lock, and it does. Right after that, A is
// paused until its hold has ended, B has acquired the lock and B has written. Then A continues with its write.
func TestALateWriteOfAPausedHolderIsRefused(t *testing.T) {
	t.Parallel()
	var store stock
	masters := redlocktest.New(t, 5)
	// A paused process renews nothing, and its timers do not run.
	a := newLocker(masters, redlock.WithTTL(2*time.Second), redlock.WithoutRenewal())
	defer a.Close()
	b := newLocker(masters)
	defer b.Close()

	resumed := make(chan struct{})
	late := make(chan error)
	first, err := a.Lock(t.Context(), "stock")
	if err != nil {
		t.Fatal(err)
	}
	if err := store.write(first, "a"); err != nil {
		t.Errorf("a's write in time: got %v", err)
	}
	if err := first.Err(); err != nil {
		t.Errorf("a does not hold the lock: got %v", err)
	}
	go func() {
		<-resumed // the pause, right after the check
		late <- store.write(first, "a, too late")
	}()

	second, err := b.Lock(t.Context(), "stock") // waits until a's lock expires on the nodes
	if err != nil {
		t.Fatal(err)
	}
	if second.Token() <= first.Token() {
		t.Errorf("SAFETY VIOLATION: token %d after %d", second.Token(), first.Token())
	}
	if err := store.write(second, "b"); err != nil {
		t.Errorf("b's write: got %v", err)
	}
	close(resumed)
	if err := <-late; !errors.Is(err, fence.ErrOvertaken) {
		t.Errorf("a's late write: got %v, want %v", err, fence.ErrOvertaken)
	}
	if got := string(store.data); got != "b" {
		t.Errorf("SAFETY VIOLATION: the store has %q, want what b wrote", got)
	}
	if err := store.write(second, "b again"); err != nil {
		t.Errorf("b's second write: got %v", err)
	}
	if err := first.Unlock(); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("a's Unlock: got %v, want ErrLost", err)
	}
	if err := second.Unlock(); err != nil {
		t.Errorf("b's Unlock: got %v", err)
	}
}
