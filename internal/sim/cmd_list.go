package sim

import (
	"maps"
	"slices"
)

// push returns LPUSH or RPUSH.
func push(left bool) func(*call) any {
	return func(x *call) any {
		e, err := x.create(x.args[1], kindList)
		if err != nil {
			return err
		}
		for _, v := range x.args[2:] {
			if left {
				e.list = append([]string{v}, e.list...)
			} else {
				e.list = append(e.list, v)
			}
		}
		return int64(len(e.list))
	}
}

// pop returns LPOP or RPOP, without a count.
func pop(left bool) func(*call) any {
	return func(x *call) any {
		e, err := x.lookup(x.args[1], kindList)
		switch {
		case err != nil:
			return err
		case e == nil:
			return nil
		}
		var v string
		if left {
			v, e.list = e.list[0], e.list[1:]
		} else {
			v, e.list = e.list[len(e.list)-1], e.list[:len(e.list)-1]
		}
		x.tidy(x.args[1], e)
		return v
	}
}

func cmdLLen(x *call) any {
	e, err := x.lookup(x.args[1], kindList)
	switch {
	case err != nil:
		return err
	case e == nil:
		return int64(0)
	}
	return int64(len(e.list))
}

func cmdLRange(x *call) any {
	e, err := x.lookup(x.args[1], kindList)
	if err != nil {
		return err
	}
	from, ok1 := parseInt(x.args[2])
	to, ok2 := parseInt(x.args[3])
	if !ok1 || !ok2 {
		return errNotInt
	}
	r := []any{}
	if e != nil {
		lo, hi := span(from, to, len(e.list))
		for _, v := range e.list[lo:hi] {
			r = append(r, v)
		}
	}
	return r
}

// span turns Redis's inclusive, possibly negative indices into a half-open interval within [0, n).
func span(from, to int64, n int) (lo, hi int) {
	size := int64(n)
	if from < 0 {
		from = max(from+size, 0)
	}
	if to < 0 {
		to += size
	}
	to = min(to, size-1)
	if from > to {
		return 0, 0
	}
	return int(from), int(to) + 1
}

func cmdSAdd(x *call) any {
	e, err := x.create(x.args[1], kindSet)
	if err != nil {
		return err
	}
	before := len(e.members)
	for _, m := range x.args[2:] {
		e.members[m] = true
	}
	return int64(len(e.members) - before)
}

func cmdSRem(x *call) any {
	e, err := x.lookup(x.args[1], kindSet)
	switch {
	case err != nil:
		return err
	case e == nil:
		return int64(0)
	}
	before := len(e.members)
	for _, m := range x.args[2:] {
		delete(e.members, m)
	}
	x.tidy(x.args[1], e)
	return int64(before - len(e.members))
}

func cmdSCard(x *call) any {
	e, err := x.lookup(x.args[1], kindSet)
	switch {
	case err != nil:
		return err
	case e == nil:
		return int64(0)
	}
	return int64(len(e.members))
}

func cmdSIsMember(x *call) any {
	e, err := x.lookup(x.args[1], kindSet)
	switch {
	case err != nil:
		return err
	case e != nil && e.members[x.args[2]]:
		return int64(1)
	}
	return int64(0)
}

func cmdSMembers(x *call) any {
	e, err := x.lookup(x.args[1], kindSet)
	if err != nil {
		return err
	}
	r := []any{}
	if e != nil {
		for _, m := range slices.Sorted(maps.Keys(e.members)) {
			r = append(r, m)
		}
	}
	return r
}
