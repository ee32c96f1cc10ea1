package conformance

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// show writes a reply in the notation of the files.
func show(reply any, err error) string {
	if err != nil {
		return "error " + err.Error() + "…"
	}
	switch v := reply.(type) {
	case nil:
		return "nil"
	case error:
		return show(nil, v)
	case []byte:
		return strconv.Quote(string(v))
	case string:
		return "+" + v
	case []any:
		parts := make([]string, len(v))
		for i, item := range v {
			parts[i] = show(item, nil)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(reply)
}

// wildcards are the parts of a reply that is wanted which stand for more than themselves: what follows the beginning of
// an error, and a time to live.
var wildcards = regexp.MustCompile(`…|ttl<=[^ \]]+`)

// want is a reply that is wanted.
type want struct {
	pattern *regexp.Regexp
	most    []time.Duration // of the times to live in it
}

func parseWant(text string) (w want, err error) {
	pattern, rest := "^", text
	for _, found := range wildcards.FindAllString(text, -1) {
		before, after, _ := strings.Cut(rest, found)
		pattern, rest = pattern+regexp.QuoteMeta(before), after
		if limit, ok := strings.CutPrefix(found, "ttl<="); ok {
			most, wrong := time.ParseDuration(limit)
			w.most, err, pattern = append(w.most, most), wrong, pattern+`(-?\d+)`
		} else {
			pattern += "[^…]*…"
		}
	}
	w.pattern = regexp.MustCompile(pattern + regexp.QuoteMeta(rest) + "$")
	return w, err
}

// matches reports whether a reply, as it is shown, is one that is wanted. A time to live is at most a second below its
// limit.
func (w want) matches(shown string) bool {
	found := w.pattern.FindStringSubmatch(shown)
	for i, most := range w.most {
		if found == nil {
			break
		}
		ms, _ := strconv.ParseInt(found[i+1], 10, 64)
		if left := most - time.Duration(ms)*time.Millisecond; left < 0 || left >= time.Second {
			return false
		}
	}
	return found != nil
}
