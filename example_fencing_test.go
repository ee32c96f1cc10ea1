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
	"github.com/quorumlock/redlock/redlocktest"
)

// errStale says that a later holder has written before.
var errStale = errors.New("stale token")

// register is the simplest resource that checks tokens: a value, and the largest token seen so far.
type register struct {
	mu    sync.Mutex // guards the fields below
	token int64
	value string
}

func (r *register) write(token int64, value string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token < r.token { // an equal token is of the same hold, which may write more than once
		return errStale
	}
	r.token, r.value = token, value
	return nil
}

func (r *register) read() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value
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
	var stock register

	first, err := a.Lock(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	masters.FastForward(time.Minute) // all nodes' clocks jump: the key expires too early
	second, err := b.Lock(ctx, "stock")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("b writes:", stock.write(second.Token(), "b was here"))
	fmt.Println("a believes that it holds the lock:", first.Err() == nil)
	fmt.Println("a writes:", stock.write(first.Token(), "a was here"))
	fmt.Println("in stock:", stock.read())
	// Output:
	// b writes: <nil>
	// a believes that it holds the lock: true
	// a writes: stale token
	// in stock: b was here
}

// bucket is an object with conditional writes, as object stores have them. It knows nothing of tokens: to the bucket
// they are metadata.
type bucket struct {
	mu    sync.Mutex // guards the fields below
	etag  int
	token int64
	value string
}

var errPrecondition = errors.New("412 precondition failed")

func (b *bucket) head() (etag int, token int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.etag, b.token
}

func (b *bucket) putIfMatch(etag int, token int64, value string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if etag != b.etag {
		return errPrecondition
	}
	b.etag, b.token, b.value = b.etag+1, token, value
	return nil
}

func (b *bucket) read() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.value
}

// write is what a client of an object store does.
func (b *bucket) write(token int64, value string) error {
	for {
		etag, seen := b.head()
		if token < seen {
			return errStale
		}
		err := b.putIfMatch(etag, token, value)
		if !errors.Is(err, errPrecondition) {
			return err
		}
	}
}

// The scenario of the literature, in real time. A checks that it holds the lock, and it does. Right after that, A is
// paused until its hold has ended, B has acquired the lock and B has written. Then A continues with its write.
func TestALateWriteOfAPausedHolderIsRefused(t *testing.T) {
	for name, resource := range map[string]interface {
		write(token int64, value string) error
		read() string
	}{
		"register": &register{},
		"bucket":   &bucket{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
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
			if err := resource.write(first.Token(), "a"); err != nil {
				t.Errorf("a's write in time: got %v", err)
			}
			if err := first.Err(); err != nil {
				t.Errorf("a does not hold the lock: got %v", err)
			}
			go func() {
				<-resumed // the pause, right after the check
				late <- resource.write(first.Token(), "a, too late")
			}()

			second, err := b.Lock(t.Context(), "stock") // waits until a's lock expires on the nodes
			if err != nil {
				t.Fatal(err)
			}
			if second.Token() <= first.Token() {
				t.Errorf("SAFETY VIOLATION: token %d after %d", second.Token(), first.Token())
			}
			if err := resource.write(second.Token(), "b"); err != nil {
				t.Errorf("b's write: got %v", err)
			}
			close(resumed)
			if err := <-late; !errors.Is(err, errStale) {
				t.Errorf("a's late write: got %v, want %v", err, errStale)
			}
			if got := resource.read(); got != "b" {
				t.Errorf("SAFETY VIOLATION: the resource has %q, want what b wrote", got)
			}
			if err := resource.write(second.Token(), "b again"); err != nil {
				t.Errorf("b's second write: got %v", err)
			}
			if err := first.Unlock(); !errors.Is(err, redlock.ErrLost) {
				t.Errorf("a's Unlock: got %v, want ErrLost", err)
			}
			if err := second.Unlock(); err != nil {
				t.Errorf("b's Unlock: got %v", err)
			}
		})
	}
}
