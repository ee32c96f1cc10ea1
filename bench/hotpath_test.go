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
	benchmarkCycle(b, usualNames, []int{1, 64, 256}, redlockFenced5, redlockPlain5, redlockFenced1, redlockPlain1)
}

// BenchmarkAgain is BenchmarkCycle where each goroutine has one name: with WithAsyncUnlock, a release and the next
// acquire of that name meet in a batch.
func BenchmarkAgain(b *testing.B) {
	benchmarkCycle(b, 1, []int{1, 16, 64}, redlockFenced5, redlockPlain5, redlockAsync5, redlockBoth5)
}

func benchmarkCycle(b *testing.B, each int, counts []int, contestants ...contestant) {
	b.Helper()
	servers := cases.Must(startServers(5, redisserver.Config{}))(b)
	defer stopServers(servers)
	for _, c := range contestants {
		for _, goroutines := range counts {
			b.Run(fmt.Sprintf("lock=%s/goroutines=%d", c.name, goroutines), func(b *testing.B) {
				cl := cases.Must(c.open(addrs(servers)[:c.nodes], wish{ttl: lockTTL, goroutines: goroutines}))(b)
				defer cl.close()
				workers := cases.Must(cl.workers(goroutines))(b)
				names := namesFor(namePrefix, goroutines, each)
				var left atomic.Int64
				left.Store(int64(b.N))
				var group sync.WaitGroup
				b.ReportAllocs()
				b.ResetTimer()
				before := snapshot(servers)
				for g, w := range workers {
					group.Go(func() {
						for i := 0; left.Add(-1) >= 0; i++ {
							if err := w.cycle(context.Background(), names[g][i%each]); err != nil {
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
