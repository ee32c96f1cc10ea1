package modelcheck

import (
	"fmt"
	"strings"
)

// story tells a violation in English, one numbered line a step. It leaves tokens out where they do not matter: nobody
// raises one, and exclusion is what breaks.
func (m *migration) story(o *outcome[migrationState, migrationEvent]) string {
	if o.broken == "" {
		return ""
	}
	tell := teller{m, !strings.HasPrefix(o.broken, "exclusion")}
	for _, st := range o.trace {
		tell.tokens = tell.tokens || st.after.attempt[st.act.attempt].phase == raising
	}
	var b strings.Builder
	fmt.Fprintf(&b, "list A is %s; list B is %s\n\n", m.a, m.b)
	for i := range o.trace {
		fmt.Fprintf(&b, "%2d. %s\n", i+1, tell.describe(&o.trace[i]))
	}
	fmt.Fprintf(&b, "\n%s\n", o.broken)
	return b.String()
}

type teller struct {
	*migration
	tokens bool
}

func (m teller) describe(st *step[migrationState, migrationEvent]) string {
	a, act := st.act.attempt, &st.act
	who := client(a)
	before, after := &st.before.attempt[a], &st.after.attempt[a]
	switch act.kind {
	case begins:
		asks := fmt.Sprintf("%s (%s) asks %s", who, after.with, m.asked(after.with))
		if !m.tokens {
			return asks
		}
		return fmt.Sprintf("%s and proposes %d", asks, after.token)
	case decides:
		if after.phase == raising {
			return fmt.Sprintf("%s has the lock from %s, but too few accept %d: it raises its token to %d",
				who, act.voters, before.token, after.token)
		}
		return fmt.Sprintf("%s has %s, %s: it holds the lock%s", who, act.voters, m.majorityOf(after.with), m.token(after))
	case extends:
		return fmt.Sprintf("%s extends its hold on %s and trusts it", who, act.voters)
	case ends:
		if before.phase == won {
			return who + " ends its hold or crashes"
		}
		return who + " gives up or crashes"
	case executes:
		return m.describeCommand(st)
	case repairs:
		return fmt.Sprintf("%s sets its key again on %s%s", who, nodeName(act.node), m.token(after))
	case ticks:
		return fmt.Sprintf("time is %d", st.after.now)
	}
	return "?"
}

func (m teller) describeCommand(st *step[migrationState, migrationEvent]) string {
	a, n := st.act.attempt, st.act.node
	was, is := &st.before.node[n], &st.after.node[n]
	if was.conn[a] == raiseOut {
		return fmt.Sprintf("%s accepts %d from %s", nodeName(n), is.entry, client(a))
	}
	gives := fmt.Sprintf("%s gives %s the lock", nodeName(n), client(a))
	if was.owner != 0 {
		gives = fmt.Sprintf("the key of %s on %s goes, and %s", client(int(was.owner)-1), nodeName(n), gives)
	}
	switch {
	case !m.tokens:
		return gives
	case is.entry > was.entry:
		return fmt.Sprintf("%s and accepts %d", gives, is.entry)
	}
	return fmt.Sprintf("%s, but knows %d", gives, is.entry)
}

func (m teller) token(at *migrationAttempt) string {
	if !m.tokens {
		return ""
	}
	return fmt.Sprintf(" with token %d", at.token)
}

// majorityOf says what a client needs, in the words of what it believes.
func (m *migration) majorityOf(with votesWith) string {
	switch {
	case with != both:
		return "a majority of " + with.String()
	case m.flaw == unionMajority:
		return "a majority of all nodes"
	}
	return "a majority of each list"
}

func client(a int) string { return fmt.Sprintf("client %d", a+1) }

func nodeName(n int) string { return string(rune('a' + n)) }

func (w votesWith) String() string {
	return [...]string{onlyA: "list A", onlyB: "list B", both: "both lists"}[w]
}

func (l list) String() string {
	var names []string
	for n := range maxListed {
		if l.has(n) {
			names = append(names, nodeName(n))
		}
	}
	last := len(names) - 1
	if last < 1 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
