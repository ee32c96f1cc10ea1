package printable

import (
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"":                          "",
		`web-3/812 "a\b" 3 µs – ü…`: `web-3/812 "a\b" 3 µs – ü…`,
		"\x1b]0;x\x07\x1b[31mred":   `\x1b]0;x\a\x1b[31mred`,
		"a\tb\rc\nd\x00\x7f":        `a\tb\rc\nd\x00\x7f`,
		"\u009b31m\u202eevil\u2066": `\u009b31m\u202eevil\u2066`,
		"\x9b31m \xff\xe2\x80":      `\x9b31m \xff\xe2\x80`, // invalid UTF-8; a terminal may take a byte for C1
		"\ufffd\u00a0\u2028\ufeff":  "\ufffd" + `\u00a0\u2028\ufeff`,
		"\U000e0041 '":              `\U000e0041 '`,
	} {
		got := Text(text)
		cases.Equals(t, got, want, "%q", text)
		cases.Equals(t, Text(got), want, "%q, once more", text)
	}
}

func TestBeginning(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"abcd", "abcd"},
		{"abcde", "abcd…"},
		{"abcü", "abc…"},
		{"ab\u202e", "ab…"},
		{"a\x1bcde", `a\x1bcd…`},
		{"\x80\x80\x80\x80\x80", "…"},
	} {
		cases.Equals(t, Beginning(c.text, 4), c.want, "%q", c.text)
	}
	cases.Equals(t, len(Beginning(strings.Repeat("x", 1<<16), Most)), Most+len("…"), "of 64 KiB")
}
