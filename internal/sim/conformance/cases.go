package conformance

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"time"
)

//go:embed cases/*.txt
var files embed.FS

// namesFile says what the names in the cases stand for.
const namesFile = "cases/names.txt"

// Case is a block of a file under cases/; cases/README.md describes the notation.
type Case struct {
	Name  string
	Given string        // commands divided by "; " that make the state
	Heard string        // a channel that another connection has subscribed to
	After time.Duration // how much time passes between Given and Do
	Do    string        // the command in question
	Want  string        // the reply
	Left  string        // what state returns then

	at string // file and line
}

// Cases returns the cases by the names of their files without the ending: a script's, or that of a group of Redis's
// own commands.
func Cases() (map[string][]Case, error) { return readTable(files) }

// reader reads the files. It reads on after an error, so that all are reported at once.
type reader struct {
	names map[string]string // what $name stands for
	found map[string]string // where the case of a name is
	errs  []error
}

// line is a line that is neither empty nor a comment.
type line struct {
	at       string // file and line
	text     string
	indented bool
}

func readTable(from fs.FS) (map[string][]Case, error) {
	paths, err := fs.Glob(from, "cases/*.txt")
	if err != nil {
		return nil, err
	}
	texts := map[string][][]line{}
	for _, p := range paths {
		text, err := fs.ReadFile(from, p)
		if err != nil {
			return nil, err
		}
		texts[p] = blocks(p, string(text))
	}
	r := &reader{names: map[string]string{}, found: map[string]string{}}
	for _, block := range texts[namesFile] {
		r.define(block)
	}
	table := map[string][]Case{}
	for _, p := range paths {
		if p == namesFile {
			continue
		}
		group := strings.TrimSuffix(path.Base(p), ".txt")
		for _, block := range texts[p] {
			table[group] = append(table[group], r.read(block))
		}
	}
	return table, errors.Join(r.errs...)
}

// blocks divides a file at its empty lines, and leaves comments out.
func blocks(file, text string) (all [][]line) {
	var block []line
	n := 0
	for raw := range strings.SplitSeq(text+"\n", "\n") { // the last line is an empty one
		n++
		text := strings.TrimSpace(raw)
		switch {
		case strings.HasPrefix(text, "#"):
		case text != "":
			block = append(block, line{fmt.Sprintf("%s:%d", file, n), text, raw[0] == ' ' || raw[0] == '\t'})
		case block != nil:
			all, block = append(all, block), nil
		}
	}
	return all
}

func (r *reader) refuse(at, format string, args ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s: %w", at, fmt.Errorf(format, args...)))
}

// define reads what names stand for, one in each line.
func (r *reader) define(block []line) {
	for _, l := range block {
		name, rest, _ := strings.Cut(l.text, " ")
		text, err := r.expand(strings.TrimSpace(rest))
		_, twice := r.names[name]
		switch {
		case reference.FindString("$"+name) != "$"+name:
			r.refuse(l.at, "%q is no name: letters and digits", name)
		case twice:
			r.refuse(l.at, "%s is defined twice", name)
		case err != nil:
			r.refuse(l.at, "%w", err)
		case text == "":
			r.refuse(l.at, "%s stands for nothing", name)
		default:
			r.names[name] = text
		}
	}
}

// reference is a name in a text. A dollar sign before anything but a letter stands for itself.
var reference = regexp.MustCompile(`\$[A-Za-z][A-Za-z0-9]*`)

// expand replaces the names in a text by what they stand for.
func (r *reader) expand(text string) (string, error) {
	var err error
	expanded := reference.ReplaceAllStringFunc(text, func(name string) string {
		stands, known := r.names[name[1:]]
		if !known {
			err = fmt.Errorf("%s is not defined in %s", name, namesFile)
		}
		return stands
	})
	return expanded, err
}

// read reads a case: its name, and indented below it the fields.
func (r *reader) read(block []line) Case {
	c := Case{Name: block[0].text, at: block[0].at}
	if block[0].indented {
		r.refuse(c.at, "%q has no name above it: a case begins with its name, not indented", c.Name)
		return c
	}
	if other, twice := r.found[c.Name]; twice {
		r.refuse(c.at, "%q is the name of the case at %s, too", c.Name, other)
	} else {
		r.found[c.Name] = c.at
	}
	seen := map[string]bool{}
	for _, l := range block[1:] {
		if !l.indented {
			r.refuse(l.at, "%q is neither indented, as a field, nor below an empty line, as a name", l.text)
			continue
		}
		field, text, _ := strings.Cut(l.text, " ")
		if seen[field] {
			r.refuse(l.at, "%s twice", field)
		} else if err := r.set(&c, field, strings.TrimSpace(text)); err != nil {
			r.refuse(l.at, "%w", err)
		}
		seen[field] = true
	}
	for _, field := range []string{"do", "want"} {
		if !seen[field] {
			r.refuse(c.at, "%q has no field %s", c.Name, field)
		}
	}
	return c
}

func (r *reader) set(c *Case, field, text string) error {
	text, err := r.expand(text)
	if err != nil {
		return err
	}
	switch field {
	case "given":
		c.Given, err = text, checkCommands(strings.Split(text, "; ")...)
	case "heard":
		c.Heard = text
	case "after":
		c.After, err = time.ParseDuration(text)
		if err == nil && c.After <= 0 {
			err = errors.New("no time")
		}
	case "do":
		c.Do, err = text, checkCommands(text)
	case "want":
		c.Want = text
		_, err = parseWant(text)
	case "left":
		c.Left = text
	default:
		return fmt.Errorf("no field is called %s: given, heard, after, do, want, left", field)
	}
	if text == "" {
		return fmt.Errorf("%s says nothing", field)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", field, text, err)
	}
	return nil
}

func checkCommands(commands ...string) error {
	for _, c := range commands {
		if len(words(c)) == 0 {
			return errors.New("a command without words")
		}
		if strings.Count(c, "'")%2 != 0 {
			return fmt.Errorf("a quote is not closed in %s", c)
		}
	}
	return nil
}

// words splits a command at spaces, except within quotes.
func words(command string) []string {
	var words []string
	for line := strings.TrimSpace(command); line != ""; line = strings.TrimLeft(line, " ") {
		if rest, ok := strings.CutPrefix(line, "'"); ok {
			word, after, _ := strings.Cut(rest, "'")
			words, line = append(words, word), after
			continue
		}
		word, after, _ := strings.Cut(line, " ")
		words, line = append(words, word), after
	}
	return words
}
