package main

import (
	"bytes"
	"strings"
	"testing"
)

// Integration tests show that they work: TestDoctorKnowsEachMisfit.
func TestTLSFlagsThatMakeNoSense(t *testing.T) {
	empty := writeFile(t, "no certificate")
	const noTLS = "--ca, --cert, --key and --server-name are for TLS, and no node is rediss://…"
	const noPEM = "--cert, --key: failed to find any PEM data in certificate input"
	for args, want := range map[string]string{
		"--nodes=h,g --ca=" + empty:                              noTLS,
		"--nodes=rediss://h --ca=" + empty:                       "--ca: no certificate in " + empty,
		"--nodes=rediss://h --ca=/no/such/file":                  "--ca: open /no/such/file: no such file or directory",
		"--nodes=rediss://h --cert=" + empty:                     "--cert and --key need each other",
		"--nodes=rediss://h --key=" + empty:                      "--cert and --key need each other",
		"--nodes=rediss://h --cert=" + empty + " --key=" + empty: noPEM,
	} {
		var out bytes.Buffer
		code := run(t.Context(), append([]string{"redlock", "doctor"}, strings.Fields(args)...), &out, &out)
		if got := out.String(); code != exitUsage || got != "redlock: "+want+"\n" {
			t.Errorf("%s: got %d, %q, want %q", args, code, got, want)
		}
	}
}

func TestLabel(t *testing.T) {
	code, _, said := doctor(t, "--nodes=h", "--label=two\nlines")
	if code != exitUsage || !strings.Contains(said, "label") {
		t.Errorf("got %d, %q", code, said)
	}
}
