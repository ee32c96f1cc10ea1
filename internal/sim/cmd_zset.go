package sim

import (
	"math"
	"strings"
)

func cmdZAdd(x *call) any {
	var nx, xx, gt, lt, ch, incr bool
	i := 2
flags:
	for ; i < len(x.args); i++ {
		switch strings.ToLower(x.args[i]) {
		case "nx":
			nx = true
		case "xx":
			xx = true
		case "gt":
			gt = true
		case "lt":
			lt = true
		case "ch":
			ch = true
		case "incr":
			incr = true
		default:
			break flags
		}
	}
	pairs := x.args[i:]
	switch {
	case len(pairs) == 0 || len(pairs)%2 != 0:
		return errSyntax
	case nx && xx:
		return Error("ERR XX and NX options at the same time are not compatible")
	case gt && nx || lt && nx || gt && lt:
		return Error("ERR GT, LT, and/or NX options at the same time are not compatible")
	case incr && len(pairs) > 2:
		return Error("ERR INCR option supports a single increment-element pair")
	}
	scores := make([]float64, len(pairs)/2)
	for j := range scores {
		v, ok := parseFloat(pairs[2*j])
		if !ok {
			return errNotFloat
		}
		scores[j] = v
	}
	e, err := x.lookup(x.args[1], kindZSet)
	if err != nil {
		return err
	}
	if e == nil {
		if xx {
			if incr {
				return nil
			}
			return int64(0)
		}
		e, _ = x.create(x.args[1], kindZSet)
		defer func() { x.tidy(x.args[1], e) }()
	}
	var added, changed int64
	for j, score := range scores {
		member := pairs[2*j+1]
		old, had := e.scores[member]
		if incr && had {
			if score += old; math.IsNaN(score) {
				return Error("ERR resulting score is not a number (NaN)")
			}
		}
		// GT and LT never keep a new member out.
		if had && (nx || gt && score <= old || lt && score >= old) || !had && xx {
			if incr {
				return nil
			}
			continue
		}
		if !had {
			added++
		} else if score != old {
			changed++
		}
		e.scores[member] = score
		if incr {
			return formatScore(score)
		}
	}
	if ch {
		return added + changed
	}
	return added
}

func cmdZIncrBy(x *call) any {
	x.args = []string{"zadd", x.args[1], "INCR", x.args[2], x.args[3]}
	return cmdZAdd(x)
}

func cmdZScore(x *call) any {
	e, err := x.lookup(x.args[1], kindZSet)
	if err != nil {
		return err
	}
	if e != nil {
		if s, ok := e.scores[x.args[2]]; ok {
			return formatScore(s)
		}
	}
	return nil
}

func cmdZMScore(x *call) any {
	e, err := x.lookup(x.args[1], kindZSet)
	if err != nil {
		return err
	}
	r := []any{}
	for _, m := range x.args[2:] {
		if e != nil {
			if s, ok := e.scores[m]; ok {
				r = append(r, formatScore(s))
				continue
			}
		}
		r = append(r, nil)
	}
	return r
}

func cmdZRem(x *call) any {
	e, err := x.lookup(x.args[1], kindZSet)
	if e == nil {
		if err != nil {
			return err
		}
		return int64(0)
	}
	before := len(e.scores)
	for _, m := range x.args[2:] {
		delete(e.scores, m)
	}
	x.tidy(x.args[1], e)
	return int64(before - len(e.scores))
}

func cmdZCard(x *call) any {
	e, err := x.lookup(x.args[1], kindZSet)
	switch {
	case err != nil:
		return err
	case e == nil:
		return int64(0)
	}
	return int64(len(e.scores))
}

// zpop returns ZPOPMIN or ZPOPMAX.
func zpop(low bool) func(*call) any {
	return func(x *call) any {
		count := int64(1)
		if len(x.args) > 3 {
			return errSyntax
		}
		if len(x.args) == 3 {
			v, ok := parseInt(x.args[2])
			if !ok || v < 0 {
				return Error("ERR value is out of range, must be positive")
			}
			count = v
		}
		e, err := x.lookup(x.args[1], kindZSet)
		if err != nil {
			return err
		}
		r := []any{}
		if e == nil {
			return r
		}
		all := e.ranked()
		for i := range min(count, int64(len(all))) {
			m := all[i]
			if !low {
				m = all[int64(len(all))-1-i]
			}
			delete(e.scores, m.name)
			r = append(r, m.name, formatScore(m.score))
		}
		x.tidy(x.args[1], e)
		return r
	}
}

// zrank returns ZRANK or ZREVRANK.
func zrank(reverse bool) func(*call) any {
	return func(x *call) any {
		e, err := x.lookup(x.args[1], kindZSet)
		if e == nil {
			return err
		}
		for i, m := range e.ranked() {
			if m.name == x.args[2] {
				if reverse {
					return int64(len(e.scores) - 1 - i)
				}
				return int64(i)
			}
		}
		return nil
	}
}
