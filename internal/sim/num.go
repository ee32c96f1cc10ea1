package sim

import (
	"math"
	"strconv"
	"strings"
)

// parseInt accepts what Redis's string2ll accepts: no sign +, no space, no leading zeros.
func parseInt(s string) (int64, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(v, 10) != s {
		return 0, false
	}
	return v, true
}

func parseFloat(s string) (float64, bool) {
	if s == "" || strings.ContainsAny(s, " _\t\n") {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	if math.IsNaN(v) || err != nil && !math.IsInf(v, 0) {
		return 0, false
	}
	return v, true
}

// bound is one end of a range of scores: "5", "(5", "-inf".
type bound struct {
	score     float64
	exclusive bool
}

func parseBound(s string) (bound, bool) {
	rest, exclusive := strings.CutPrefix(s, "(")
	v, ok := parseFloat(rest)
	return bound{v, exclusive}, ok
}

func (b bound) below(score float64) bool { return b.score < score || !b.exclusive && b.score == score }

func (b bound) above(score float64) bool { return b.score > score || !b.exclusive && b.score == score }

// formatG is C's printf("%.<digits>g"): Lua 5.1 prints numbers with 14 digits, redis.call passes them on with 17, and
// Redis 7.0 prints scores with 17. The difference is why a script must not concatenate a token: 1.7e+15 loses digits.
func formatG(v float64, digits int) string {
	switch {
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case math.IsNaN(v):
		return "-nan" // as glibc prints 0/0 on amd64
	}
	return strconv.FormatFloat(v, 'g', digits, 64)
}

func formatScore(v float64) string { return formatG(v, 17) }

func itoa(v int64) string { return strconv.FormatInt(v, 10) }
