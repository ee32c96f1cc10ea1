// An HTTP service on several machines that serves each user one request at a time. A second request of the same user
// gets 409 if the first takes long; those of other users are not concerned.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/redlocktest"
)

// alone does the work of a request under the lock of its user.
func alone(locker *redlock.Locker, work func(ctx context.Context, r *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, done := "user:"+r.Header.Get("X-User"), false
		err := locker.Do(r.Context(), name, func(ctx context.Context, _ *redlock.Lock) error {
			err := work(ctx, r)
			done = err == nil
			return err
		}, redlock.WithMaxWait(3*time.Second))
		switch {
		case errors.Is(err, redlock.ErrNotAcquired) && errors.Is(err, redlock.ErrTaken):
			http.Error(w, "another request of yours is under way", http.StatusConflict)
		case errors.Is(err, redlock.ErrNotAcquired): // too few masters answered, or the client has gone
			http.Error(w, "try again later", http.StatusServiceUnavailable)
		case errors.Is(err, redlock.ErrLost): // another request of the user may have begun meanwhile
			http.Error(w, "the lock was lost", http.StatusInternalServerError)
		case !done:
			http.Error(w, err.Error(), http.StatusInternalServerError)
		default:
			if err != nil { // too few masters have confirmed the unlock: the others let go at the end of the TTL
				log.Print(err)
			}
			fmt.Fprintln(w, "done")
		}
	})
}

// Masters that share this process's processors with everything else may take their time.
var patient = redlock.WithNodeTimeout(5 * time.Second)

func main() {
	masters, err := redlocktest.Start(5) // stands in for your Redis masters
	if err != nil {
		log.Fatal(err)
	}
	defer masters.Close()

	entered, leave := make(chan bool), make(chan bool)
	work := func(_ context.Context, r *http.Request) error {
		if r.URL.Path == "/slow" {
			entered <- true
			<-leave
		}
		return nil
	}
	var machines [2]*httptest.Server
	for i := range machines {
		locker, err := redlock.New(masters.URLs(), patient)
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		machines[i] = httptest.NewServer(alone(locker, work))
		defer machines[i].Close()
	}
	get := func(machine int, user, path string) int {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, machines[machine].URL+path, nil)
		if err != nil {
			log.Fatal(err)
		}
		r.Header.Set("X-User", user)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			log.Fatal(err)
		}
		reply.Body.Close()
		return reply.StatusCode
	}

	slow := make(chan int)
	go func() { slow <- get(0, "ann", "/slow") }()
	<-entered
	fmt.Println("ann, on another machine:", get(1, "ann", "/"))
	fmt.Println("ben, meanwhile:", get(1, "ben", "/"))
	masters.Kill(0, 1)
	fmt.Println("cid, with two masters down:", get(0, "cid", "/"))
	masters.Kill(2)
	leave <- true
	fmt.Println("ann's first request, done when three are down:", <-slow)
	fmt.Println("ann, with three masters down:", get(1, "ann", "/"))
}
