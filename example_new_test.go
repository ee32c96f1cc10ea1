package redlock_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/redlocktest"
)

// The options that only New takes.

// A readiness probe answers by the present state, since the probe's own interval is the pace at which it is repeated. A
// program that starts can wait instead, with a longer deadline.
func ExampleInspector_Ready() {
	masters, stop := fiveMasters()
	defer stop()
	locker, err := redlock.New(masters.URLs(), patient)
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println("at the start:", locker.Ready(ctx))

	probe := func(w http.ResponseWriter, r *http.Request) {
		now, cancel := context.WithCancel(r.Context())
		cancel() // Ready does not wait then
		if err := locker.Ready(now); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}
	answer := httptest.NewRecorder()
	probe(answer, httptest.NewRequest(http.MethodGet, "/ready", nil))
	fmt.Println(answer.Code)
	// Output:
	// at the start: <nil>
	// 200
}

// A program that is told to stop lets its work finish.
func ExampleLocker_Shutdown() {
	locker, stop := lockerOnFiveMasters()
	defer stop()
	ctx := context.Background()

	begun, done := make(chan struct{}), make(chan error)
	go func() {
		done <- locker.Do(ctx, "import", func(ctx context.Context, _ *redlock.Lock) error {
			close(begun)
			time.Sleep(50 * time.Millisecond)
			return locker.Do(ctx, "stock", func(context.Context, *redlock.Lock) error { return nil }) // inside a hold
		})
	}()
	<-begun
	bounded, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	fmt.Println("shutdown:", locker.Shutdown(bounded))
	fmt.Println("work:", <-done)
	fmt.Println(locker.TryLock(ctx, "import"))
	// Output:
	// shutdown: <nil>
	// work: <nil>
	// <nil> redlock: lock import: closed
}

// A frozen node costs one node timeout, once; then calls skip it until it answers.
func ExampleWithNodeTimeout() {
	masters, stop := fiveMasters()
	defer stop()
	locker, _ := redlock.New(masters.URLs(), redlock.WithNodeTimeout(100*time.Millisecond))
	defer locker.Close()
	masters.Pause(0, 1, 2)

	_, err := locker.TryLock(context.Background(), "import")
	fmt.Println(errors.Is(err, redlock.ErrNoQuorum))
	// A node's time-out is not the caller's deadline.
	fmt.Println(errors.Is(err, context.DeadlineExceeded))
	// Output:
	// true
	// false
}

// Two applications that share nodes use different keys for the same name.
func ExampleWithPrefix() {
	masters, stop := fiveMasters()
	defer stop()
	shop, _ := redlock.New(masters.URLs(), patient, redlock.WithPrefix("shop:"))
	defer shop.Close()
	bank, _ := redlock.New(masters.URLs(), patient, redlock.WithPrefix("bank:"))
	defer bank.Close()
	ctx := context.Background()

	a, err := shop.TryLock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer a.Unlock()
	b, err := bank.TryLock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	defer b.Unlock()
	fmt.Println(a.Name(), b.Name())
	// Output:
	// report report
}

// The fifth master is replaced while locks are in use. Clients with both lists exclude those that have one of them, the
// old or the new; and a client that has only the new one is refused until none is left that has only the old one.
func ExampleWithNewNodes() {
	masters, err := redlocktest.Start(6)
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()
	urls := masters.URLs()
	before, after := urls[:5], append(urls[:4:4], urls[5])
	old, _ := redlock.New(before, patient)
	defer old.Close()
	both, _ := redlock.New(before, patient, redlock.WithNewNodes(after))
	defer both.Close()
	ctx := context.Background()

	lock, err := old.Lock(ctx, "report")
	if err != nil {
		log.Fatal(err)
	}
	_, err = both.TryLock(ctx, "report")
	fmt.Println("taken:", errors.Is(err, redlock.ErrTaken))
	_, err = redlock.New(after, patient)
	fmt.Println("refused:", errors.As(err, new(*redlock.ListConflictError)))

	lock.Unlock()
	old.Close() // it was the last one with the old list alone
	next, err := redlock.New(after, patient)
	if err != nil {
		log.Fatal(err)
	}
	defer next.Close()
	fmt.Println("welcome")
	// Output:
	// taken: true
	// refused: true
	// welcome
}

// A monitor counts the clients by their lists of nodes, is none itself, and tells what is wrong with nodes: here
// nothing.
func ExampleNewInspector() {
	masters, stop := fiveMasters()
	defer stop()
	for range 3 {
		client, err := redlock.New(masters.URLs(), patient)
		if err != nil {
			log.Fatal(err)
		}
		defer client.Close()
	}
	monitor, err := redlock.NewInspector(masters.URLs(), patient)
	if err != nil {
		log.Fatal(err)
	}
	defer monitor.Close()
	status := monitor.Status(context.Background())
	for _, use := range status[0].Clients {
		fmt.Printf("%d clients with %d list of %d nodes; conflict: %t\n",
			use.Clients, len(use.Lists), len(use.Lists[0]), use.Conflict)
	}
	for _, node := range status {
		for _, f := range node.Findings {
			if f.Severity >= finding.Degraded {
				fmt.Println(node.Addr, f.Severity, f.Code, f.Text)
			}
		}
	}
	// Output:
	// 3 clients with 1 list of 5 nodes; conflict: false
}

