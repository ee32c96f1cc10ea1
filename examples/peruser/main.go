// An HTTP service on several machines that serves each user one request at a time. A second request of the same
// user gets 409, those of other users are not concerned.
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

// alone runs the handler under the lock of the request's user. The request's context ends when the lock is lost.
func alone(locker *redlock.Locker, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock, err := locker.TryLock(r.Context(), "user:"+r.Header.Get("X-User"))
		switch {
		case errors.Is(err, redlock.ErrTaken):
			http.Error(w, "another request of yours is under way", http.StatusConflict)
			return
		case err != nil: // too few masters answered, or the client has gone
			http.Error(w, "try again later", http.StatusServiceUnavailable)
			return
		}
		defer func() {
			// It ends the hold even if the client has gone. Its error says that the nodes will let go at
			// the end of the TTL; the reply is written by now.
			if err := lock.Unlock(r.Context()); err != nil {
				log.Print(err)
			}
		}()
		ctx, cancel := lock.Context(redlock.NewContext(r.Context(), lock))
		defer cancel()
		next.ServeHTTP(w, r.WithContext(ctx))
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
	work := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		lock, _ := redlock.FromContext(r.Context())
		if r.URL.Path == "/slow" {
			entered <- true
			<-leave
		}
		fmt.Fprintln(w, "done under", lock.Name())
	})
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
	// Not ben: a majority has let go of ben's lock, and who asks just three masters, just now, may find it on one of the
	// others.
	fmt.Println("cid, with two masters down:", get(0, "cid", "/"))
	leave <- true
	fmt.Println("ann's first request:", <-slow)
	masters.Kill(2)
	fmt.Println("ann, with three masters down:", get(1, "ann", "/"))
}
