package main

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quorumlock/redlock/internal/cases"
)

func TestReadMutants(t *testing.T) {
	got := cases.Must(readMutants(fstest.MapFS{
		"bugs/b.txt": {Data: []byte("# Two.\n\npart of a line\n" +
			"  in a.go\n  - x  # {\n  +  y\n# A comment.\n  in b.go\n  -  || y\n\n" +
			"\npart of several\n  test a.TestX\n  why  it is\n  in   a.go\n" +
			"  - x {\n  - \ty\n  + x {\n  + \tif z {\n  + \t\t- y\n")},
		"bugs/a.txt": {Data: []byte("whole lines\n  in a.go\n  -|\tx\n  -|\n  +|\ty\n  +|\n  +|  z\n  in a.go\n  -|x")},
	}, []string{"b", "a"}))(t)
	want := []mutant{
		{name: "part of a line", changes: []change{{"a.go", "x  # {", " y"}, {"b.go", " || y", ""}}},
		{name: "part of several", test: "a.TestX", why: "it is", changes: []change{
			{"a.go", "x {\n\ty", "x {\n\tif z {\n\t\t- y"},
		}},
		{name: "whole lines", changes: []change{{"a.go", "\tx\n\n", "\ty\n\n  z\n"}, {"a.go", "x\n", ""}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestMalformedMutants(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no name", "  in a.go\n  - x\n", `a.txt:1: "  in a.go" has no name above it`},
		{"two names", "x\ny\n  in a.go\n  - x\n", `a.txt:2: "y" is neither indented`},
		{"a field indented with a tab", "x\n\tin a.go\n  - x\n", "a.txt:2: \"\\tin a.go\" is neither indented"},
		{"an unknown field", "x\n  at a.go\n", "a.txt:2: no field is called at"},
		{"a field twice", "x\n  why a\n  why b\n", "a.txt:3: why twice"},
		{"an empty field", "x\n  test\n", "a.txt:2: test says nothing"},
		{"a space at the end", "x\n  in a.go\n  - x \n", "a.txt:3: a space or tab ends the line"},
		{"no change", "# y\n\nx\n  why y\n", `a.txt:3: "x" has no field in`},
		{"a file without a change", "x\n  in a.go\n  in b.go\n  - x\n", `a.txt:1: "x" changes nothing in a.go`},
		{"the same text", "x\n  in a.go\n  - x\n  + x\n", `a.txt:1: "x" changes nothing in a.go`},
		{"a change without a file", "x\n  - x\n", "a.txt:2: no field in above it names the file"},
		{"nothing to replace", "x\n  in a.go\n  + x\n", "a.txt:3: + without - above it"},
		{"two changes in one", "x\n  in a.go\n  - x\n  + y\n  - z\n", "a.txt:5: - below +"},
		{"whole and part", "x\n  in a.go\n  - x\n  +|y\n", "a.txt:4: whole lines and parts of lines"},
		{"no mark", "x\n  in a.go\n  -x\n", `a.txt:3: "-x": behind - stands a space`},
		{"no text", "x\n  in a.go\n  -\n", `a.txt:3: "-": behind - stands a space`},
		{
			"two errors", "x\n  why y\n\ny\n  in a.go\n  - x\n  -|y\n",
			"a.txt:1: \"x\" has no field in, which names a file to change\nbugs/a.txt:7: whole lines",
		},
	} {
		_, err := readMutants(fstest.MapFS{"bugs/a.txt": {Data: []byte(c.text)}}, []string{"a"})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

func TestEveryFileIsAGroup(t *testing.T) {
	paths := cases.Must(filepath.Glob("bugs/*.txt"))(t)
	var got []string
	for _, p := range paths {
		got = append(got, strings.TrimSuffix(filepath.Base(p), ".txt"))
	}
	if want := slices.Sorted(slices.Values(groups)); !slices.Equal(got, want) {
		t.Errorf("bugs has %q, and groups lists %q", got, want)
	}
}
