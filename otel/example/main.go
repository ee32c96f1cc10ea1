// A program whose locks Prometheus can watch. It starts five masters of its own, uses locks of all kinds, and has
// one master die now and then:
//
//	go run -C otel ./example
//	curl localhost:9464/metrics
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/quorumlock/redlock"
	redlockotel "github.com/quorumlock/redlock/otel"
	"github.com/quorumlock/redlock/redlocktest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, "localhost:9464", func(addr net.Addr) { fmt.Printf("http://%s/metrics\n", addr) }); err != nil {
		log.Fatal(err)
	}
}

// run serves the metrics until ctx is done.
func run(ctx context.Context, addr string, serving func(net.Addr)) error {
	masters, err := redlocktest.Start(5)
	if err != nil {
		return err
	}
	defer masters.Close()

	// This is all that a program needs: an exporter, a provider, an observer.
	exporter, err := prometheus.New()
	if err != nil {
		return err
	}
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter))
	observe, err := redlockotel.Observer(redlockotel.WithMeterProvider(provider))
	if err != nil {
		return err
	}
	locker, err := redlock.New(masters.URLs(), redlock.WithObserver(observe), redlock.WithTTL(2*time.Second),
		redlock.WithNodeTimeout(2*time.Second))
	if err != nil {
		return err
	}
	defer locker.Close()

	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.Handler())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	serving(listener.Addr())

	var work sync.WaitGroup
	defer work.Wait()
	for range 8 {
		work.Go(func() { use(ctx, locker) })
	}
	work.Go(func() { torment(ctx, masters) })
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// use works under locks that others want, too.
func use(ctx context.Context, locker *redlock.Locker) {
	for ctx.Err() == nil {
		name := fmt.Sprintf("stock:%d", rand.IntN(4))
		err := locker.Do(ctx, name, func(ctx context.Context, _ *redlock.Lock) error {
			select {
			case <-time.After(rand.N(20 * time.Millisecond)):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		if err != nil && ctx.Err() == nil {
			log.Print(err)
		}
	}
}

// torment has one master after the other die and come back.
func torment(ctx context.Context, masters *redlocktest.Cluster) {
	for victim := 0; ; victim = (victim + 1) % masters.Len() {
		for _, step := range []func(...int){masters.Kill, func(i ...int) {
			if err := masters.Revive(i...); err != nil {
				log.Print(err)
			}
		}} {
			select {
			case <-time.After(20 * time.Second):
				step(victim)
			case <-ctx.Done():
				return
			}
		}
	}
}
