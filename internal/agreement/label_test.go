package agreement

import (
	"strings"
	"testing"
	"time"
)

func TestOwnersSortByTime(t *testing.T) {
	last := ""
	for micros := int64(1_700_000_000_000_000); micros < 1_700_000_000_003_000; micros++ {
		id := newLabel("", 0, 0).Owner(micros, true)
		if id.Version() != 7 || id.Variant().String() != "RFC4122" {
			t.Fatalf("%s is not a UUID of version 7", id)
		}
		text := id.String()
		if text[:18] <= last { // 60 bits of time hold 1/4096 ms
			t.Fatalf("%s after %s", text, last)
		}
		last = text[:18]
		at := time.UnixMilli(0).Add(time.Duration(micros) * time.Microsecond)
		if time.Unix(id.Time().UnixTime()).Sub(at).Abs() > time.Second {
			t.Fatalf("%s has another time", id)
		}
	}
}

func TestOwnersHaveOneForm(t *testing.T) {
	const owner = "019ab329-007b-774b-9d2c-41a75e0f3b68"
	if id, ok := ParseOwner(owner); !ok || id.String() != owner {
		t.Errorf("%s: got %s, %t", owner, id, ok)
	}
	for _, text := range []string{
		"", "{" + owner + "}", "0" + owner + "0", "urn:uuid:" + owner, strings.ReplaceAll(owner, "-", ""),
		strings.ToUpper(owner), strings.Replace(owner, "b", "g", 1), owner + " ",
	} {
		if id, ok := ParseOwner(text); ok || id != [16]byte{} {
			t.Errorf("%q: got %s, %t, want none", text, id, ok)
		}
	}
}

func TestLabelsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("x", 65): "65 bytes: at most 64", "a\nb": "cannot be printed", "\xff": "not UTF-8",
	} {
		if err := CheckLabel(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
		if got := ReadLabel([]byte(text)); got != "" {
			t.Errorf("%q: read as %q", text, got)
		}
	}
	for _, text := range []string{"", "web-3/812", DefaultLabel()} {
		if err := CheckLabel(text); err != nil || ReadLabel([]byte(text)) != text {
			t.Errorf("%q: got %v, read as %q", text, err, ReadLabel([]byte(text)))
		}
	}
	if DefaultLabel() == "" {
		t.Error("there is no default")
	}
}
