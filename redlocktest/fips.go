//go:build go1.26

package redlocktest

import "crypto/fips140"

// unenforced runs f, and the goroutines that it starts, so that a miniredis may name scripts by their SHA-1 where
// GODEBUG=fips140=only is set.
func unenforced(f func()) { fips140.WithoutEnforcement(f) }
