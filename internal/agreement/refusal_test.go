package agreement

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/quorum"
)

func TestWhoIsRefused(t *testing.T) {
	for at, cells := range cases.Rows(t, "testdata/refusal.txt", 4) {
		nodes, seconds := strings.Fields(cells[0]), cases.Must(strconv.Atoi(cells[1]))(t)
		outcome, settled := cells[2], cells[3]
		for _, before := range []*Conflict{nil, {}} {
			g := &registry{electorate: quorum.OneList(len(nodes)), addrs: strings.Fields("a b c d e")[:len(nodes)]}
			g.begin()
			now := time.Now()
			for i := range g.at {
				g.at[i].id = strconv.Itoa(i + 1)
			}
			g.opened = true
			g.describe()
			g.refusal.Store(before)
			if seconds > 0 {
				g.clear = now.Add(-time.Duration(seconds) * time.Second)
			}
			for i, word := range nodes {
				if !g.hears(i, word, now) {
					t.Fatalf("%s: bad word %s", at, word)
				}
			}
			g.judge(now, func() bool { return true })
			refused := map[string]bool{"works": false, "refused": true, "stays": before != nil}[outcome]
			if got := g.refusal.Load() != nil; got != refused {
				t.Errorf("%s: refused before %t, and then %t: want it %s", at, before != nil, got, outcome)
			}
			if got := !g.clear.IsZero(); got != (settled == "yes") {
				t.Errorf("%s: settled %t, want %s", at, got, settled)
			}
		}
	}
}

// hears notes what a word of the table says of a node. It reports whether there is such a word.
func (g *registry) hears(node int, word string, now time.Time) bool {
	what, ago, _ := strings.Cut(word, "@")
	if what == "-" {
		return true
	}
	seconds, _ := strconv.Atoi(ago)
	at := &g.at[node]
	at.heard = now.Add(-time.Duration(seconds) * time.Second)
	own := g.own.texts[0]
	near := own[:len(own)-3] + "7@x"
	var texts []string
	at.counts, at.ages = map[string]int{}, map[string]time.Duration{}
	for part := range strings.SplitSeq(what, "+") {
		clients := 1
		switch part {
		case "new":
			continue
		case "told", "emptied":
			if texts, at.noted, at.confirmed = append(texts, own), own, at.heard; part == "emptied" {
				at.forgot = now.Add(-10 * time.Second)
			}
		case "used", "young":
			texts = append(texts, own)
			if at.ages[own] = registrationLives + establishedAfter; part == "young" {
				at.ages[own]--
			}
		case "other":
			texts = append(texts, at.id+"@"+g.addrs[node]+" 8@y 9@z")
		case "near":
			texts = append(texts, near)
		case "ghost":
			texts, clients, at.counted = append(texts, near), 0, true
		case "uncounted":
			texts = append(texts, near)
			continue
		case "elsewhere":
			texts = append(texts, "7@x 8@y 9@z")
		case "doubt":
			texts = append(texts, "7@a 2@b 3@c")
		case "unread":
			at.digest = "not read"
			return true
		default:
			return false
		}
		at.counts[texts[len(texts)-1]] = clients
	}
	if texts != nil {
		at.used = knownLists.read(texts)
		at.digest = at.used.digest
	}
	return true
}
