package redlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/quorumlock/redlock"
)

// Given to New an option is the default, given to a call an exception.
func ExampleWithTTL() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs(), redlock.WithTTL(30*time.Second))
	defer locker.Close()
	ctx := context.Background()

	for _, opts := range [][]redlock.Option{nil, {redlock.WithTTL(5 * time.Second)}} {
		begun := time.Now()
		lock, err := locker.Lock(ctx, "import", opts...)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(lock.Until().Sub(begun).Round(time.Second))
		_ = lock.Unlock(ctx)
	}
	// Output:
	// 30s
	// 5s
}

// A hold that is not renewed ends after its TTL, and says so.
func ExampleWithoutRenewal() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs(), redlock.WithTTL(100*time.Millisecond), redlock.WithoutRenewal())
	defer locker.Close()

	err := locker.Do(context.Background(), "import", func(ctx context.Context) error {
		<-ctx.Done()
		return nil
	})
	fmt.Println(errors.Is(err, redlock.ErrLost))
	// Output:
	// true
}

// A limit for a job that hangs: renewal alone would keep its lock for ever.
func ExampleWithMaxHold() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs())
	defer locker.Close()

	hang := func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	err := locker.Do(context.Background(), "import", hang,
		redlock.WithTTL(400*time.Millisecond), redlock.WithMaxHold(150*time.Millisecond))
	fmt.Println(errors.Is(err, redlock.ErrMaxHold))
	// Output:
	// true
}

// Three attempts, 5 ms apart, and no more.
func ExampleWithMaxAttempts() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs())
	defer locker.Close()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)

	asked := 0
	_, err = locker.Lock(ctx, "import", redlock.WithMaxAttempts(3), redlock.WithBackoff(func(attempts int) time.Duration {
		asked = attempts + 1
		return 5 * time.Millisecond
	}))
	fmt.Println(errors.Is(err, redlock.ErrTaken), asked)
	// Output:
	// true 3
}

// Jitter draws each pause from a range that grows to a limit.
func ExampleJitter() {
	backoff := redlock.Jitter(10*time.Millisecond, 100*time.Millisecond)
	for attempt := 1; attempt <= 5; attempt++ {
		pause := backoff(attempt)
		fmt.Println(pause >= 10*time.Millisecond && pause <= 100*time.Millisecond)
	}
	// Output:
	// true
	// true
	// true
	// true
	// true
}

// A hold with less time left than the work needs is not worth having.
func ExampleWithMinValidity() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs())
	defer locker.Close()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "import", redlock.WithTTL(10*time.Second), redlock.WithMinValidity(9*time.Second))
	if err != nil {
		log.Fatal(err) // where acquiring took more than 0.9 s
	}
	defer lock.Unlock(ctx)
	fmt.Println(time.Until(lock.Until()) > 8*time.Second)
	// Output:
	// true
}

// Ten per cent, for nodes whose clocks chrony may slew by its default limit of 8.3 %.
func ExampleWithDrift() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs(), redlock.WithDrift(0.1, 2*time.Millisecond))
	defer locker.Close()
	ctx := context.Background()

	begun := time.Now()
	lock, err := locker.Lock(ctx, "import", redlock.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println(lock.Until().Sub(begun).Round(100 * time.Millisecond))
	// Output:
	// 9s
}

// A frozen node costs one node timeout, once; then it is done without until it answers.
func ExampleWithNodeTimeout() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs(), redlock.WithNodeTimeout(100*time.Millisecond))
	defer locker.Close()
	masters.Pause(0, 1, 2)

	begun := time.Now()
	_, err := locker.TryLock(context.Background(), "import")
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum), time.Since(begun) < time.Second)
	// A node's time-out is not the caller's deadline.
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true true
	// false
}

// Two applications that share nodes keep out of each other's way.
func ExampleWithPrefix() {
	masters, stop := fiveMasters()
	defer stop()
	shop, _ := redlock.New(masters.URLs(), redlock.WithPrefix("shop:"))
	defer shop.Close()
	bank, _ := redlock.New(masters.URLs(), redlock.WithPrefix("bank:"))
	defer bank.Close()
	ctx := context.Background()

	a, err := shop.TryLock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer a.Unlock(ctx)
	b, err := bank.TryLock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer b.Unlock(ctx)
	fmt.Println(a.Name(), b.Name())
	// Output:
	// report report
}

// Without tokens the nodes get a plain SET NX PX, as from other Redlock clients.
func ExampleWithoutFencing() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs())
	defer locker.Close()
	ctx := context.Background()

	lock, err := locker.Lock(ctx, "cache:warm", redlock.WithoutFencing())
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Unlock(ctx)
	fmt.Println(lock.Token())
	// Output:
	// 0
}

// Unlock does not wait for the nodes; the same Locker can still lock the name again at once.
func ExampleWithAsyncUnlock() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs(), redlock.WithAsyncUnlock())
	defer locker.Close() // waits for what is on its way
	ctx := context.Background()

	for range 3 {
		lock, err := locker.TryLock(ctx, "counter")
		fmt.Println(err)
		lock.Unlock(ctx)
	}
	// Output:
	// <nil>
	// <nil>
	// <nil>
}

// An observer is told what happens: here of locks; there are events of nodes, too.
func ExampleWithObserver() {
	masters, stop := fiveMasters()
	defer stop()
	locker, err := redlock.New(masters.URLs(), redlock.WithObserver(func(ev redlock.Event) {
		switch ev.Kind {
		case redlock.EventAcquired, redlock.EventReleased:
			fmt.Println(ev.Kind, ev.Name, ev.Err)
		case redlock.EventNotAcquired:
			fmt.Println(ev.Kind, ev.Name, errors.Is(ev.Err, redlock.ErrTaken))
		default:
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	lock, err := locker.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	_, _ = locker.TryLock(ctx, "report")
	lock.Unlock(ctx)
	locker.Close() // the observer has seen everything then
	// Output:
	// acquired report <nil>
	// not acquired report true
	// released report <nil>
}

// Losses, failures and what is wrong with nodes are told to the logger; at level Debug, everything.
func ExampleWithLogger() {
	masters, stop := fiveMasters()
	defer stop()
	locker, err := redlock.New(masters.URLs(), redlock.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	fmt.Println(err)
	defer locker.Close()
	// Output:
	// <nil>
}

// A dialer that sees every connection; it could as well ask a Sentinel, or use a tunnel.
func ExampleWithDialer() {
	masters, stop := fiveMasters()
	defer stop()

	dialled := make(chan string, masters.Len())
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled <- network
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	locker, err := redlock.New(masters.URLs(), redlock.WithDialer(dial))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	fmt.Println(<-dialled)
	// Output:
	// tcp
}

// Client certificates and private roots: any tls.Config, for rediss:// nodes.
func ExampleWithTLSConfig() {
	certificate, err := tls.LoadX509KeyPair("client.crt", "client.key")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := redlock.New([]string{"rediss://10.0.0.1", "rediss://10.0.0.2", "rediss://10.0.0.3"},
		redlock.WithTLSConfig(&tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{certificate},
		}))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
}

// The retention must outlast, by far, what the nodes' clocks differ by.
func ExampleWithFenceRetention() {
	masters, stop := fiveMasters()
	defer stop()
	_, err := redlock.New(masters.URLs(), redlock.WithFenceRetention(time.Second))
	fmt.Println(errors.Is(err, redlock.ErrInvalid))
	locker, err := redlock.New(masters.URLs(), redlock.WithFenceRetention(10*time.Minute))
	fmt.Println(err)
	defer locker.Close()
	// Output:
	// true
	// <nil>
}
