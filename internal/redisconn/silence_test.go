package redisconn

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/endpoint"
)

func TestSilence(t *testing.T) {
	for at, row := range cases.Rows(t, "testdata/silence.txt", 6) {
		w := &snapshot{now: time.Unix(1e9, 0), config: &Config{Timeout: 250 * ms, ConnectTimeout: 1000 * ms}}
		ago := func(text string) time.Time {
			n := cases.Must(strconv.Atoi(text))(t)
			return w.now.Add(-time.Duration(n) * ms)
		}
		late := 0 * ms
		if row[0] == "late" {
			late = w.config.lateness()
		}
		w.due, w.grace = w.now.Add(-late), row[0] == "again"
		readConnection(w, strings.Fields(strings.ReplaceAll(row[1], ",", "")), ago)
		readSuspicion(w, strings.Fields(strings.NewReplacer("/", " ", ",", "").Replace(row[2])), ago)
		if w.waitsForReader() {
			cases.Equals(t, "again", row[5], "%s", at)
			continue
		}
		var fates []string
		for r := range strings.FieldsSeq(row[3]) {
			if r == "-" {
				break
			}
			r, eval := strings.CutSuffix(r, "s")
			r, replied := strings.CutPrefix(r, "x")
			asked, sent, apart := strings.Cut(r, ">")
			at := time.Time{}
			switch {
			case !apart:
				at = ago(asked)
			case sent != "-":
				at = ago(sent)
			}
			if w.oldest.IsZero() {
				w.oldest = at
			}
			if !replied {
				q := &Request{Message: &Message{Asked: ago(asked)}, eval: eval}
				fates = append(fates, []string{"waits", "times out", "late"}[w.judge(q, at)])
			}
		}
		p, before := w.decide(), w.spared.times
		becomes := strings.Join(fates, ", ")
		if p.why != ErrTimeout { //nolint:errorlint // the same error
			becomes = strings.ReplaceAll(becomes, "times out", "unasked")
		}
		cases.Equals(t, becomes, strings.Trim(row[4], "-"), "%s: the requests", at)
		cases.Equals(t, planned(w, p, before), strings.Trim(row[5], "-"), "%s: the client", at)
	}
}

// readConnection reads the second column.
func readConnection(w *snapshot, words []string, ago func(string) time.Time) {
	if w.connected = words[0] == "up"; w.connected {
		if w.since = ago(words[1]); len(words) > 2 {
			w.took = ago(words[3]).Sub(w.since)
		}
		return
	}
	w.retries, w.down = 1, ErrDown
	switch words[len(words)-1] {
	case "failing":
		w.retries = 0
	case "first":
		w.down = errConnecting
	case "name":
		w.down = fmt.Errorf("%w: %w", ErrDown, &net.DNSError{})
	case "credentials":
		w.down = fmt.Errorf("%w: %w", ErrDown, endpoint.CredentialsError{Err: ErrTimeout})
	}
}

// readSuspicion reads the third column.
func readSuspicion(w *snapshot, words []string, ago func(string) time.Time) {
	number := func(i int) int { return int(w.now.Sub(ago(words[i])) / ms) }
	for i, word := range words {
		switch word {
		case "silent":
			w.unresponsive, w.giveUp = ago(words[i+1]), ago("-"+words[i+2])
		case "spared":
			w.spared.times = number(i + 1)
		case "starved":
			w.starved = number(i + 1)
		case "elsewhere":
			w.answers = 1
		}
	}
}

// planned formats a plan as the last column has it.
func planned(w *snapshot, p plan, spared int) string {
	var does []string
	say := func(is bool, format string, args ...any) {
		if is {
			does = append(does, fmt.Sprintf(format, args...))
		}
	}
	in := func(t time.Time) time.Duration { return t.Sub(w.now) / ms }
	say(!p.unresponsive.IsZero(), "silent %d/%d", -in(p.unresponsive), in(p.giveUp))
	say(p.spared.times > spared, "spares %d", p.spared.times)
	say(p.starved > 0, "starved %d", p.starved)
	say(p.replace, "replaces")
	say(p.failFast, "fails fast")
	say(p.changed, "tells")
	say(!p.next.IsZero(), "fires %d", in(p.next))
	return strings.Join(does, ", ")
}
