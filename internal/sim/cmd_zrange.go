package sim

import (
	"slices"
	"strings"
)

const errMinMax = Error("ERR min or max is not a float")

// zquery is a range of a sorted set, whichever command asked for it.
type zquery struct {
	byScore, reverse, withScores bool
	lo, hi                       string // in the order of the command: with REV, hi comes first
	offset, count                int64  // count < 0: all
}

// pick returns the members that the query means, in its order.
func (q zquery) pick(e *entry) ([]zmember, any) {
	var from, to int64
	var low, high bound
	if q.byScore {
		a, b := q.lo, q.hi
		if q.reverse {
			a, b = b, a
		}
		var ok1, ok2 bool
		low, ok1 = parseBound(a)
		high, ok2 = parseBound(b)
		if !ok1 || !ok2 {
			return nil, errMinMax
		}
	} else {
		var ok1, ok2 bool
		from, ok1 = parseInt(q.lo)
		to, ok2 = parseInt(q.hi)
		if !ok1 || !ok2 {
			return nil, errNotInt
		}
	}
	if e == nil {
		return nil, nil
	}
	all := e.ranked()
	if q.byScore {
		all = slices.DeleteFunc(all, func(m zmember) bool { return !low.below(m.score) || !high.above(m.score) })
	}
	if q.reverse {
		slices.Reverse(all)
	}
	if !q.byScore {
		a, b := span(from, to, len(all))
		return all[a:b], nil
	}
	if q.offset < 0 {
		return nil, nil
	}
	all = all[min(q.offset, int64(len(all))):]
	if q.count >= 0 {
		all = all[:min(q.count, int64(len(all)))]
	}
	return all, nil
}

// run answers the query about the key args[1].
func (q zquery) run(x *call) any {
	e, err := x.lookup(x.args[1], kindZSet)
	if err != nil {
		return err
	}
	found, err := q.pick(e)
	if err != nil {
		return err
	}
	r := []any{}
	for _, m := range found {
		r = append(r, m.name)
		if q.withScores {
			r = append(r, formatScore(m.score))
		}
	}
	return r
}

// options reads WITHSCORES, LIMIT and, for ZRANGE, BYSCORE and REV.
func (q *zquery) options(args []string, zrange bool) any {
	limit := false
	for i := 0; i < len(args); i++ {
		switch opt := strings.ToLower(args[i]); {
		case opt == "withscores":
			q.withScores = true
		case opt == "limit" && i+2 < len(args):
			var ok1, ok2 bool
			q.offset, ok1 = parseInt(args[i+1])
			q.count, ok2 = parseInt(args[i+2])
			if !ok1 || !ok2 {
				return errNotInt
			}
			limit = true
			i += 2
		case zrange && opt == "byscore":
			q.byScore = true
		case zrange && opt == "rev":
			q.reverse = true
		default:
			return errSyntax
		}
	}
	if limit && !q.byScore {
		return Error("ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX")
	}
	return nil
}

// zrange returns ZRANGE (byScore unset, taking options), ZREVRANGE, ZRANGEBYSCORE or ZREVRANGEBYSCORE.
func zrange(byScore, reverse, general bool) func(*call) any {
	return func(x *call) any {
		q := zquery{byScore: byScore, reverse: reverse, lo: x.args[2], hi: x.args[3], count: -1}
		if err := q.options(x.args[4:], general); err != nil {
			return err
		}
		return q.run(x)
	}
}

func cmdZCount(x *call) any {
	e, err := x.lookup(x.args[1], kindZSet)
	if err != nil {
		return err
	}
	found, err := zquery{byScore: true, lo: x.args[2], hi: x.args[3], count: -1}.pick(e)
	if err != nil {
		return err
	}
	return int64(len(found))
}

// zremrange returns ZREMRANGEBYSCORE or ZREMRANGEBYRANK.
func zremrange(byScore bool) func(*call) any {
	return func(x *call) any {
		e, err := x.lookup(x.args[1], kindZSet)
		if err != nil {
			return err
		}
		found, err := zquery{byScore: byScore, lo: x.args[2], hi: x.args[3], count: -1}.pick(e)
		if err != nil {
			return err
		}
		for _, m := range found {
			delete(e.scores, m.name)
		}
		x.tidy(x.args[1], e)
		return int64(len(found))
	}
}