// All clients of the nodes set the same longest TTL. A TTL that is given to New raises it; one that is given to a call
// does not.
func ExampleWithMaxTTL() {
	masters, stop := fiveMasters()
	defer stop()
	locker, err := redlock.New(masters.URLs(), patient, redlock.WithMaxTTL(50*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	_, err = locker.Lock(context.Background(), "report", redlock.WithTTL(50*time.Second))
	fmt.Println(err)
	_, err = locker.Lock(context.Background(), "report", redlock.WithTTL(time.Minute))
	fmt.Println(errors.Is(err, redlock.ErrInvalid))
	// Output:
	// <nil>
	// true
}

// An observer receives events: here those of locks; there are events of nodes, too.
func ExampleWithObserver() {
	masters, stop := fiveMasters()
	defer stop()
	locker, err := redlock.New(masters.URLs(), patient, redlock.WithObserver(func(ev redlock.Event) {
		switch ev.Kind {
		case redlock.EventAcquire, redlock.EventEnd:
			fmt.Println(ev.Kind, ev.Name, ev.Err == nil)
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
	lock.Unlock()
	locker.Close() // then the observer has received all events
	// Output:
	// acquire report true
	// acquire report false
	// end report true
}

// A wait is told of when it begins, not only when it is over: here, so that the holder makes room.
func ExampleWithObserver_waiting() {
	masters, stop := fiveMasters()
	defer stop()
	begun := make(chan struct{})
	locker, err := redlock.New(masters.URLs(), patient, redlock.WithObserver(func(ev redlock.Event) {
		switch {
		case ev.Kind == redlock.EventWait && ev.Duration == 0:
			fmt.Println("waits for", ev.Name, errors.Is(ev.Err, redlock.ErrTaken))
			close(begun)
		case ev.Kind == redlock.EventWait:
			fmt.Println("has waited for", ev.Name, ev.Err)
		}
	}))
	if err != nil {
		log.Fatal(err)
	}
	first, err := locker.Lock(context.Background(), "report")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		<-begun
		first.Unlock()
	}()
	if _, err = locker.Lock(context.Background(), "report"); err != nil {
		log.Fatal(err)
	}
	locker.Close()
	// Output:
	// waits for report true
	// has waited for report <nil>
}

// The logger gets lost holds, failures and problems of nodes; at level Debug, everything.
func ExampleWithLogger() {
	masters, stop := fiveMasters()
	defer stop()
	locker, err := redlock.New(masters.URLs(), patient, redlock.WithLogger(slog.New(slog.NewTextHandler(os.Stderr, nil))))
	fmt.Println(err)
	defer locker.Close()
	// Output:
	// <nil>
}

// Dial makes every connection; it could also ask a Sentinel, or use a tunnel.
func ExampleNodeConfig_dial() {
	masters, stop := fiveMasters()
	defer stop()

	dialled := make(chan string, masters.Len())
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		dialled <- network
		return new(net.Dialer).DialContext(ctx, network, address)
	}
	locker, err := redlock.New(masters.URLs(), patient, redlock.WithNodeConfig(redlock.NodeConfig{Dial: dial}))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	fmt.Println(<-dialled)
	// Output:
	// tcp
}

// Client certificates and private roots: any tls.Config, for rediss:// nodes.
func ExampleNodeConfig_tLS() {
	certificate, err := tls.LoadX509KeyPair("client.crt", "client.key")
	if err != nil {
		log.Fatal(err)
	}
	locker, err := redlock.New([]string{"rediss://10.0.0.1", "rediss://10.0.0.2", "rediss://10.0.0.3"},
		redlock.WithNodeConfig(redlock.NodeConfig{TLS: &tls.Config{
			MinVersion:   tls.VersionTLS12,
			Certificates: []tls.Certificate{certificate},
		}}))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
}

// Credentials reads the password when a node is connected: something else may rotate it meanwhile.
func ExampleNodeConfig_credentials() {
	masters, stop := fiveMasters()
	defer stop()
	file, err := os.CreateTemp("", "redis-password-") // empty, since these masters want no password
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(file.Name())

	locker, err := redlock.New(masters.URLs(), patient, redlock.WithNodeConfig(redlock.NodeConfig{
		Credentials: func(context.Context, string) (user, password string, err error) {
			secret, err := os.ReadFile(file.Name())
			return "app", strings.TrimSpace(string(secret)), err
		},
	}))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locker.Do(context.Background(), "report", func(context.Context, *redlock.Lock) error {
		fmt.Println("connected and locked")
		return nil
	})
	fmt.Println(err)
	// Output:
	// connected and locked
	// <nil>
}
