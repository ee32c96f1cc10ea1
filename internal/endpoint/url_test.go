package endpoint

import (
	"errors"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		url  string
		want URL
	}{
		{"redis://h", URL{Network: "tcp", Address: "h:6379"}},
		{"redis://H:7001/3", URL{Network: "tcp", Address: "h:7001", DB: 3}},
		{"redis://u:p%40ss@h:1/", URL{Network: "tcp", Address: "h:1", Username: "u", Password: "p@ss"}},
		{"redis://:p@h", URL{Network: "tcp", Address: "h:6379", Password: "p"}},
		{"redis://p@h", URL{Network: "tcp", Address: "h:6379", Password: "p"}},
		{"rediss://h:1", URL{Network: "tcp", Address: "h:1", TLS: true}},
		{"valkey://h:1", URL{Network: "tcp", Address: "h:1"}},
		{"redis://[::1]:7", URL{Network: "tcp", Address: "[::1]:7"}},
		{"h", URL{Network: "tcp", Address: "h:6379"}},
		{"h:7001", URL{Network: "tcp", Address: "h:7001"}},
		{"h:7001/3", URL{Network: "tcp", Address: "h:7001", DB: 3}},
		{"u:p@h:7001", URL{Network: "tcp", Address: "h:7001", Username: "u", Password: "p"}},
		{"10.0.0.1:7001", URL{Network: "tcp", Address: "10.0.0.1:7001"}},
		{"[::1]:7001", URL{Network: "tcp", Address: "[::1]:7001"}},
		{"[::1]", URL{Network: "tcp", Address: "[::1]:6379"}},
		{"redis://u:p@ss@h", URL{Network: "tcp", Address: "h:6379", Username: "u", Password: "p@ss"}},
		{"unix:///run/r@1.sock", URL{Network: "unix", Address: "/run/r@1.sock"}},
		{"unix:///run/r.sock", URL{Network: "unix", Address: "/run/r.sock"}},
		{"unix://u:p@/run/r.sock?db=2", URL{Network: "unix", Address: "/run/r.sock", Username: "u", Password: "p", DB: 2}},
	} {
		got, err := Parse(c.url)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.url, got, err, c.want)
		}
	}
}

// Without user and password, a URL leads to the same server.
func TestSplitURL(t *testing.T) {
	for raw, want := range map[string][4]string{
		"h":                             {"redis://h", "h:6379", "", ""},
		"u:p@h:7001/3":                  {"redis://h:7001/3", "h:7001", "u", "p"},
		"redis://h":                     {"redis://h", "h:6379", "", ""},
		"rediss://u:p%40@H:1/":          {"rediss://H:1/", "h:1", "u", "p@"},
		"redis://u:p@ss@[::1]:7":        {"redis://[::1]:7", "[::1]:7", "u", "p@ss"},
		"redis://p@h":                   {"redis://h", "h:6379", "", "p"},
		"redis://u:@h":                  {"redis://h", "h:6379", "u", ""},
		"unix:///run/r@1.sock":          {"unix:///run/r@1.sock", "unix:///run/r@1.sock", "", ""},
		"unix://u:p@/run/r@1.sock?db=2": {"unix:///run/r@1.sock?db=2", "unix:///run/r@1.sock", "u", "p"},
	} {
		bare, addr, user, password, err := SplitURL(raw)
		if got := [4]string{bare, addr, user, password}; err != nil || got != want {
			t.Errorf("%s: got %q, %v, want %q", raw, got, err, want)
		}
		of, _ := Parse(raw)
		of.Username, of.Password = "", ""
		if got, err := Parse(bare); err != nil || got != of {
			t.Errorf("%s: %s leads to %+v, %v, want %+v", raw, bare, got, err, of)
		}
	}
	if _, _, _, _, err := SplitURL("redis://u:p/w@h"); !errors.Is(err, errUnescaped) {
		t.Errorf("got %v, want %v", err, errUnescaped)
	}
}

// The error for a bad URL says what is wrong, and quotes no part of a password.
func TestBadURLs(t *testing.T) {
	const secret = "hunter2"
	for url, want := range map[string]string{
		"":                                          "not a URL",
		" ":                                         "not a URL",
		secret + "://rest@h:6379":                   "unknown scheme: use redis",
		"::1":                                       "needs brackets",
		"localhost:port":                            "and not host:port",
		"/run/r.sock":                               "no host",
		"h:" + secret + "@":                         "no host",
		"redis://u:%zz" + secret + "@h":             "percent-encode",
		"redis://u:" + secret + "@h:" + secret:      "percent-encode",
		"redis://:p@" + secret + "/wo#rd@h:6379":    "percent-encode",
		"redis://u:" + secret + "/w@h":              "percent-encode",
		"redis://u:" + secret + "#w@h":              "percent-encode",
		"redis://u:" + secret + "?w@h":              "percent-encode",
		"redis://u:" + secret + "%@h":               "percent-encode",
		"redis://" + secret + "/w@h":                "percent-encode",
		"redis://" + secret + "#w@h":                "percent-encode",
		"redis://" + secret + "?w@h":                "percent-encode",
		"redis://u:12/" + secret + "@h":             "percent-encode",
		"redis://u:12?" + secret + "@h":             "percent-encode",
		"redis://u:12#" + secret + "@h":             "percent-encode",
		"redis://u:12/" + secret + "%40@h":          "percent-encode",
		"u:" + secret + "/w@h:6379":                 "percent-encode",
		"unix://u:" + secret + "/w@/run/r.sock":     "percent-encode",
		"unix://u:12/" + secret + "@/run/r.sock":    "percent-encode",
		"unix://u:p@/run/r.sock?db=" + secret + "@": "percent-encode",
		"redis://u:" + secret + "@h:99999":          "port",
		"redis://u:" + secret + "@":                 "no host",
		"redis://u:" + secret + "@h/" + secret:      "database",
		"redis://u:" + secret + "@h/-1":             "database",
		"redis://u:" + secret + "@h/0?t=" + secret:  "query",
		"http://u:" + secret + "@h":                 `scheme "http"`,
		"a,b,c":                                     "more than one node",
		"a:1 b:2":                                   "more than one node",
		"redis://u:" + secret + "@a/0,b":            "more than one node",
		"u:" + secret + "@a, u:" + secret + "@b":    "more than one node",
		"redis://a:6379,redis://b:6379":             "more than one node",
		"unix://run/r.sock":                         "three slashes",
		"unix:///r.sock?database=" + secret:         "query",
		"redis://u:" + secret + "@h:port":           "percent-encode",
		"redis://u:" + secret + "@h:1 2":            "more than one node",
		"redis://u:" + secret:                       "not host:port",
		"redis://u:" + secret + "@[::1":             "percent-encode",
		"redis://u:" + secret + "@%zz":              "percent-encode",
		"\x7fredis://u:" + secret + "@h":            "percent-encode",
		" redis://u:" + secret + "@h":               "percent-encode",
	} {
		_, err := Parse(url)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v, want %q", url, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"redis://u:p@h:1/2", "unix:///a?db=1", "rediss://[::1]", "h:1", "redis://%", "",
		"redis://:p@ss/wo#rd@host:6379", "[::1]:6379", "unix:///a@b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got, err := Parse(raw)
		if err != nil {
			return
		}
		if got.Address == "" || got.Network != "tcp" && got.Network != "unix" {
			t.Errorf("%q: accepted as %+v", raw, got)
		}
		tells := strings.Contains(got.String(), got.Password) && !strings.Contains(got.Address, got.Password)
		if len(got.Password) > 3 && tells {
			t.Errorf("%q: String tells the password", raw)
		}
	})
}
