package main

import (
	"math/bits"
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
	errors  int
	example error

	// When anybody last acquired a lock, in ns since 1970, and the longest time until this goroutine was the next. nil:
	// nobody asks.
	last *atomic.Int64
	gap  time.Duration
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

// acquisition records when a lock was acquired.
func (r *recorder) acquisition() {
	if r.last == nil {
		return
	}
	now := time.Now().UnixNano()
	if before := r.last.Swap(now); r.phase.Load() != warming {
		r.gap = max(r.gap, time.Duration(now-before))
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
	servers []time.Duration
	mallocs uint64
	bytes   uint64
}

func snapshot[S interface{ PID() int }](servers []S) usage {
	var u usage
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	u.mallocs, u.bytes = mem.Mallocs, mem.TotalAlloc
	for _, s := range servers {
		u.servers = append(u.servers, cpuOf(s.PID()))
	}
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	u.client, u.at = time.Duration(r.Utime.Nano()+r.Stime.Nano()), time.Now()
	return u
}

// since is the CPU time of all servers since an earlier moment.
func (u usage) since(before usage) (sum time.Duration) {
	for i, cpu := range u.servers {
		sum += max(0, cpu-before.servers[i]) // of one that was killed in between nothing is known
	}
	return sum
}

// figuresOf a round are those of its recorders.
func figuresOf(recs []*recorder, before, after usage) (f map[string]float64, example error) {
	var cycle hist
	var gap time.Duration
	done, errs := 0, 0
	for _, r := range recs {
		done += r.done
		errs += r.errors
		if r.example != nil {
			example = r.example
		}
		cycle.merge(&r.cycle)
		gap = max(gap, r.gap)
	}
	f = perCycle(done, before, after)
	f["p50 µs"], f[p99], f["p99.9 µs"] = us(cycle.quantile(.5)), us(cycle.quantile(.99)), us(cycle.quantile(.999))
	f[longest] = us(cycle.longest)
	if last := recs[0].last; last != nil {
		f[without] = us(max(gap, after.at.Sub(time.Unix(0, last.Load())))) / 1000
	}
	f[failed] = float64(errs)
	return f, example
}

// perCycle works out what a cycle has cost.
func perCycle(cycles int, before, after usage) map[string]float64 {
	n := float64(max(cycles, 1))
	return map[string]float64{
		rate:      float64(cycles) / after.at.Sub(before.at).Seconds(),
		"allocs":  float64(after.mallocs-before.mallocs) / n,
		"bytes":   float64(after.bytes-before.bytes) / n,
		clientCPU: us(after.client-before.client) / n,
		serverCPU: us(after.since(before)) / n,
		allCPU:    us(after.client-before.client+after.since(before)) / n,
	}
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// A hist counts durations in buckets of 1.6 % width, so that percentiles cost nothing
// while the clock runs. Owned by one goroutine until the round is over.
type hist struct {
	count   [buckets]uint32
	n       uint64
	longest time.Duration
}

const (
	mantissa = 6 // bits
	buckets  = (40 - mantissa) << mantissa
)

func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-mantissa-1, 0)
	return min(shift<<mantissa+int(v>>shift), buckets-1)
}

// middle is the value that stands for all those in bucket i.
func middle(i int) time.Duration {
	shift := max(i>>mantissa-1, 0)
	low := (i - shift<<mantissa) << shift
	return time.Duration(low + 1<<shift/2)
}

func (h *hist) add(d time.Duration) {
	h.count[bucket(d)]++
	h.n++
	h.longest = max(h.longest, d)
}

func (h *hist) merge(o *hist) {
	for i, n := range o.count {
		h.count[i] += n
	}
	h.n += o.n
	h.longest = max(h.longest, o.longest)
}

// quantile is the smallest recorded duration with a share of at least q at or below it.
func (h *hist) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank, seen := uint64(q*float64(h.n)), uint64(0)
	for i, n := range h.count {
		if seen += uint64(n); seen > rank {
			return min(middle(i), h.longest)
		}
	}
	return h.longest
}
