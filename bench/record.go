package main

import (
	"runtime"
	"sync/atomic"
	"syscall"
	"time"
)

// A recorder is what one goroutine saw. Owned by it until the round is over.
type recorder struct {
	phase   *atomic.Int32
	done    int // cycles completed while the clock ran
	cycle   hist
	acquire hist
	errors  int
	example error
}

const (
	warming int32 = iota
	running
	stopping
)

// cycles records n lock+unlock cycles. One that began before the end of the round and
// outlived it counts for the latencies, not for the rate: else the slowest would not be seen.
func (r *recorder) cycles(took time.Duration, n int) {
	switch r.phase.Load() {
	case warming:
		return
	case running:
		r.done += n
	}
	for range n {
		r.cycle.add(took)
	}
}

func (r *recorder) failed(err error) {
	if r.phase.Load() != warming {
		r.errors++
		r.example = err
	}
}

// usage is what a process has used so far.
type usage struct {
	at      time.Time
	client  time.Duration
	servers time.Duration
	mallocs uint64
	bytes   uint64
}

func snapshot(servers []*server) usage {
	var u usage
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.mallocs, u.bytes = mem.Mallocs, mem.TotalAlloc
	for _, s := range servers {
		u.servers += s.cpu()
	}
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	u.client = time.Duration(r.Utime.Nano() + r.Stime.Nano())
	u.at = time.Now()
	return u
}

// A sample is one round of one contestant. Times are in µs, CPU and memory are for each cycle.
type sample struct {
	Cycles     int     `json:"cycles"`
	PerSecond  float64 `json:"cycles_per_s"`
	P50        float64 `json:"p50_us"`
	P99        float64 `json:"p99_us"`
	P999       float64 `json:"p999_us"`
	Max        float64 `json:"max_us"`
	AcquireP50 float64 `json:"acquire_p50_us"`
	Allocs     float64 `json:"allocs"`
	Bytes      float64 `json:"bytes"`
	ClientCPU  float64 `json:"client_cpu_us"`
	ServerCPU  float64 `json:"server_cpu_us"`
	Orphans    int     `json:"orphans"`
	Errors     int     `json:"errors"`
	Example    string  `json:"error_example,omitempty"`
	Hung       bool    `json:"hung,omitempty"`

	Wait *waits `json:"wait,omitempty"` // of contended scenarios
	Held *held  `json:"held,omitempty"` // of renewals

	Crowd *crowd `json:"crowd,omitempty"`
}

func (s *sample) fill(recs []*recorder, before, after usage) {
	var cycle, acquire hist
	for _, r := range recs {
		s.Cycles += r.done
		s.Errors += r.errors
		if r.example != nil {
			s.Example = r.example.Error()
		}
		cycle.merge(&r.cycle)
		acquire.merge(&r.acquire)
	}
	s.P50, s.P99, s.P999 = us(cycle.quantile(.5)), us(cycle.quantile(.99)), us(cycle.quantile(.999))
	s.Max = us(cycle.longest)
	s.AcquireP50 = us(acquire.quantile(.5))
	s.perCycle(before, after)
}

// perCycle works out what a cycle has cost.
func (s *sample) perCycle(before, after usage) {
	n := float64(max(s.Cycles, 1))
	s.PerSecond = float64(s.Cycles) / after.at.Sub(before.at).Seconds()
	s.Allocs = float64(after.mallocs-before.mallocs) / n
	s.Bytes = float64(after.bytes-before.bytes) / n
	s.ClientCPU = us(after.client-before.client) / n
	s.ServerCPU = us(after.servers-before.servers) / n
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
