package guard

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// scenario is a block of lines in a file under testdata: its name, and below it, indented, its fields, each a word and
// a value. What cannot be parsed ends the test.
type scenario struct {
	t      *testing.T
	name   string
	fields map[string]string
}

// eachScenario runs a test with each scenario of a file. It skips empty lines, and comments, which begin with #.
func eachScenario(t *testing.T, file string, test func(t *testing.T, s scenario)) {
	t.Helper()
	text := cases.Must(os.ReadFile(file))(t)
	var all []scenario
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || word[0] == '#':
		case line[0] != ' ':
			all = append(all, scenario{name: line, fields: map[string]string{}})
		case len(all) == 0:
			t.Fatalf("%s: %q has no name above it", file, line)
		case all[len(all)-1].fields[word] != "":
			t.Fatalf("%s: %s: %s twice", file, all[len(all)-1].name, word)
		default:
			all[len(all)-1].fields[word] = strings.TrimSpace(rest)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s: no scenarios", file)
	}
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			s.t = t
			test(t, s)
		})
	}
}

// now is the time of all scenarios, by our own clock and by the node's.
var now = time.Unix(1_766_620_800, 0)

// span parses how long before now a time is.
func (s scenario) span(text string) time.Duration {
	d := cases.Must(time.ParseDuration(text))(s.t)
	return d
}

// ago is the node's time d before now.
func ago(d time.Duration) int64 { return now.Add(-d).UnixMicro() }

// epoch is the epoch that the scenarios name by a letter.
func epoch(letter string) string {
	if letter == unknownEpoch {
		return unknownEpoch
	}
	return strings.Repeat(letter, 16)
}

// said parses what the node says.
func (s scenario) said() *Info {
	i := &Info{Role: "master", replID: other("a"), runID: "ours", micros: ago(0), period: 10 * time.Second}
	for word := range strings.SplitSeq(s.fields["says"], ", ") {
		switch kind, rest, _ := strings.Cut(word, " "); kind {
		case "up":
			i.Uptime = s.span(rest)
		case "fast":
			i.micros = ago(-s.span(rest))
		case "promoted":
			i.Promoted = true
		case "durable":
			i.AOF, i.Fsync, i.Lazy = true, "always", "no"
		case "trusted":
			i.trusted = true
		case "refused":
			i.Refused = "NOPERM"
		case "remembers":
			i.hasScript = true
		default:
			s.t.Fatalf("a node says %q", word)
		}
	}
	i.record, _ = s.record("record")
	return i
}

// record parses the record that a field begins with, and returns the rest of the field.
func (s scenario) record(field string) (r record, more []string) {
	if s.fields[field] == "" {
		return r, nil
	}
	words := strings.Split(s.fields[field], ", ")
	var letter, since string
	if _, err := fmt.Sscanf(words[0], "%s since %s", &letter, &since); err != nil {
		s.t.Fatalf("%s %q: %v", field, words[0], err)
	}
	r = record{epoch: epoch(letter), since: ago(s.span(since))}
	for _, word := range words[1:] {
		if word == "durable" {
			r.durable = true
		} else {
			more = append(more, word)
		}
	}
	return r, more
}

// knew parses what the client knew of the node.
func (s scenario) knew() incarnation {
	r, more := s.record("knew")
	if r == (record{}) {
		return incarnation{}
	}
	old := incarnation{epoch: r.epoch, record: r, durable: r.durable, reason: reasonRestart}
	if old.since = time.UnixMicro(r.since); r.epoch == unknownEpoch {
		old.reason = reasonUnknown
	}
	for _, word := range more {
		switch kind, rest, _ := strings.Cut(word, " "); kind {
		case "seen":
			old.at, old.micros = now.Add(-s.span(rest)), ago(s.span(rest))
		case "up":
			old.run, old.uptime = "ours", s.span(rest)
		case "first":
			old.since = now.Add(-s.span(rest))
		case "unwritten":
			old.record.durable = !old.durable
		case "jumped":
			old.jump = jump{old.at.Add(time.Second), time.Hour}
		default:
			s.t.Fatalf("a client knew %q", word)
		}
	}
	return old
}

// reasons are the words that scenarios use.
var reasons = map[string]reason{
	"restarted": reasonRestart, "unproven": reasonUnproven, "promoted": reasonPromoted, "emptied": reasonEmptied,
	"noted": reasonNoted, "unknown": reasonUnknown, "clock": reasonClock, "jumped": jump{by: time.Hour}.reason(),
}

// proven parses the wanted outcome.
func (s scenario) proven() (age time.Duration, why reason) {
	text, word, _ := strings.Cut(s.fields["proven"], " ")
	if why = reasons[word]; why == "" {
		s.t.Fatalf("proven %q: unknown reason", word)
	}
	return s.span(text), why
}
