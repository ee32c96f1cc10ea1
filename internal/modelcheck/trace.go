package modelcheck

import (
	"fmt"
	"strings"
)

// story tells a violation, one numbered line a step, with what the nodes hold after it:
//
//	1  A proposes 2 to every node                         n0:-/1  n1:-/1  n2:-/1
//	2  n0 gives A the lock and accepts 2                  n0:A/2  n1:-/1  n2:-/1
//
// "A/2" is a node whose lock key belongs to A and whose entry for the name is 2.
func (c *config) story(o *outcome[state, event]) string {
	if o.broken == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%3d  %-63s%s\n", 0, "at first", o.trace[0].before.nodesNow())
	for i, st := range o.trace {
		fmt.Fprintf(&b, "%3d  %-63s%s\n", i+1, c.describe(&st), st.after.nodesNow())
	}
	fmt.Fprintf(&b, "     → %s\n", o.broken)
	return b.String()
}

func (s *state) nodesNow() string {
	var list []string
	for n := range s.node {
		holder, entry := "-", "-"
		if s.node[n].owner != 0 {
			holder = name(int(s.node[n].owner) - 1)
		}
		if s.node[n].score != 0 {
			entry = fmt.Sprint(s.node[n].score)
		}
		list = append(list, fmt.Sprintf("n%d:%s/%s", n, holder, entry))
	}
	return strings.Join(list, "  ")
}

func (c *config) describe(st *step[state, event]) string {
	who, node := name(st.act.attempt), fmt.Sprintf("n%d", st.act.node)
	after := &st.after.attempt[st.act.attempt]
	switch st.act.kind {
	case begins:
		if c.form == counter {
			return who + " asks every node"
		}
		return fmt.Sprintf("%s proposes %d to every node", who, st.act.token)
	case asksAgain:
		return fmt.Sprintf("%s asks every node again and proposes %d", who, st.act.token)
	case decides:
		if after.phase == won {
			return fmt.Sprintf("%s has heard %s and wins with token %d", who, st.act.arrived, after.token)
		}
		return fmt.Sprintf("%s has heard %s and raises to %d", who, st.act.arrived, after.token)
	case executes:
		return node + " " + c.describeCommand(st)
	case refuses:
		was, is := st.before.node[st.act.node].score, st.after.node[st.act.node].score
		if was != is {
			return fmt.Sprintf("%s refuses %s the lock, its ZADD lands: %d over %d", node, who, is, was)
		}
		return node + " refuses " + who + " the lock"
	case expires:
		return fmt.Sprintf("%s: the key of %s is gone (expired or released)", node, who)
	case forgets:
		return node + " restarts without its data"
	case trims:
		return node + ": the entry is trimmed"
	case handsOver:
		return fmt.Sprintf("%s hands the key over to %s", node, who)
	case repairs:
		return fmt.Sprintf("%s repairs its key and token on %s", who, node)
	case ticks:
		return fmt.Sprintf("time is %d", st.after.now)
	}
	return "?"
}

func (c *config) describeCommand(st *step[state, event]) string {
	who := name(st.act.attempt)
	n, was := &st.after.node[st.act.node], &st.before.node[st.act.node]
	before, after := was.conn[st.act.attempt], n.conn[st.act.attempt]
	switch before.at {
	case asked, askedNoVote, askedAgain, askedAgainNoVote:
		gives := "gives " + who + " the lock"
		if was.taken(st.act.attempt) {
			gives = fmt.Sprintf("(%s's key is gone) %s", name(int(was.owner)-1), gives)
		}
		switch {
		case c.form == pipeline, c.flaw == clientClock:
			return gives
		case before.at == askedNoVote, before.at == askedAgainNoVote:
			return gives + ", but abstains"
		case n.score == was.score:
			return fmt.Sprintf("%s and knows %d", gives, n.score)
		}
		return fmt.Sprintf("%s and accepts %d", gives, n.score)
	case set, setNoVote:
		zadd := fmt.Sprintf("ZADD of %s: %d over %d", who, before.value, was.score)
		if after.gaveLock() && c.flaw != torn {
			zadd += ", GET shows " + who
		}
		return zadd
	case addedAccepted, addedKnown:
		return fmt.Sprintf("GET of %s shows %s", who, name(int(n.owner)-1))
	case raiseAsked:
		switch {
		case n.score != was.score:
			return fmt.Sprintf("raise of %s: accepts %d", who, n.score)
		case after.at == raised:
			return fmt.Sprintf("raise of %s: OK, though it holds %d", who, n.score)
		}
		return fmt.Sprintf("raise of %s: refused", who)
	}
	return "?"
}

func (set nodeSet) String() string {
	var list []string
	for n := range nodes {
		if set.has(n) {
			list = append(list, fmt.Sprintf("n%d", n))
		}
	}
	return strings.Join(list, "+")
}
