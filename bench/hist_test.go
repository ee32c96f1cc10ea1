package main

import (
	"testing"
	"time"
)

func TestBucketsAreWithinTwoPercent(t *testing.T) {
	for d := time.Duration(1); d < 2*time.Minute; d += d/7 + 1 {
		got := middle(bucket(d))
		if diff := (got - d).Abs(); diff > d/50+1 {
			t.Errorf("middle(bucket(%d)) = %d", d, got)
		}
	}
}

func TestQuantile(t *testing.T) {
	var h hist
	for i := 1; i <= 1000; i++ {
		h.add(time.Duration(i) * time.Microsecond)
	}
	for q, want := range map[float64]time.Duration{
		0.5: 501 * time.Microsecond, 0.99: 991 * time.Microsecond, 1: time.Millisecond,
	} {
		if got := h.quantile(q); (got - want).Abs() > want/50 {
			t.Errorf("quantile(%v) = %s, want %s", q, got, want)
		}
	}
}
