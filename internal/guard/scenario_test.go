package guard

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// scenario is a block of lines in a file under testdata: its name, and below it, indented, its fields, each a word and
// a value.
type scenario struct {
	name   string
	fields map[string]string
}

// scenarios reads a file. It skips empty lines, and comments, which begin with #.
func scenarios(t *testing.T, file string) (all []scenario) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || word[0] == '#':
		case line[0] != ' ':
			all = append(all, scenario{line, map[string]string{}})
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
	return all
}

// now is the time of all scenarios, by our own clock and by the node's.
var now = time.Unix(1_766_620_800, 0)

// span parses how long before now a time is.
func span(text string) (time.Duration, error) { return time.ParseDuration(text) }

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
func (s scenario) said() (*Info, error) {
	i := &Info{Role: "master", replID: strings.Repeat("a", 40), runID: "ours", micros: ago(0), period: 10 * time.Second}
	for word := range strings.SplitSeq(s.fields["says"], ", ") {
		switch kind, rest, _ := strings.Cut(word, " "); kind {
		case "up":
			d, err := span(rest)
			if i.Uptime = d; err != nil {
				return nil, err
			}
		case "fast":
			d, err := span(rest)
			if i.micros = ago(-d); err != nil {
				return nil, err
			}
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
			return nil, fmt.Errorf("a node says %q", word)
		}
	}
	var err error
	i.record, _, err = s.record("record")
	return i, err
}

// record parses the record that a field begins with, and returns the rest of the field.
func (s scenario) record(field string) (r record, more []string, err error) {
	if s.fields[field] == "" {
		return r, nil, nil
	}
	words := strings.Split(s.fields[field], ", ")
	var letter, since string
	if _, err := fmt.Sscanf(words[0], "%s since %s", &letter, &since); err != nil {
		return r, nil, fmt.Errorf("%s %q: %w", field, words[0], err)
	}
	d, err := span(since)
	r = record{epoch: epoch(letter), since: ago(d)}
	for _, word := range words[1:] {
		if word == "durable" {
			r.durable = true
		} else {
			more = append(more, word)
		}
	}
	return r, more, err
}

// knew parses what the client knew of the node.
func (s scenario) knew() (incarnation, error) {
	r, more, err := s.record("knew")
	if err != nil || r == (record{}) {
		return incarnation{}, err
	}
	old := incarnation{epoch: r.epoch, record: r, durable: r.durable, reason: reasonRestart}
	if old.since = time.UnixMicro(r.since); r.epoch == unknownEpoch {
		old.reason = reasonUnknown
	}
	for _, word := range more {
		switch kind, rest, _ := strings.Cut(word, " "); kind {
		case "seen":
			d, err := span(rest)
			if err != nil {
				return old, err
			}
			old.at, old.micros = now.Add(-d), ago(d)
		case "up":
			d, err := span(rest)
			if err != nil {
				return old, err
			}
			old.run, old.uptime = "ours", d
		case "first":
			d, err := span(rest)
			if err != nil {
				return old, err
			}
			old.since = now.Add(-d)
		case "unwritten":
			old.record.durable = !old.durable
		case "jumped":
			old.jump = jump{old.at.Add(time.Second), time.Hour}
		default:
			return old, fmt.Errorf("a client knew %q", word)
		}
	}
	return old, nil
}

// reasons are the words that scenarios use.
var reasons = map[string]reason{
	"restarted": reasonRestart, "unproven": reasonUnproven, "promoted": reasonPromoted, "emptied": reasonEmptied,
	"noted": reasonNoted, "unknown": reasonUnknown, "clock": reasonClock, "jumped": jump{by: time.Hour}.reason(),
}

// proven parses the wanted outcome.
func (s scenario) proven() (age time.Duration, why reason, err error) {
	text, word, _ := strings.Cut(s.fields["proven"], " ")
	age, err = span(text)
	if why = reasons[word]; why == "" {
		err = fmt.Errorf("proven %q: unknown reason", word)
	}
	return age, why, err
}
