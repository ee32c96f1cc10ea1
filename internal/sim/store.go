package sim

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// kind is the type of a value, in the words of TYPE.
type kind string

const (
	kindString kind = "string"
	kindZSet   kind = "zset"
	kindHash   kind = "hash"
	kindList   kind = "list"
	kindSet    kind = "set"
)

// entry is one key's value and expiry. Which field counts follows from kind.
type entry struct {
	kind    kind
	str     string
	scores  map[string]float64
	fields  map[string]string // of a hash; of a set, whose members are its keys
	list    []string
	expires int64 // node time in ms after which the key is gone; 0: never
}

// dataset holds a node's keys.
type dataset map[string]*entry

func (d dataset) clone() dataset {
	c := dataset{}
	for k, e := range d {
		copied := *e
		copied.scores, copied.fields, copied.list = maps.Clone(e.scores), maps.Clone(e.fields), slices.Clone(e.list)
		c[k] = &copied
	}
	return c
}

// over reports whether the key has expired. Redis counts a key as living through its last millisecond.
func (e *entry) over(now int64) bool { return e.expires != 0 && now > e.expires }

// purge deletes what has expired by now, as Redis's active expiry does within a tenth of a second.
func (d dataset) purge(now int64) {
	maps.DeleteFunc(d, func(_ string, e *entry) bool { return e.over(now) })
}

// find returns the living entry of a key, or nil.
func (d dataset) find(key string, now int64) *entry {
	e := d[key]
	if e != nil && e.over(now) {
		delete(d, key)
		return nil
	}
	return e
}

// keys returns the living keys in byte order: the model's answers never depend on the iteration order of a map.
func (d dataset) keys(now int64) []string {
	return slices.DeleteFunc(sortedKeys(d), func(k string) bool { return d[k].over(now) })
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// parseInt accepts what Redis's string2ll accepts: no sign +, no space, no leading zeros.
func parseInt(s string) (int64, bool) {
	v, err := strconv.ParseInt(s, 10, 64)
	return v, err == nil && strconv.FormatInt(v, 10) == s
}

func parseFloat(s string) (float64, bool) {
	if s == "" || strings.ContainsAny(s, " _\t\n") {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, !math.IsNaN(v) && (err == nil || math.IsInf(v, 0))
}

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
