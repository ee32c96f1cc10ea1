package endpoint

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestParse(t *testing.T) {
	for at, cells := range cases.Rows(t, "testdata/urls.txt", 7) {
		u, err := Parse(cells[0])
		got := []string{u.Network, u.Address, u.Username, u.Password, strconv.Itoa(u.DB), strconv.FormatBool(u.TLS)}
		if err != nil || !slices.Equal(got, cells[1:]) {
			t.Errorf("%s: got %q, %v, want %q", at, got, err, cells[1:])
		}
	}
}

// Without user and password, a URL leads to the same server.
func TestSplitURL(t *testing.T) {
	for at, cells := range cases.Rows(t, "testdata/split_urls.txt", 5) {
		raw := cells[0]
		bare, addr, user, password, err := SplitURL(raw)
		if got := []string{bare, addr, user, password}; err != nil || !slices.Equal(got, cells[1:]) {
			t.Errorf("%s: got %q, %v, want %q", at, got, err, cells[1:])
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
	for at, cells := range cases.Rows(t, "testdata/bad_urls.txt", 2) {
		url := strings.ReplaceAll(cases.Must(strconv.Unquote(cells[0]))(t), "{secret}", secret)
		_, err := Parse(url)
		if err == nil || !strings.Contains(err.Error(), cells[1]) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: got %v", at, err)
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
