package protocol_test

import (
	"errors"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// kind is a vote.
type kind int

const (
	pending kind = iota
	granted
	outbid
	absent
	taken
	abstained
	failed
)

// answer is what a node says.
type answer struct {
	kind      kind
	known     int64         // outbid: the token
	owner     string        // taken: whose it is
	left      time.Duration // taken: of the TTL
	ahead     int           // how many wait before us
	uncounted bool          // the node abstains
	revoked   bool          // taken: an administrator has taken it from our owner
	reply     any           // of trim
}

// verdict is what the votes amount to.
type verdict int

const (
	undecided verdict = iota
	won
	short
	lost
)

type vote struct {
	node int
	answer
}

// round is the votes of all nodes on one question.
type round struct {
	answers []answer // by node
	replies chan vote
	need    int
}

func newRound(nodes, need int) *round {
	return &round{make([]answer, nodes), make(chan vote, nodes), need}
}

func (r *round) of(k kind) (n int) {
	for _, a := range r.answers {
		if a.kind == k {
			n++
		}
	}
	return n
}

func (r *round) verdict() verdict {
	given := r.of(granted) + r.of(outbid)
	switch {
	case r.of(granted) >= r.need:
		return won
	case given >= r.need:
		return short
	case len(r.answers)-r.of(pending)-given > len(r.answers)-r.need:
		return lost
	}
	return undecided
}

// wait returns when the verdict is certain, or after d.
func (r *round) wait(d time.Duration) {
	timeout := time.After(d)
	for r.verdict() == undecided {
		select {
		case v := <-r.replies:
			r.answers[v.node] = v.answer
		case <-timeout:
			return
		}
	}
}

// owners returns by how many nodes each other owner is said to have the lock.
func (r *round) owners() map[string]int {
	owners := map[string]int{}
	for _, a := range r.answers {
		if a.kind == taken {
			if owners[a.owner] += 0; !a.uncounted {
				owners[a.owner]++
			}
		}
	}
	return owners
}

func (r *round) ahead() (most int) {
	for _, a := range r.answers {
		most = max(most, a.ahead)
	}
	return most
}

// wanted reports whether an older one waits on a node that gave us the lock.
func (r *round) wanted() bool {
	return slices.ContainsFunc(r.answers, func(a answer) bool { return a.kind != taken && a.ahead > 0 })
}

// readAnswer reads the reply of a script about one lock, or its error.
func readAnswer(script string, reply any) answer {
	if err, is := reply.(error); is {
		return answer{kind: failed, reply: err}
	}
	switch {
	case script == "trim":
		return answer{kind: granted, reply: reply}
	case reply == int64(1), reply == "OK":
		return answer{kind: granted}
	case reply == nil:
		return answer{kind: taken}
	}
	entries, err := redis.Values(reply, nil)
	if err != nil || len(entries) != 1 {
		return answer{kind: failed, reply: errors.Join(err, errors.New("unexpected reply"))}
	}
	code, isNumber := entries[0].(int64)
	if isNumber {
		votes := map[string][4]kind{
			"extend": {taken, granted, absent, taken}, "release": {granted, granted, taken},
		}
		return answer{kind: votes[script][code]}
	}
	entry, _ := entries[0].([]any)
	code, _ = entry[0].(int64)
	switch {
	case code == 1:
		return answer{kind: granted, ahead: len(entry) - 1}
	case code == 2:
		known, _ := redis.String(entry[1], nil)
		return answer{kind: outbid, known: number(known), ahead: len(entry) - 2}
	case code == 3:
		return answer{kind: absent}
	case len(entry) < 4:
		return answer{kind: taken, revoked: code == 4}
	}
	ms, _ := redis.Int64(entry[2], nil)
	a := answer{kind: taken, left: time.Duration(ms) * time.Millisecond}
	a.owner, _ = redis.String(entry[1], nil)
	if len(entry) > 4 {
		a.ahead, _ = redis.Int(entry[4], nil)
	}
	if ms == -2 {
		a.kind = absent
	}
	return a
}

// placeLives is how long a queue lives that nobody asks about.
const placeLives = 30 * time.Second

func backoff(questions int) time.Duration {
	limit := min(250*time.Millisecond, 10*time.Millisecond<<min(questions, 10))
	return 10*time.Millisecond + mathrand.N(limit-10*time.Millisecond)
}

// decide returns whether to give votes back, and whether because nobody makes progress.
func (r *round) decide(owner string, given, partial int) (yields, stuck bool) {
	if given == 0 || given >= r.need {
		return false, false
	}
	owners, majority, older := r.owners(), false, false
	for other, votes := range owners {
		majority = majority || votes >= r.need
		older = older || other != "readers" && other != "" && other < owner
	}
	yields = older && !majority || majority && r.wanted()
	return yields, !majority && len(owners) > 0 && partial > 16
}

// pause returns how long to wait before the next question.
func (r *round) pause(questions, given, partial int, ttl, took time.Duration) time.Duration {
	pause := backoff(questions)
	if given > 0 {
		return min(pause, (2*time.Millisecond+mathrand.N(time.Millisecond))<<min(partial, 6))
	}
	pause = max(pause*time.Duration(4+min(r.ahead(), 128))/4, 2*took)
	var left []time.Duration
	for _, a := range r.answers {
		if a.kind == taken && a.left > 0 {
			left = append(left, a.left)
		}
	}
	if slices.Sort(left); len(left) >= r.need {
		pause = min(pause, left[r.need-1]+time.Duration(1+2*r.ahead())*time.Millisecond)
	}
	return min(pause, max(ttl, placeLives)/2)
}
