package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// fiveMasters replaces your Redis masters: it starts five masters in this process.
func fiveMasters() (masters *redlocktest.Cluster, stop func()) {
	masters, err := redlocktest.Start(5)
	if err != nil {
		log.Fatal(err)
	}
	return masters, masters.Close
}

// patient is for masters that share the processors with everything else in this process, and may answer late.
var patient = redlock.WithNodeTimeout(5 * time.Second)

// newLocker is redlock.New with the URLs of your masters.
func newLocker(masters *redlocktest.Cluster, opts ...redlock.Option) *redlock.Locker {
	locker, err := redlock.New(masters.URLs(), append(opts, patient)...)
	if err != nil {
		log.Fatal(err)
	}
	return locker
}

// lockerOnFiveMasters is for examples that do not use the masters otherwise.
func lockerOnFiveMasters(opts ...redlock.Option) (locker *redlock.Locker, stop func()) {
	masters, stopMasters := fiveMasters()
	locker = newLocker(masters, opts...)
	return locker, func() {
		locker.Close()
		stopMasters()
	}
}

// twoLockersOnFiveMasters replaces two processes. The options are those of the first.
func twoLockersOnFiveMasters(opts ...redlock.Option) (a, b *redlock.Locker, stop func()) {
	masters, stopMasters := fiveMasters()
	a, b = newLocker(masters, opts...), newLocker(masters)
	return a, b, func() {
		a.Close()
		b.Close()
		stopMasters()
	}
}

func Example() {
	masters, err := redlocktest.Start(5) // instead of Redis masters: five in this process
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()

	locker, err := redlock.New(masters.URLs()) // redis://10.0.0.1, redis://10.0.0.2, …
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	ctx := context.Background()
	err = locker.Do(ctx, "stock:4711", func(ctx context.Context, _ *redlock.Lock) error {
		fmt.Println("nobody else is here")
		return ctx.Err() // ends when the hold does
	})
	fmt.Println(err)
	// Output:
	// nobody else is here
	// <nil>
}

// New refuses arguments that cannot work, but not nodes that cannot be reached. A host, with a port or without, is
// enough. What is special in a user or password must be percent-encoded.
func ExampleNew() {
	node := url.URL{Scheme: "rediss", User: url.UserPassword("app", "p@ss/wo#rd"), Host: "10.0.0.1:6380", Path: "/2"}
	fmt.Println(node.String())

	_, err := redlock.New([]string{"10.0.0.1", "redis://10.0.0.1:6379"})
	fmt.Println(err)
	_, err = redlock.New([]string{"rediss://app:p@ss/wo#rd@10.0.0.1:6380/2"})
	fmt.Println(errors.Is(err, redlock.ErrInvalid), strings.Contains(err.Error(), "percent-encode"))
	_, err = redlock.New([]string{"10.0.0.1"}, redlock.WithTTL(time.Microsecond))
	fmt.Println(err)
	// Output:
	// rediss://app:p%40ss%2Fwo%23rd@10.0.0.1:6380/2
	// redlock: New: invalid: nodes 1 and 2 are the same server 10.0.0.1:6379: it would have two votes
	// true true
	// redlock: New: invalid: TTL 1µs: Redis counts in milliseconds, 1ms is the least
}

// An environment variable has the nodes, with commas or blanks between them.
func ExampleParseNodes() {
	fmt.Printf("%q\n", redlock.ParseNodes("10.0.0.1, 10.0.0.2,\n10.0.0.3"))
	// Output:
	// ["10.0.0.1" "10.0.0.2" "10.0.0.3"]
}

// Lock waits. The context bounds the wait and has no influence on the hold.
func ExampleLocker_Lock() {
	masters, err := redlocktest.Start(5) // instead of Redis masters: five in this process
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()
	a, err := redlock.New(masters.URLs())
	if err != nil {
		log.Fatal(err)
	}
	defer a.Close()
	b, err := redlock.New(masters.URLs()) // usually another process
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()

	lock, err := a.Lock(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_, err = b.Lock(ctx, "report")
	fmt.Println("somebody has it:", errors.Is(err, redlock.ErrTaken))
	fmt.Println("I ran out of time:", errors.Is(err, context.DeadlineExceeded))
	// Output:
	// somebody has it: true
	// I ran out of time: true
}

// TryLock makes one attempt. Its error distinguishes "another client has it" from "too few nodes answered".
func ExampleLocker_TryLock() {
	masters, stop := fiveMasters()
	defer stop()
	a := newLocker(masters)
	defer a.Close()
	b := newLocker(masters)
	defer b.Close()
	ctx := context.Background()

	try := func(name string) {
		lock, err := b.TryLock(ctx, name)
		switch {
		case err == nil:
			fmt.Println("mine")
			_ = lock.Unlock()
		case errors.Is(err, redlock.ErrTaken):
			fmt.Println("somebody else is at it")
		case errors.Is(err, redlock.ErrNoQuorum):
			fmt.Println("too few nodes answered")
		default:
			fmt.Println(err)
		}
	}

	lock, err := a.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock()
	try("report")
	masters.Kill(0, 1) // three of five are a majority
	try("invoice")
	masters.Kill(2)
	try("invoice")
	// Output:
	// somebody else is at it
	// mine
	// too few nodes answered
}

// Do locks, runs the function and unlocks. Its error wraps that of the function.
func ExampleLocker_Do() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	errSoldOut := errors.New("sold out")
	err := locker.Do(context.Background(), "stock:4711", func(_ context.Context, lock *redlock.Lock) error {
		fmt.Println("holding", lock.Name())
		return errSoldOut
	})
	fmt.Println(errors.Is(err, errSoldOut))
	// Output:
	// holding stock:4711
	// true
}

// A handler for HTTP. ErrNotAcquired says that the function was not called.
func ExampleLocker_Do_hTTP() {
	locker, stop := lockerOnFiveMasters()
	defer stop()

	sell := func(w http.ResponseWriter, r *http.Request) {
		sold := false
		err := locker.Do(r.Context(), "stock:4711", func(ctx context.Context, lock *redlock.Lock) error {
			err := takeFromStock(ctx, lock.Token())
			sold = err == nil
			return err
		}, redlock.WithMaxWait(50*time.Millisecond))
		switch notAcquired := errors.Is(err, redlock.ErrNotAcquired); {
		case err == nil:
		case notAcquired && errors.Is(err, redlock.ErrTaken):
			http.Error(w, "somebody else is at it", http.StatusConflict)
		case notAcquired:
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case sold && !errors.Is(err, redlock.ErrLost): // only the release is not confirmed
			log.Print(err)
		default: // it has failed, or may have run unprotected
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}
	ask := func() {
		answer := httptest.NewRecorder()
		sell(answer, httptest.NewRequest(http.MethodPost, "/sell", nil))
		fmt.Println(answer.Code)
	}
	ask()
	lock, err := locker.Lock(context.Background(), "stock:4711")
	if err != nil {
		log.Fatal(err)
	}
	ask()
	_ = lock.Unlock()
	// Output:
	// 200
	// 409
}

// takeFromStock would be a transaction that a smaller token cannot commit.
func takeFromStock(context.Context, int64) error { return nil }

// Close ends the remaining holds; it does not unlock them on the nodes.
func ExampleLocker_Close() {
	masters, stop := fiveMasters()
	defer stop()
	locker := newLocker(masters)

	lock, err := locker.Lock(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	locker.Close()
	fmt.Println(lock.Err())
	_, err = locker.TryLock(context.Background(), "report")
	fmt.Println(errors.Is(err, redlock.ErrClosed))
	// Output:
	// redlock: closed
	// true
}
