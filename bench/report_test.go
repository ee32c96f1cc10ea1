package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A scenario that was measured again replaces the earlier one whole; the others stay, in their order.
func TestTheLastRunOfAScenarioCounts(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, scenarios ...*result) string {
		file := filepath.Join(dir, name)
		text, err := json.Marshal(&report{Machine: name, Scenarios: scenarios})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	of := func(name string, contestants ...string) *result {
		res := &result{Name: name}
		for _, c := range contestants {
			res.Rows = append(res.Rows, &row{Contestant: c, Samples: []sample{{PerSecond: 1}}})
		}
		return res
	}
	first := write("first", of("a", "x", "y"), of("b", "x"))
	second := write("second", of("c", "z"), of("a", "z"))
	r, err := load(first + "," + second)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	for _, res := range r.Scenarios {
		got += res.Name
		for _, row := range res.Rows {
			got += row.Contestant
		}
		got += " "
	}
	if want := "az bx cz "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if r.Machine != "first" {
		t.Errorf("machine of %q, want that of the first", r.Machine)
	}
	if other, same := r.Scenarios[0], r.Scenarios[1]; other.Machine != "second" || same.Machine != "" ||
		!strings.Contains(r.markdown(), "On another machine: second.") {
		t.Errorf("machines of %q and %q, want the second where it is not the report's", other.Machine, same.Machine)
	}
}
