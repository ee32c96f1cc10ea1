package redlock

import "math"

// keySet is a set of keys, by their hashes: two with one hash count as one. It is emptied at
// no cost. The zero value is empty.
type keySet struct {
	slots [1 << 10]keySlot
	round uint32 // a slot that was filled in another round is empty
	n     int
}

type keySlot struct {
	hash   uint64
	filled uint32 // in which round, plus one
}

// hasRoom reports whether n more keys may be added. Half of the slots stay empty, so that searches are short.
func (s *keySet) hasRoom(n int) bool { return s.n+n <= len(s.slots)/2 }

// slot returns where the hash is, or the empty slot where it would have to be.
func (s *keySet) slot(hash uint64) (at *keySlot, in bool) {
	for i := hash; ; i++ {
		at = &s.slots[i%uint64(len(s.slots))]
		if at.filled != s.round+1 {
			return at, false
		}
		if at.hash == hash {
			return at, true
		}
	}
}

func (s *keySet) has(hash uint64) bool {
	_, in := s.slot(hash)
	return in
}

// add reports whether the hash is new.
func (s *keySet) add(hash uint64) bool {
	at, in := s.slot(hash)
	if !in {
		*at = keySlot{hash, s.round + 1}
		s.n++
	}
	return !in
}

func (s *keySet) clear() {
	s.n = 0
	if s.round++; s.round == math.MaxUint32 {
		*s = keySet{}
	}
}
