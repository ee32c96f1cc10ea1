package main

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// told is what the demo must tell, in this order, wherever it is shown.
var told = []string{
	"1  Without a lock", "✗ sold 300 of 100 units",
	"2  With the lock", "masters 2 and 4 are killed", "masters 2 and 4 are back", "✓ sold 100 of 100 units",
	"3  Without a majority", "masters 1, 3 and 5 are killed", "no quorum", "not connected",
	"✓ after one second nobody holds it", "masters 1, 3 and 5 are back", "✓ a till holds the lock", "all 20 tills",
	"Summary", "oversold by 200", "100 sold of 100: exact", "no lock granted",
}

func checkTold(t *testing.T, out string) {
	t.Helper()
	rest := out
	for _, want := range told {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("the demo does not tell %q where expected:\n%s", want, out)
		}
		rest = after
	}
}

func TestDemoPlain(t *testing.T) {
	t.Parallel()
	start := time.Now()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command(binary, "demo")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		t.Errorf("got %v, %q", err, stderr.String())
	}
	checkTold(t, stdout.String())
	if strings.Contains(stdout.String(), "\x1b") {
		t.Errorf("escape sequences where there is no terminal:\n%q", stdout.String())
	}
	for line := range strings.Lines(stdout.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	// A machine that is busy with other tests may take longer than the 15 s promised.
	t.Logf("took %s", time.Since(start).Round(100*time.Millisecond))
}
