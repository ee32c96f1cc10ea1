package sim

import (
	"cmp"
	"slices"
	"strings"
)

func zadd(x *call, e *entry) any {
	var nx, gt, ch bool
	pairs := x.args[2:]
flags:
	for ; len(pairs) > 0; pairs = pairs[1:] {
		switch strings.ToLower(pairs[0]) {
		case "nx":
			nx = true
		case "gt":
			gt = true
		case "ch":
			ch = true
		default:
			break flags
		}
	}
	switch {
	case len(pairs) == 0 || len(pairs)%2 != 0:
		return errSyntax
	case gt && nx:
		return Error("ERR GT, LT, and/or NX options at the same time are not compatible")
	}
	scores := make([]float64, len(pairs)/2)
	for i := range scores {
		v, ok := parseFloat(pairs[2*i])
		if !ok {
			return Error("ERR value is not a valid float")
		}
		scores[i] = v
	}
	var added, changed int64
	for i, score := range scores {
		member := pairs[2*i+1]
		old, had := e.scores[member]
		switch {
		case had && (nx || gt && score <= old): // GT never keeps a new member out
			continue
		case !had:
			added++
		case score != old:
			changed++
		}
		e.scores[member] = score
	}
	if ch {
		return added + changed
	}
	return added
}

func zscore(x *call, e *entry) any {
	if s, ok := e.scores[x.args[2]]; ok {
		return formatG(s, 17)
	}
	return nil
}

func zrem(x *call, e *entry) any {
	before := len(e.scores)
	for _, m := range x.args[2:] {
		delete(e.scores, m)
	}
	return int64(before - len(e.scores))
}

func zrank(x *call, e *entry) any {
	if i := slices.IndexFunc(e.ranked(), func(m zmember) bool { return m.name == x.args[2] }); i >= 0 {
		return int64(i)
	}
	return nil
}

func zcount(x *call, e *entry) any {
	found, err := e.between(x.args[2], x.args[3])
	if err != nil {
		return err
	}
	return int64(len(found))
}

func zremrangebyscore(x *call, e *entry) any {
	found, err := e.between(x.args[2], x.args[3])
	if err != nil {
		return err
	}
	for _, m := range found {
		delete(e.scores, m.name)
	}
	return int64(len(found))
}

// zmember is an element of a sorted set.
type zmember struct {
	name  string
	score float64
}

// ranked returns a sorted set's elements by score, then name.
func (e *entry) ranked() []zmember {
	r := make([]zmember, 0, len(e.scores))
	for n, s := range e.scores {
		r = append(r, zmember{n, s})
	}
	slices.SortFunc(r, func(a, b zmember) int {
		return cmp.Or(cmp.Compare(a.score, b.score), strings.Compare(a.name, b.name))
	})
	return r
}

// between returns the elements with scores from lo to hi: "5", "(5" without its end, "-inf".
func (e *entry) between(lo, hi string) ([]zmember, any) {
	low, noLow := strings.CutPrefix(lo, "(")
	high, noHigh := strings.CutPrefix(hi, "(")
	from, ok1 := parseFloat(low)
	to, ok2 := parseFloat(high)
	if !ok1 || !ok2 {
		return nil, Error("ERR min or max is not a float")
	}
	return slices.DeleteFunc(e.ranked(), func(m zmember) bool {
		return m.score < from || m.score > to || noLow && m.score == from || noHigh && m.score == to
	}), nil
}

// betweenTexts returns the elements from "[a", or behind it from "(a", to another, as if all scores were the same.
func (e *entry) betweenTexts(lo, hi string) ([]zmember, any) {
	if lo == "" || hi == "" || !strings.ContainsAny(lo[:1], "[(") || !strings.ContainsAny(hi[:1], "[(") {
		return nil, Error("ERR min or max not valid string range item")
	}
	return slices.DeleteFunc(e.ranked(), func(m zmember) bool {
		return m.name < lo[1:] || m.name > hi[1:] || m.name == lo[1:] && lo[0] == '(' || m.name == hi[1:] && hi[0] == '('
	}), nil
}

// byRank returns the elements from one rank to another; negative ones count from the end.
func byRank(all []zmember, first, last string) ([]zmember, any) {
	from, ok1 := parseInt(first)
	to, ok2 := parseInt(last)
	if !ok1 || !ok2 {
		return nil, errNotInt
	}
	size := int64(len(all))
	if from < 0 {
		from = max(from+size, 0)
	}
	if to < 0 {
		to += size
	}
	if to = min(to, size-1); from > to {
		return nil, nil
	}
	return all[from : to+1], nil
}

// zquery is a range of a sorted set, whichever command asked for it.
type zquery struct {
	byScore, byLex, reverse, withScores bool

	offset, count int64 // count < 0: all
}

// zrange returns ZRANGE or one of its kin. With REV, the end comes first.
func zrange(q zquery) func(*call, *entry) any {
	return func(x *call, e *entry) any {
		q := q
		if err := q.options(x.args[4:]); err != nil {
			return err
		}
		var found []zmember
		var err any
		switch lo, hi := x.args[2], x.args[3]; {
		case q.byScore && q.reverse:
			found, err = e.between(hi, lo)
			slices.Reverse(found)
		case q.byScore:
			found, err = e.between(lo, hi)
		case q.byLex:
			found, err = e.betweenTexts(lo, hi)
		default:
			all := e.ranked()
			if q.reverse {
				slices.Reverse(all)
			}
			found, err = byRank(all, lo, hi)
		}
		if err != nil {
			return err
		}
		found = found[min(q.offset, int64(len(found))):]
		if q.count >= 0 {
			found = found[:min(q.count, int64(len(found)))]
		}
		r := []any{}
		for _, m := range found {
			r = append(r, m.name)
			if q.withScores {
				r = append(r, formatG(m.score, 17))
			}
		}
		return r
	}
}

func (q *zquery) options(args []string) any {
	for i := 0; i < len(args); i++ {
		switch opt := strings.ToLower(args[i]); {
		case opt == "withscores":
			q.withScores = true
		case opt == "byscore":
			q.byScore = true
		case opt == "bylex" && !q.reverse:
			q.byLex = true
		case opt == "rev":
			q.reverse = true
		case opt == "limit" && i+2 < len(args) && (q.byScore || q.byLex):
			var ok1, ok2 bool
			q.offset, ok1 = parseInt(args[i+1])
			q.count, ok2 = parseInt(args[i+2])
			if !ok1 || !ok2 || q.offset < 0 {
				return errNotInt
			}
			i += 2
		default:
			return errSyntax
		}
	}
	return nil
}
