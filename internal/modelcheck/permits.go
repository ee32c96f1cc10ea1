package modelcheck

import (
	"fmt"
	"math/bits"
	"slices"
)

// permitModel is a semaphore on three nodes, with clients that want a permit each. Every node has the same places, and
// each place of a node lets a number of clients in: k places for one each are k slots; one place for k is a counter.
//
// A client chooses any place, asks every node for it, and holds a permit when a majority has let it in. It may give up
// a place at any moment and choose another one. A request may be late or lost, also one for a place that its client has
// given up: it is not executed yet, or never. What a client has at a place that it does not hold, and does not try to
// get either, may go away at any moment and node by node: by its undo, or by the TTL. A hold may be released.
//
// There is no time in it: exclusion.go has what TTLs and restarts do to one place.
//
// Property: no more clients hold permits than there are.
type permitModel struct {
	places, each int
	clients      int
	tries        int // how many places a client asks for at most
}

const (
	maxClients = 4
	maxPlaces  = 3
)

type permitState struct {
	in     [nodes][maxPlaces]uint8 // who is in, a bit for each client
	asked  [nodes][maxPlaces]uint8 // whose request is on the wire
	client [maxClients]permitClient
}

type permitClient struct {
	phase phase
	place uint8 // while it acquires or holds
	tried uint8 // a bit for each place that was given up
}

type permitEvent struct {
	what                string
	client, node, place int
}

var _ model[permitState, permitEvent] = (*permitModel)(nil)

func (m *permitModel) permits() int { return m.places * m.each }

func (m *permitModel) initial() []permitState { return []permitState{{}} }

// key gives states that differ in the names of nodes one key.
func (m *permitModel) key(s *permitState) key {
	var k key
	for n := range k {
		for p := range m.places {
			k[n] |= uint64(s.in[n][p])<<(4*p) | uint64(s.asked[n][p])<<(12+4*p)
		}
	}
	slices.Sort(k[:])
	for c, is := range s.client[:m.clients] {
		k[0] |= (uint64(is.phase) | uint64(is.place)<<3 | uint64(is.tried)<<5) << (24 + 8*c)
	}
	return k
}

func (m *permitModel) next(s *permitState, emit func(permitEvent, *permitState, string)) {
	for c := range m.clients {
		is, bit := s.client[c], uint8(1)<<c
		switch is.phase {
		case idle:
			if bits.OnesCount8(is.tried) == m.tries || c > 0 && s.client[c-1] == (permitClient{}) {
				break // the clients are alike: they begin in order
			}
			for p := range m.places {
				if is.tried>>p&1 == 0 {
					t := *s
					t.client[c].phase, t.client[c].place = acquiring, uint8(p)
					for n := range t.asked {
						t.asked[n][p] |= bit
					}
					emit(permitEvent{"asks for", c, -1, p}, &t, "")
				}
			}
		case acquiring:
			p := int(is.place)
			votes := 0
			for n := range s.in {
				votes += int(s.in[n][p] >> c & 1)
			}
			if votes >= majority {
				t := *s
				t.client[c].phase = won
				emit(permitEvent{"holds", c, -1, p}, &t, m.crowded(&t))
			}
			m.leave(s, c, "gives up", emit)
		case won:
			m.leave(s, c, "releases", emit)
		}
		for n := range s.in {
			for p := range m.places {
				m.atNode(s, c, n, p, emit)
			}
		}
	}
}

// leave ends what a client has to do with its place; the nodes hear of it later.
func (m *permitModel) leave(s *permitState, c int, what string, emit func(permitEvent, *permitState, string)) {
	t := *s
	is := &t.client[c]
	is.phase, is.tried = idle, is.tried|1<<is.place
	p := int(is.place)
	is.place = 0
	emit(permitEvent{what, c, -1, p}, &t, "")
}

// atNode is what can happen to a client at one place of one node.
func (m *permitModel) atNode(s *permitState, c, n, p int, emit func(permitEvent, *permitState, string)) {
	bit := uint8(1) << c
	wants := s.client[c].phase != idle && int(s.client[c].place) == p
	switch {
	case s.asked[n][p]&bit != 0 && bits.OnesCount8(s.in[n][p]) < m.each:
		t := *s
		t.asked[n][p] &^= bit
		t.in[n][p] |= bit
		emit(permitEvent{"is let in to", c, n, p}, &t, "")
	case s.in[n][p]&bit != 0 && !wants:
		t := *s
		t.in[n][p] &^= bit
		emit(permitEvent{"is gone from", c, n, p}, &t, "")
	}
}

// crowded returns how the property is violated, or nothing.
func (m *permitModel) crowded(s *permitState) string {
	holders := 0
	for _, is := range s.client {
		if is.phase == won {
			holders++
		}
	}
	if holders > m.permits() {
		return fmt.Sprintf("%d holders of %d permits", holders, m.permits())
	}
	return ""
}
