// Package printable makes what others have said fit for people: a node, another client, or whoever is on the path. On a
// terminal, some characters move the cursor, colour, ring, or turn the direction of what follows; and what is of any
// length buries the rest.
//
// It knows characters. It must not know who said the text, or where it is shown.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Text returns a text with whatever cannot be printed escaped as in Go: \x1b, \n, \u202e. What can be is left as it is,
// so that a text may pass here twice.
func Text(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
		rest = rest[size:]
	}
	return b.String()
}

// unprintable also holds for a replacement character, for which strings range over invalid bytes.
func unprintable(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// Most is how many bytes are shown of a text that may be of any length. A value that a holder may set has no more.
const Most = 1 << 10

// Beginning returns the Text of what may be of any length: of its first n bytes, and … if there are more.
func Beginning(text string, n int) string {
	if len(text) <= n {
		return Text(text)
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n-- // not half a character
	}
	return Text(text[:n]) + "…"
}
