package terminal

import (
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Printer prints what was found. On a terminal it cuts tables, and breaks sentences, at the terminal's width;
// elsewhere lines are whole, for grep.
type Printer struct {
	Colours
	out   io.Writer
	width int // 0: no limit
}

// NewPrinter returns a Printer that writes to out.
func NewPrinter(out io.Writer) Printer {
	return Printer{Colours: coloursOn(out), out: out, width: columns(out)}
}

// Print prints lines as they are.
func (p Printer) Print(lines ...string) error {
	_, err := io.WriteString(p.out, strings.Join(lines, "\n")+"\n")
	return err
}

// Table prints rows with their columns aligned; what matters least should stand last.
func (p Printer) Table(rows [][]string) error { return p.Print(Clip(Align(rows), p.width)...) }

// Item prints a sentence behind its mark; further lines are indented.
func (p Printer) Item(mark, text string) error {
	const indent = "   "
	if p.width > len(indent) {
		text = strings.Join(Wrap(strings.Fields(text), p.width-len(indent)-1), "\n"+indent)
	}
	return p.Print(mark + text)
}

// Align makes a line of each row, with the columns aligned.
func Align(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		_, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n") // into memory
	}
	_ = w.Flush()
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// Clip cuts lines that a terminal of this width would break, in place. 0: no limit.
func Clip(lines []string, width int) []string {
	for i, line := range lines {
		if width > 0 && utf8.RuneCountInString(line) > width {
			lines[i] = string([]rune(line)[:width-1]) + "…"
		}
	}
	return lines
}

// Wrap makes lines of words, of at most width where no word is longer.
func Wrap(words []string, width int) []string {
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
