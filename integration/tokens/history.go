// Package tokens judges fencing tokens: it takes the history of who held what,
// and when, and counts the tokens that are not in order. Its tests show on real
// masters that there are none, whatever clocks and nodes go through.
package tokens

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Hold is one hold as its client saw it. The times are those of one monotonic
// clock for the whole history.
type Hold struct {
	Name    string
	Reads   bool // beside others that read; without a token
	Token   int64
	Asked   time.Duration // read before the call that acquired
	Granted time.Duration // read after it
	Ended   time.Duration // read before the unlock, and no later than the end of validity
}

// Verdict is what a history amounts to.
type Verdict struct {
	Holds, Names int
	// Duplicates counts holds whose token another hold of the name has.
	Duplicates int
	// Inversions counts holds that were asked for when another one of the name
	// had been granted, and that have a smaller token.
	Inversions int
	// LateGrants counts holds with a smaller token than a hold of the name that was
	// granted before, though perhaps while this one was asked for. It is
	// none as long as holds exclude each other.
	LateGrants int
	// Overlaps counts holds that were granted before an earlier one that excludes them had ended.
	Overlaps int
	// Shared counts holds that were granted before an earlier one had ended, when both only read.
	Shared int
	// Compared is the number of holds that had an earlier hold of the name to be compared with.
	Compared int
	// Examples are the first few that should not be.
	Examples []string
}

// Violations counts what must not be as long as holds exclude each other.
func (v Verdict) Violations() int { return v.Duplicates + v.Inversions + v.LateGrants + v.Overlaps }

// Ordered reports whether tokens are unique and increase in the order of real time.
func (v Verdict) Ordered() bool { return v.Duplicates == 0 && v.Inversions == 0 }

// String is one line.
func (v Verdict) String() string {
	s := fmt.Sprintf("%d holds of %d names, %d compared with an earlier hold: "+
		"%d duplicate tokens, %d out of order, %d granted out of order, %d overlaps",
		v.Holds, v.Names, v.Compared, v.Duplicates, v.Inversions, v.LateGrants, v.Overlaps)
	if len(v.Examples) > 0 {
		s += "\n  " + strings.Join(v.Examples, "\n  ")
	}
	return s
}

func (v *Verdict) example(what string, a, b Hold) {
	if len(v.Examples) < 10 {
		v.Examples = append(v.Examples, fmt.Sprintf("%s: %+v and %+v", what, a, b))
	}
}

// Judge judges a history, in O(n log n). It sorts the holds.
func Judge(holds []Hold) Verdict {
	v := Verdict{Holds: len(holds)}
	slices.SortFunc(holds, func(a, b Hold) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Token, b.Token), cmp.Compare(a.Granted, b.Granted))
	})
	for len(holds) > 0 {
		n := 1
		for n < len(holds) && holds[n].Name == holds[0].Name {
			n++
		}
		v.Names++
		v.Compared += n - 1
		v.judgeTokens(slices.DeleteFunc(slices.Clone(holds[:n]), func(h Hold) bool { return h.Reads }))
		v.judgeIntervals(holds[:n])
		holds = holds[n:]
	}
	return v
}

// judgeTokens judges the holds of one name, in the order of their tokens.
func (v *Verdict) judgeTokens(holds []Hold) {
	for i := range len(holds) - 1 {
		if holds[i].Token == holds[i+1].Token {
			v.Duplicates++
			v.example("the same token", holds[i], holds[i+1])
		}
	}
	// Downwards, with the earliest grant among the larger tokens: nothing that
	// has a smaller token may have been asked for after that.
	for i, earliest := len(holds)-1, (Hold{Granted: math.MaxInt64}); i >= 0; i-- {
		h := holds[i]
		if h.Token < earliest.Token && earliest.Granted < h.Asked {
			v.Inversions++
			v.example("out of order", earliest, h)
		}
		if h.Granted < earliest.Granted {
			earliest = h
		}
	}
}

// judgeIntervals judges the holds of one name in the order of their grants, which it sorts them by.
func (v *Verdict) judgeIntervals(holds []Hold) {
	slices.SortStableFunc(holds, func(a, b Hold) int { return cmp.Compare(a.Granted, b.Granted) })
	var highest Hold
	lastWrite := Hold{Ended: math.MinInt64}
	lastRead := lastWrite
	for _, h := range holds {
		if h.Ended < h.Granted {
			continue // who learnt of the grant when it was over did not hold then
		}
		if h.Granted < lastWrite.Ended {
			v.Overlaps++
			v.example("overlap", lastWrite, h)
		}
		if h.Reads {
			if h.Granted < lastRead.Ended {
				v.Shared++
			}
			lastRead = later(lastRead, h)
			continue
		}
		if h.Granted < lastRead.Ended {
			v.Overlaps++
			v.example("overlap", lastRead, h)
		}
		lastWrite = later(lastWrite, h)
		if h.Token < highest.Token {
			v.LateGrants++
			v.example("granted out of order", highest, h)
		} else {
			highest = h
		}
	}
}

// later returns the hold that ends later.
func later(a, b Hold) Hold {
	if b.Ended > a.Ended {
		return b
	}
	return a
}
