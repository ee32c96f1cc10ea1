package resp

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
)

// What each code means to each who asks. Redis's other codes mean nothing, apart from a refusal.
func TestMeanings(t *testing.T) {
	asked := []struct {
		by   string
		kind Kind
	}{
		{"an undo is repeated", Transient},
		{"a probe failed", Outage},
		{"Ready does not wait", Lasting},
		{"user or password", Login},
		{"a right lacks", Forbidden},
		{"other scripts may load", Selective},
		{"sent with its source", Unloaded},
		{"the connection ends", Demoted},
	}
	want := map[string]string{
		"BUSY":       "an undo is repeated, a probe failed",
		"DENIED":     "a probe failed",
		"ERR":        "other scripts may load",
		"LOADING":    "an undo is repeated, a probe failed",
		"MASTERDOWN": "an undo is repeated, a probe failed",
		"MAXCLIENTS": "a probe failed",
		"MISCONF":    "an undo is repeated",
		"NOAUTH":     "a probe failed, Ready does not wait, user or password",
		"NOPERM":     "Ready does not wait, a right lacks, other scripts may load",
		"NOREPLICAS": "an undo is repeated",
		"NOSCRIPT":   "sent with its source",
		"OOM":        "an undo is repeated",
		"READONLY":   "the connection ends",
		"WRONGPASS":  "Ready does not wait, user or password",
		"WRONGTYPE":  "Ready does not wait",

		"ASK": "", "CLUSTERDOWN": "", "CROSSSLOT": "", "EXECABORT": "", "MOVED": "", "NOPROTO": "", "NOTBUSY": "",
		"TRYAGAIN": "", "UNKILLABLE": "",
	}
	for code, means := range want {
		var got []string
		for _, who := range asked {
			if Is(redis.Error(code+" no"), who.kind) {
				got = append(got, who.by)
			}
		}
		cases.Equals(t, strings.Join(got, ", "), means, "%s", code)
	}
	for code := range meanings {
		_, listed := want[code]
		cases.Equals(t, listed, true, "%s is in this test", code)
	}
	cases.Equals(t, Is(nil, ^Kind(0)), false, "no error")
}
