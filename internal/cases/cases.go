// Package cases is what the tests of several packages share: text tables of cases, which a reader can extend without Go
// (a case a line; what begins with # is a comment), the end of a test at an error, comparisons, and the wait for what
// happens elsewhere. It knows nothing of what the lines say.
package cases

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"
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

// Rows returns the lines of a table with so many cells, which are separated by bars.
func Rows(t testing.TB, file string, cells int) iter.Seq2[string, []string] {
	t.Helper()
	return func(yield func(at string, row []string) bool) {
		for at, line := range Lines(t, file) {
			row := strings.Split(line, "|")
			for i := range row {
				row[i] = strings.TrimSpace(row[i])
			}
			if len(row) != cells {
				t.Fatalf("%s: bad line: %s", at, line)
			}
			if !yield(at, row) {
				return
			}
		}
	}
}

// Must takes what a function returns, and then the test: it returns the value, or ends the test at the error.
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		NoError(t, err)
		return v
	}
}

// NoError ends the test if err is one.
func NoError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Equals fails the test unless got is want. what says what it is of, or when or why it is wanted.
func Equals[T comparable](t testing.TB, got, want T, what string, args ...any) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", fmt.Sprintf(what, args...), got, want)
	}
}

// Eventually ends the test unless it is so within a minute, of real time.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; !is(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
