package simtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Feature is something that a world has or does: an option, a call, what is around calls, or a fault. What goes wrong
// goes wrong where two of them meet that nobody had thought of together. So each pair is drawn by construction, from a
// covering array, and counted where it has met in fact: features of one call and its hold, and what is at work
// meanwhile.
type Feature uint8

// The features but for the faults, which follow in the order of allFaults.
const (
	// Options of calls: they meet in one call.
	WithTTL Feature = iota
	WithDrift
	WithMaxWait
	WithValue
	WithoutRenewal
	WithRenewWhile
	WithMaxHold
	WithoutFencing
	// Calls, and what is done with a hold.
	TryLock
	Lock
	Queued
	RLock
	LockAll
	Acquire
	Once
	Do
	Adopt
	Extend
	SetValue
	Nested
	// What is around them: other clients' settings, and what others do.
	OtherTTL
	OtherMaxTTL
	OtherNodeTimeout
	WithObserver
	Plain
	Login
	Trusted
	Inspect
	Check
	Watch
	Status
	Visit
	ForceUnlock
	Forget
	Restart
	Wanted // drawn apart: see array

	features // how many they are
)

var featureNames = [features]string{
	"WithTTL", "WithDrift", "WithMaxWait", "WithValue", "WithoutRenewal", "WithRenewWhile", "WithMaxHold",
	"WithoutFencing", "TryLock", "Lock", "queued", "RLock", "LockAll", "Acquire", "Once", "Do", "Adopt", "Extend",
	"SetValue", "nested", "another TTL", "another MaxTTL", "another node timeout", "observer", "RESP2",
	"slow credentials", "TrustDisk", "Inspect", "Check", "Watch", "Status", "visiting Inspector", "ForceUnlock", "Forget",
	"restart", "Wanted",
}

var (
	allFaults = append(append(slices.Clone(menu), haste...), refusal)
	total     = features + Feature(len(allFaults))
)

func (f Feature) String() string {
	if f < features {
		return featureNames[f]
	}
	return allFaults[f-features].name
}

// together reports whether two features meet only in one call.
func together(a, b Feature) bool { return min(a, b) < TryLock && max(a, b) < OtherTTL }

// set is one of features.
type set uint64

func of(all ...Feature) (s set) {
	for _, f := range all {
		s |= 1 << f
	}
	return s
}

func (s set) has(f Feature) bool { return s&(1<<f) != 0 }

// rows of the array are as many as it takes for each pair to be in some; then they come again, with all else drawn
// anew.
const rows = 96

// row returns the features that the world of a seed may have.
func row(seed uint64) set { return array()[seed%rows] }

// array is a covering array. Of a few random rows, each is the one whose pairs are the rarest so far. A row has some
// features more than others and not all kinds of faults: one in which all are likely is like every other such row, and
// never gets to where the same thing happens three times. (Swarm testing, Groce et al., ISSTA 2012.)
var array = sync.OnceValue(func() (all [rows]set) {
	met := make([]int, int(total)*int(total))
	for k := range all {
		r := rand.New(rand.NewPCG(uint64(k), 0x9a145))
		worst, part := class(r.IntN(3)), []float64{0, 0.15, 0.3, 0.6}[min(r.IntN(10), 3)]
		rarest := -1.
		for range 30 {
			var row set
			for f := range total {
				likely := 0.4
				if f >= features {
					likely = part
				}
				if f != Wanted && r.Float64() < likely && (f < features || allFaults[f-features].class <= worst) {
					row |= 1 << f
				}
			}
			gain, pairs := 0., 1.
			row.pairs(func(a, b Feature) {
				pairs++
				gain += 1 / float64(1+10*met[a*total+b])
			})
			if gain/pairs > rarest {
				all[k], rarest = row, gain/pairs
			}
		}
		all[k].pairs(func(a, b Feature) { met[a*total+b]++ })
	}
	for k := range all { // at last, so that the rows stay what they were before there was this
		if k%5 < 2 {
			all[k] |= of(Wanted)
		}
	}
	return all
})

// pairs calls f for each pair of a feature that is no fault with a larger one.
func (s set) pairs(f func(a, b Feature)) {
	for a := range features {
		for b := a + 1; b < total; b++ {
			if s.has(a) && s.has(b) {
				f(a, b)
			}
		}
	}
}

// Pairs counts how often features have met.
type Pairs [64][64]int64

// Add adds others.
func (p *Pairs) Add(o *Pairs) {
	for a := range p {
		for b := range p[a] {
			p[a][b] += o[a][b]
		}
	}
}

// Never returns the pairs that have not met, as "a × b".
func (p *Pairs) Never() (all []string) {
	(1<<total - 1 - set(0)).pairs(func(a, b Feature) {
		if p[a][b] == 0 {
			all = append(all, fmt.Sprintf("%v × %v", a, b))
		}
	})
	return all
}

// String is the matrix: a line for each feature that is no fault, a column for each feature behind it.
func (p *Pairs) String() string {
	var text strings.Builder
	for b := Feature(1); b < total; b++ {
		fmt.Fprintf(&text, "%3d: %-22v", b, b)
		if b%6 == 0 || b == total-1 {
			text.WriteByte('\n')
		}
	}
	fmt.Fprintf(&text, "%22s", "")
	for b := Feature(1); b < total; b++ {
		fmt.Fprintf(&text, "%6d", b)
	}
	for a := range features {
		fmt.Fprintf(&text, "\n%2d %-19.19v%*s", a, a, 6*a, "")
		for b := a + 1; b < total; b++ {
			fmt.Fprintf(&text, "%6d", p[a][b])
		}
	}
	return text.String()
}

// use is a call and its hold, or something else that is at work for a while: its features, and those of all that was at
// work meanwhile.
type use struct{ own, beside set }

// meetings are the uses under way, and what has met.
type meetings struct {
	mu   sync.Mutex // protects the following fields, and what uses contain
	now  map[*use]bool
	seen Pairs
}

func (m *meetings) begin(all ...Feature) *use {
	m.mu.Lock()
	u := &use{}
	m.now[u] = true
	m.mu.Unlock()
	m.does(u, all...)
	return u
}

// does notes that a use has more features.
func (m *meetings) does(u *use, all ...Feature) {
	m.mu.Lock()
	defer m.mu.Unlock()
	u.own |= of(all...)
	for other := range m.now {
		if other != u {
			other.beside |= u.own
			u.beside |= other.own
		}
	}
}

func (m *meetings) end(u *use) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.now, u)
	(u.own | u.beside).pairs(func(a, b Feature) {
		both, some := u.own.has(a) && u.own.has(b), u.own.has(a) || u.own.has(b)
		if both || some && !together(a, b) {
			m.seen[a][b]++
		}
	})
}
