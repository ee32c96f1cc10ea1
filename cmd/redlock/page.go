package main

import (
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// page is where a verb shows what it has found. On a terminal tables are cut, and sentences broken, at its width;
// elsewhere lines are whole, for grep.
type page struct {
	ink
	out   io.Writer
	width int // 0: no limit
}

func pageOn(out io.Writer) page {
	p := page{ink: inkOn(out), out: out}
	if f, ok := out.(*os.File); ok && onTerminal(out) {
		p.width = columns(f)
	}
	return p
}

func (p page) print(lines ...string) error {
	_, err := io.WriteString(p.out, strings.Join(lines, "\n")+"\n")
	return err
}

// table prints rows with their columns aligned; what matters least should stand last.
func (p page) table(rows [][]string) error { return p.print(clip(aligned(rows), p.width)...) }

// item prints a sentence behind its mark; further lines are indented.
func (p page) item(mark, text string) error {
	const indent = "   "
	if p.width > len(indent) {
		text = strings.Join(fold(strings.Fields(text), p.width-len(indent)-1), "\n"+indent)
	}
	return p.print(mark + text)
}

func aligned(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		_, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n") // into memory
	}
	_ = w.Flush()
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// clip cuts lines that a terminal would break.
func clip(lines []string, width int) []string {
	for i, line := range lines {
		if width > 0 && utf8.RuneCountInString(line) > width {
			lines[i] = string([]rune(line)[:width-1]) + "…"
		}
	}
	return lines
}

// fold makes lines of at most width of words, where they allow it.
func fold(words []string, width int) []string {
	var lines []string
	line := ""
	for _, word := range words {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
