package sim

import (
	"maps"
	"slices"
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
	fields  map[string]string
	list    []string
	members map[string]bool
	expires int64 // node time in ms after which the key is gone; 0: never
}

func (e *entry) clone() *entry {
	c := *e
	c.scores, c.fields, c.members = maps.Clone(e.scores), maps.Clone(e.fields), maps.Clone(e.members)
	c.list = slices.Clone(e.list)
	return &c
}

// size is the number of elements of a collection.
func (e *entry) size() int { return len(e.scores) + len(e.fields) + len(e.list) + len(e.members) }

// databases holds a node's data set.
type databases [16]map[string]*entry

func (d *databases) clone() *databases {
	var c databases
	for i, db := range d {
		for k, e := range db {
			if c[i] == nil {
				c[i] = map[string]*entry{}
			}
			c[i][k] = e.clone()
		}
	}
	return &c
}

// purge deletes what has expired by now, as Redis's active expiry does within a tenth of a second.
func (d *databases) purge(now int64) {
	for _, db := range d {
		maps.DeleteFunc(db, func(_ string, e *entry) bool { return e.expires != 0 && now > e.expires })
	}
}

// find returns the living entry of a key, or nil. Redis counts a key as living through its last millisecond: now >
// expires.
func (d *databases) find(db int, key string, now int64) *entry {
	e := d[db][key]
	if e != nil && e.expires != 0 && now > e.expires {
		delete(d[db], key)
		return nil
	}
	return e
}

func (d *databases) put(db int, key string, e *entry) {
	if d[db] == nil {
		d[db] = map[string]*entry{}
	}
	d[db][key] = e
}

// keys returns the living keys in byte order: the model's answers never depend on the iteration order of a map.
func (d *databases) keys(db int, now int64) []string {
	keys := make([]string, 0, len(d[db]))
	for k, e := range d[db] {
		if e.expires == 0 || now <= e.expires {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
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
		switch {
		case a.score < b.score, a.score == b.score && a.name < b.name:
			return -1
		case a == b:
			return 0
		}
		return 1
	})
	return r
}
