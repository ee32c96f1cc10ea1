package main

import (
	"math/bits"
	"time"
)

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
