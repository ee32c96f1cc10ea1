package modelcheck

import (
	"fmt"
	"math/bits"
)

// permitModel is a semaphore on three nodes, with clients that want a permit each. Every node has the same places, and
// each place of a node lets a number of clients in: k places for one each are k slots; one place for k is a counter.
//
// A client chooses any place, asks every node for it, and holds a permit when a majority has let it in. It may give up
// a place at any moment and choose another one. A request may be late or lost, also one for a place that its client has
// given up: it is not executed yet, or never. What a client has at a place that it does not hold, and does not try to
// get either, may go away at any moment and node by node: by its undo, or by the TTL. A hold may be released.
//
// There is no time in it: guard.go has what TTLs and restarts do to one place.
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
	node   [nodes]permitNode
	client [maxClients]permitClient
}

type permitNode struct {
	in    [maxPlaces]uint8 // who is in, a bit for each client
	asked [maxPlaces]uint8 // whose request is on the wire
}

type permitClient struct {
	phase phase
	place uint8 // while it acquires or holds
	tried uint8 // a bit for each place that was given up
}

var _ model[permitState, event] = (*permitModel)(nil)

func (m *permitModel) explore() result { return explore[permitState, event](m) }

func (m *permitModel) initial() []permitState { return []permitState{{}} }

func (m *permitModel) merged(s permitState) permitState {
	sortNodes(s.node[:], all)
	return s
}

func (n permitNode) order() (order uint64) {
	for p := range n.in {
		order = order<<16 | uint64(n.in[p])<<8 | uint64(n.asked[p])
	}
	return order
}

func (m *permitModel) describe(_ *permitState, act event, after *permitState) string {
	return fmt.Sprintf("%-40s %v", act, after.node)
}

func (m *permitModel) next(s *permitState, emit func(event, *permitState, string)) {
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
					for n := range t.node {
						t.node[n].asked[p] |= bit
					}
					emit(event{kind: begins, attempt: uint8(c), token: uint8(p)}, &t, "")
				}
			}
		case acquiring:
			p := int(is.place)
			votes := 0
			for n := range s.node {
				votes += int(s.node[n].in[p] >> c & 1)
			}
			if votes >= majority {
				t := *s
				t.client[c].phase = won
				emit(event{kind: decides, attempt: uint8(c), token: is.place}, &t, m.crowded(&t))
			}
			m.leave(s, c, emit)
		case won:
			m.leave(s, c, emit)
		}
		for n := range s.node {
			for p := range m.places {
				m.atNode(s, c, n, p, emit)
			}
		}
	}
}

// leave ends what a client has to do with its place; the nodes hear of it later.
func (m *permitModel) leave(s *permitState, c int, emit func(event, *permitState, string)) {
	t := *s
	place := s.client[c].place
	t.client[c] = permitClient{tried: s.client[c].tried | 1<<place}
	emit(event{kind: ends, attempt: uint8(c), token: place}, &t, "")
}

// atNode is what can happen to a client at one place of one node.
func (m *permitModel) atNode(s *permitState, c, n, p int, emit func(event, *permitState, string)) {
	bit := uint8(1) << c
	wants := s.client[c].phase != idle && int(s.client[c].place) == p
	t := *s
	was, is := &s.node[n], &t.node[n]
	act := event{kind: executes, attempt: uint8(c), node: uint8(n), token: uint8(p)}
	switch {
	case was.asked[p]&bit != 0 && bits.OnesCount8(was.in[p]) < m.each:
		is.asked[p] &^= bit
		is.in[p] |= bit
	case was.in[p]&bit != 0 && !wants:
		act.kind = expires
		is.in[p] &^= bit
	default:
		return
	}
	emit(act, &t, "")
}

// crowded returns how the property is violated, or nothing.
func (m *permitModel) crowded(s *permitState) string {
	holders := 0
	for _, is := range s.client {
		if is.phase == won {
			holders++
		}
	}
	if permits := m.places * m.each; holders > permits {
		return fmt.Sprintf("%d holders of %d permits", holders, permits)
	}
	return ""
}
