package main

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed bugs/*.txt
var files embed.FS

// groups are the files under bugs, in the order in which bugs/README.md lists their mutants.
var groups = []string{
	"time", "undos", "votes", "guard", "tokens", "waiters", "scripts", "clocks", "between", "lists", "crowd",
	"command",
	"elections", "fence",
	"values",
}

func mutants() ([]mutant, error) { return readMutants(files, groups) }

// readMutants reads the files of the groups; bugs/README.md describes the notation. It reads on after an error, so that
// all are reported at once.
func readMutants(from fs.FS, groups []string) (all []mutant, _ error) {
	var errs []error
	for _, group := range groups {
		file := "bugs/" + group + ".txt"
		text, err := fs.ReadFile(from, file)
		if err != nil {
			return nil, err
		}
		var m *mutant // whose block this is
		n, begins := 0, 0
		for line := range strings.SplitSeq(string(text)+"\n", "\n") { // the last line is an empty one
			n++
			at, err := n, error(nil)
			switch {
			case strings.HasPrefix(line, "#"):
			case strings.TrimRight(line, " \t") != line:
				err = errors.New("a space or tab ends the line: editors remove it")
			case line != "" && m != nil:
				err = m.read(line)
			case line != "":
				m, begins = &mutant{name: line}, n
				if strings.TrimLeft(line, " \t") != line {
					err = fmt.Errorf("%q has no name above it: a mutant begins with its name, not indented", line)
				}
			case m != nil:
				at, err = begins, m.check()
				all, m = append(all, *m), nil
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s:%d: %w", file, at, err))
			}
		}
	}
	return all, errors.Join(errs...)
}

// read reads a line below the name: a field, or a line of a change.
func (m *mutant) read(line string) error {
	text, indented := strings.CutPrefix(line, "  ")
	field, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case !indented:
		return fmt.Errorf("%q is neither indented, as a field, nor below an empty line, as a name", line)
	case text[0] == '-' || text[0] == '+':
		return m.patch(text)
	case rest == "":
		return fmt.Errorf("%s says nothing", field)
	case field == "test" && m.test == "":
		m.test = rest
	case field == "why" && m.why == "":
		m.why = rest
	case field == "in":
		m.changes = append(m.changes, change{file: rest})
	case field == "test" || field == "why":
		return fmt.Errorf("%s twice", field)
	default:
		return fmt.Errorf("no field is called %s: test, why, in", field)
	}
	return nil
}

// patch adds a line to the last change: "- " and "+ " a part of a line, "-|" and "+|" a whole one.
func (m *mutant) patch(line string) error {
	sign, mark, text := line[0], line[1:min(2, len(line))], line[min(2, len(line)):]
	if mark != "|" && (mark != " " || text == "") {
		return fmt.Errorf("%q: behind %c stands a space with a part of a line, or a bar with a whole line", line, sign)
	}
	if len(m.changes) == 0 {
		return errors.New("no field in above it names the file")
	}
	c := &m.changes[len(m.changes)-1]
	side := &c.before
	if sign == '+' {
		side = &c.after
	}
	switch whole := mark == "|"; {
	case sign == '+' && c.before == "":
		return errors.New("+ without - above it")
	case sign == '-' && c.after != "":
		return errors.New("- below +: another change has a field in of its own")
	case c.before != "" && strings.HasSuffix(c.before, "\n") != whole:
		return errors.New("whole lines and parts of lines in one change")
	case whole:
		*side += text + "\n"
	case *side == "":
		*side = text
	default:
		*side += "\n" + text
	}
	return nil
}

// check returns an error if a change is missing.
func (m *mutant) check() error {
	if len(m.changes) == 0 {
		return fmt.Errorf("%q has no field in, which names a file to change", m.name)
	}
	for _, c := range m.changes {
		if c.before == c.after {
			return fmt.Errorf("%q changes nothing in %s", m.name, c.file)
		}
	}
	return nil
}
