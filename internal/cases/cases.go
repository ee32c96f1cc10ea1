// Package cases reads text tables of test cases, which a reader can extend without Go: a case a line; what begins with
// # is a comment. It knows nothing of what the lines say.
package cases

import (
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
)

// Lines returns the lines of a table, each with file and number for error texts.
func Lines(t testing.TB, file string) iter.Seq2[string, string] {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return func(yield func(at, line string) bool) {
		number := 0
		for line := range strings.Lines(string(text)) {
			number++
			line = strings.TrimSpace(line)
			if line != "" && line[0] != '#' && !yield(fmt.Sprintf("%s:%d", file, number), line) {
				return
			}
		}
	}
}
