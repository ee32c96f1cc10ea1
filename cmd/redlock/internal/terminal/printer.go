package terminal

import (
	"cmp"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/quorumlock/redlock/internal/printable"
)

// Printer prints what was found, which nodes and other clients have said: so whatever a terminal would take for more
// than text is escaped in lines, cells and sentences, and cells have a limit. On a terminal it cuts tables, and breaks
// sentences, at the terminal's width; elsewhere lines are whole, for grep.
type Printer struct {
	Colours
	Width int // 0: no limit
	out   io.Writer
}

// NewPrinter returns a Printer that writes to out.
func NewPrinter(out io.Writer) Printer {
	width, _ := size(out)
	return Printer{Colours: coloursOn(out), out: out, Width: width}
}

// Print prints lines.
func (p Printer) Print(lines ...string) error {
	for i, line := range lines {
		lines[i] = printable.Text(line)
	}
	return p.Draw(lines...)
}

// Draw prints lines as they are: they may have been painted. What others have said must come from Align.
func (p Printer) Draw(lines ...string) error {
	_, err := io.WriteString(p.out, strings.Join(lines, "\n")+"\n")
	return err
}

// Table prints rows with their columns aligned, and cuts lines: what matters least should stand last.
func (p Printer) Table(rows [][]string) error { return p.Draw(Clip(Align(rows), p.Width)...) }

// Item prints a sentence behind its mark, with its first word in a colour; further lines are indented.
func (p Printer) Item(mark, colour, text string) error {
	const indent = "   "
	if text = printable.Text(text); p.Width > len(indent) {
		text = strings.Join(Wrap(strings.Fields(text), p.Width-len(indent)-1), "\n"+indent)
	}
	first := strings.IndexAny(text+" ", " \n")
	return p.Draw(mark + p.Paint(colour, text[:first]) + text[first:])
}

const gap = 2 // between two columns

// legible escapes what cannot be printed in cells, and cuts what may be of any length, in place.
func legible(rows [][]string) [][]string {
	for _, cells := range rows {
		for c, cell := range cells {
			cells[c] = printable.Beginning(cell, printable.Most)
		}
	}
	return rows
}

// Align makes a line of each row, with the columns aligned.
func Align(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, gap, ' ', 0)
	for _, cells := range legible(rows) {
		_, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n") // into memory
	}
	_ = w.Flush()
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

// Narrow makes rows fit, in place; 0: no limit. It cuts names in some columns in the middle, those of the widest first.
// Where little would be left of them, other columns go before, those that are spare, one after the other.
func Narrow(rows [][]string, width int, names []int, spare ...int) [][]string {
	const least, much = 3, 8
	widths, total, excess := make([]int, len(rows[0])), -gap, 0
	legible(rows)
	for c := range widths {
		for _, cells := range rows {
			widths[c] = max(widths[c], utf8.RuneCountInString(cells[c]))
		}
		total += widths[c] + gap
	}
	for _, c := range names {
		excess += max(widths[c]-much, 0)
	}
	for ; width > 0 && total-excess > width && len(spare) > 0; spare = spare[1:] {
		total -= widths[spare[0]] + gap
		widths[spare[0]] = 0
	}
	for ; width > 0 && total > width; total-- {
		widest := slices.MaxFunc(names, func(a, b int) int { return cmp.Compare(widths[a], widths[b]) })
		if widths[widest] <= least {
			break
		}
		widths[widest]--
	}
	for r, cells := range rows {
		rows[r] = cells[:0]
		for c, cell := range cells {
			if widths[c] > 0 {
				rows[r] = append(rows[r], shorten(cell, widths[c]))
			}
		}
	}
	return rows
}

// shorten cuts a name in the middle: its beginning says what it is about, and its end which one it is.
func shorten(name string, width int) string {
	runes := []rune(name)
	if len(runes) <= width {
		return name
	}
	return string(runes[:width/2]) + "…" + string(runes[len(runes)-(width-1-width/2):])
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
