package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/redisserver"
)

// BenchmarkCycle is one lock and unlock on real masters, in the form that benchstat reads:
//
//	go test -C bench -run '^$' -bench Cycle -count 10 > new.txt
//	benchstat old.txt new.txt
func BenchmarkCycle(b *testing.B) {
	servers := cases.Must(startServers(5, redisserver.Config{}))(b)
	defer stopServers(servers)
	for _, c := range []contestant{redlockFenced5, redlockPlain5} {
		for _, goroutines := range []int{1, 64, 256} {
			b.Run(fmt.Sprintf("lock=%s/goroutines=%d", c.name, goroutines), func(b *testing.B) {
				cl := cases.Must(c.open(addrs(servers)[:c.nodes], wish{ttl: lockTTL, goroutines: goroutines}))(b)
				defer cl.close()
				workers := cases.Must(cl.workers(goroutines))(b)
				names := namesFor(namePrefix, goroutines, usualNames)
				var left atomic.Int64
				left.Store(int64(b.N))
				var group sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				before := snapshot(servers)
				for g, w := range workers {
					group.Go(func() {
						for i := 0; left.Add(-1) >= 0; i++ {
							if err := w.cycle(context.Background(), names[g][i%usualNames]); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				group.Wait()
				after := snapshot(servers)
				b.StopTimer()
				b.ReportMetric(us(after.since(before))/float64(b.N), "server-µs/op")
				b.ReportMetric(us(after.client-before.client)/float64(b.N), "client-µs/op")
			})
		}
	}
}
