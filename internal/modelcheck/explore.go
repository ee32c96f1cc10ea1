package modelcheck

import (
	"fmt"
	"slices"
	"time"
)

// model is a transition system over states S and actions A.
type model[S comparable, A any] interface {
	initial() []S
	// next emits every state that one action leads to from s, which it leaves alone. broken is empty, or the property
	// that this very action violates.
	next(s *S, emit func(act A, t *S, broken string))
	// merged returns the state that stands for all those with the same future as s: a model uses that to merge states
	// that differ only in the names of its nodes.
	merged(s S) S
	// describe tells a step in English.
	describe(before *S, act A, after *S) string
}

// result is what an exploration found. If broken is empty, no reachable state violates a property.
type result struct {
	states  int
	depth   int // actions from an initial state to the farthest one
	elapsed time.Duration
	broken  string
	trace   []string // the steps of a shortest way to the violation
}

func (r result) String() string {
	verdict := "clean"
	if r.broken != "" {
		verdict = fmt.Sprintf("broken in %d steps", len(r.trace))
	}
	text := fmt.Sprintf("%s: %d states, depth %d, %.2f s\n", verdict, r.states, r.depth, r.elapsed.Seconds())
	return text + r.story()
}

// story tells the violation, one numbered line a step.
func (r result) story() (text string) {
	if r.broken == "" {
		return ""
	}
	for i, step := range r.trace {
		text += fmt.Sprintf("%2d. %s\n", i+1, step)
	}
	return text + "\n" + r.broken + "\n"
}

// visit is a state that was reached, and how it was reached first.
type visit[S, A any] struct {
	state S
	act   A
	from  int32 // index of the visit before it; -1: none
}

// explore visits every reachable state, breadth first, and stops at the first violation, to which its trace is
// therefore a shortest one.
func explore[S comparable, A any](m model[S, A]) (out result) {
	start := time.Now()
	seen := map[S]struct{}{}
	var visits []visit[S, A] // a queue whose head is never taken off: the traces are in it
	add := func(v visit[S, A]) {
		key := m.merged(v.state)
		if _, known := seen[key]; !known {
			seen[key] = struct{}{}
			visits = append(visits, v)
		}
	}
	for _, s := range m.initial() {
		add(visit[S, A]{state: s, from: -1})
	}
	var last visit[S, A]
	for i := 0; i < len(visits) && out.broken == ""; i++ {
		s := visits[i].state
		m.next(&s, func(act A, t *S, broken string) {
			switch v := (visit[S, A]{*t, act, int32(i)}); {
			case out.broken != "":
			case broken != "":
				out.broken, last = broken, v
			default:
				add(v)
			}
		})
	}
	out.states, out.depth = len(visits), -1
	for v := visits[len(visits)-1]; ; v = visits[v.from] {
		if out.depth++; v.from < 0 {
			break
		}
	}
	for v := last; out.broken != "" && v.from >= 0; v = visits[v.from] {
		out.trace = append(out.trace, m.describe(&visits[v.from].state, v.act, &v.state))
	}
	slices.Reverse(out.trace)
	out.elapsed = time.Since(start)
	return out
}
