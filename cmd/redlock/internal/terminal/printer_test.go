package terminal

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestPrinter(t *testing.T) {
	rows := [][]string{{"NODE", "UP", "TROUBLE"}, {"127.0.0.1:7001", "1h", "-"}, {"n2", "-", "unreachable"}}
	for width, want := range map[int]string{
		0: "NODE            UP  TROUBLE\n127.0.0.1:7001  1h  -\nn2              -   unreachable\n" +
			"1. a sentence that is longer than the terminal is wide\n",
		24: "NODE            UP  TRO…\n127.0.0.1:7001  1h  -\nn2              -   unr…\n" +
			"1. a sentence that is\n   longer than the\n   terminal is wide\n",
		1: "…\n…\n…\n1. a sentence that is longer than the terminal is wide\n",
	} {
		var out bytes.Buffer
		p := Printer{out: &out, Width: width}
		err := errors.Join(p.Table(rows), p.Item("1. ", "", "a sentence that is longer than the terminal is wide"))
		if err != nil {
			t.Fatal(err)
		}
		if got := out.String(); got != want {
			t.Errorf("width %d: got\n%swant\n%s", width, got, want)
		}
	}
	// What others have said draws nothing, breaks no line and no column, and is of no length that buries the rest.
	const evil, shown = "\x1b[31m\t\u202e\n\x9b", `\x1b[31m\t\u202e\n\x9b`
	var out bytes.Buffer
	p := Printer{out: &out, Colours: true}
	long := strings.Repeat("x", 1<<16)
	err := errors.Join(p.Print(evil), p.Table([][]string{{evil, "a"}, {"b", long}}), p.Table([][]string{{evil}}),
		p.Item("1. ", Red, evil+" b"))
	want := shown + "\n" + shown + "  a\nb" + strings.Repeat(" ", len(shown)+1) + long[:1<<10] + "…\n" + shown +
		"\n1. \x1b[31m" + shown + "\x1b[0m b\n"
	if got := out.String(); err != nil || got != want {
		t.Errorf("got\n%q, %v, want\n%q", got, err, want)
	}
	// A disk that is full must not look like a table that was printed.
	if err := (Printer{out: full{}}).Print("text"); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}

type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestWrap(t *testing.T) {
	for width, want := range map[int]string{
		3: "a|bb|ccc|dddd", 4: "a bb|ccc|dddd", 8: "a bb ccc|dddd", 100: "a bb ccc dddd",
	} {
		if got := strings.Join(Wrap(strings.Fields("a bb ccc dddd"), width), "|"); got != want {
			t.Errorf("width %d: got %q, want %q", width, got, want)
		}
	}
}

// Names give way, the longest first, and keep both ends; and before little is left of them, what can be spared.
func TestNarrow(t *testing.T) {
	for width, want := range map[int]string{
		0:  "NAME           TOKEN  HOLDER|job:long-name  1234   web-1/93",
		30: "NAME           TOKEN  HOLDER|job:long-name  1234   web-1/93",
		26: "NAME       TOKEN  HOLDER|job:…name  1234   web-1/93",
		25: "NAME      TOKEN  HOLDER|job:…ame  1234   web-1/93",
		24: "NAME           HOLDER|job:long-name  web-1/93",
		22: "NAME          HOLDER|job:lo…-name  web-1/93",
		5:  "N…E  H…R|j…e  w…3",
	} {
		rows := [][]string{{"NAME", "TOKEN", "HOLDER"}, {"job:long-name", "1234", "web-1/93"}}
		if got := strings.Join(Align(Narrow(rows, width, []int{0, 2}, 1)), "|"); got != want {
			t.Errorf("width %d: got\n%s, want\n%s", width, got, want)
		}
	}
}
