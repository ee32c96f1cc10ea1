package fleet

import "testing"

// Unsafe fails the test for a violation of what the library is for: two holders, tokens out of order, a key left
// behind. Other failures may be the machine's, so the gate runs such a test once more (internal/gate). It looks
// for these words, and never repeats a violation.
func Unsafe(t testing.TB, format string, args ...any) {
	t.Helper()
	t.Errorf("SAFETY VIOLATION: "+format, args...)
}
