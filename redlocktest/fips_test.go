//go:build go1.26

package redlocktest_test

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/redlocktest"
)

// Where all cryptography must be approved, the library and its fake masters work: SHA-1 is but how scripts are named.
func TestFIPSOnly(t *testing.T) {
	const only = "GODEBUG=fips140=only"
	if "GODEBUG="+os.Getenv("GODEBUG") != only {
		again := exec.Command(os.Args[0], "-test.run=^TestFIPSOnly$", "-test.count=1") //nolint:gosec // this test
		again.Env = append(os.Environ(), only)
		if out, err := again.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	c := redlocktest.New(t, 3)
	c.Kill(2)
	cases.NoError(t, c.Revive(2))
	l := cases.Must(redlock.New(c.URLs(), redlock.WithNodeTimeout(soon), redlock.WithTTL(time.Minute)))(t)
	defer l.Close()
	cases.NoError(t, cases.Must(l.Lock(t.Context(), "job"))(t).Unlock())
}
