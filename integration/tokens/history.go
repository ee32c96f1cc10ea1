// Package tokens judges fencing tokens: it takes the history of who held what,
// and when, and counts the tokens that are not in order. Its tests show on real
// masters that there are none, whatever clocks and nodes go through.
package tokens

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Hold is one hold as its client saw it. The times are those of one monotonic
// clock for the whole history.
type Hold struct {
	Name    int32
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
	// Overlaps counts holds that were granted before an earlier one had ended.
	Overlaps int
	// Compared is the number of holds that had an earlier hold of the name to be compared with.
	Compared int
	// Examples are the first few that should not be.
	Examples []string
}

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
		if a.Name != b.Name {
			return int(a.Name - b.Name)
		}
		switch {
		case a.Token < b.Token:
			return -1
		case a.Token > b.Token:
			return 1
		}
		return int(a.Granted - b.Granted)
	})
	for len(holds) > 0 {
		n := 1
		for n < len(holds) && holds[n].Name == holds[0].Name {
			n++
		}
		v.judgeName(holds[:n])
		holds = holds[n:]
	}
	return v
}

// judgeName judges the holds of one name, in the order of their tokens.
func (v *Verdict) judgeName(holds []Hold) {
	v.Names++
	v.Compared += len(holds) - 1
	for i := range len(holds) - 1 {
		if holds[i].Token == holds[i+1].Token {
			v.Duplicates++
			v.example("the same token", holds[i], holds[i+1])
		}
	}
	// Downwards, with the earliest grant among the larger tokens: nothing that
	// has a smaller token may have been asked for after that.
	earliest := holds[len(holds)-1]
	for i := len(holds) - 2; i >= 0; i-- {
		h := holds[i]
		if h.Token < earliest.Token && earliest.Granted < h.Asked {
			v.Inversions++
			v.example("out of order", earliest, h)
		}
		if h.Granted < earliest.Granted {
			earliest = h
		}
	}

	// Who learnt of the grant when it was over did not hold then.
	byGrant := slices.DeleteFunc(slices.Clone(holds), func(h Hold) bool { return h.Ended < h.Granted })
	if len(byGrant) == 0 {
		return
	}
	slices.SortStableFunc(byGrant, func(a, b Hold) int { return int(a.Granted - b.Granted) })
	last, highest := byGrant[0], byGrant[0]
	for _, h := range byGrant[1:] {
		if h.Token < highest.Token {
			v.LateGrants++
			v.example("granted out of order", highest, h)
		} else {
			highest = h
		}
		if h.Granted < last.Ended {
			v.Overlaps++
			v.example("overlap", last, h)
		}
		if h.Ended > last.Ended {
			last = h
		}
	}
}
