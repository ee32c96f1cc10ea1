package conformance

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/quorumlock/redlock/internal/cases"
)

// fields make a case whole in the tests of those that are not.
const fields = "  do     GET k\n  want   nil\n"

func TestReadTable(t *testing.T) {
	table, err := readTable(fstest.MapFS{
		"cases/names.txt": {Data: []byte("# Names.\nann  aaaa\n\nannIn  SET n $ann\n")},
		"cases/a.txt": {Data: []byte("# A comment.\n\nfirst: of all\n  given  $annIn; SET k '$ann '\n  heard  ch\n" +
			"# Another.\n  after  1.5s\n  do     EVAL 'return #KEYS, \"$\"' 0\n  want   [\"$ann\"]\n  left   n=$ann; k=$5")},
		"cases/b.txt": {Data: []byte("second\n" + fields + "\n\n\nthird\n" + fields)},
	})
	cases.NoError(t, err)
	want := map[string][]Case{
		"a": {{
			Name: "first: of all", Given: "SET n aaaa; SET k 'aaaa '", Heard: "ch", After: 1500 * time.Millisecond,
			Do: `EVAL 'return #KEYS, "$"' 0`, Want: `["aaaa"]`, Left: "n=aaaa; k=$5", at: "cases/a.txt:3",
		}},
		"b": {
			{Name: "second", Do: "GET k", Want: "nil", at: "cases/b.txt:1"},
			{Name: "third", Do: "GET k", Want: "nil", at: "cases/b.txt:7"},
		},
	}
	if !reflect.DeepEqual(table, want) {
		t.Errorf("got  %+v\nwant %+v", table, want)
	}
}

func TestMalformedCases(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an unknown field", "x\n  gives  SET k v\n" + fields, "a.txt:2: no field is called gives"},
		{"a field twice", "x\n" + fields + "  do     GET l\n", "a.txt:4: do twice"},
		{"a field without text", "x\n" + fields + "  left\n", "a.txt:4: left says nothing"},
		{"no do", "# c\n\nx\n  want   1\n", `a.txt:3: "x" has no field do`},
		{"no want", "x\n  do     GET k\n", `a.txt:1: "x" has no field want`},
		{"a name alone", "\nx\n", `a.txt:2: "x" has no field do`},
		{"no name", fields, `a.txt:1: "do     GET k" has no name above it`},
		{"a field that is not indented", "x\n" + fields + "left k=v\n", `a.txt:4: "left k=v" is neither indented`},
		{"no empty line between cases", "x\n" + fields + "y\n" + fields, `a.txt:4: "y" is neither indented`},
		{"a name twice", "x\n" + fields + "\nx\n" + fields, `a.txt:5: "x" is the name of the case at cases/a.txt:1, too`},
		{"a name of another file", "in b\n" + fields, `b.txt:1: "in b" is the name of the case at cases/a.txt:1`},
		{"no duration", "x\n  after  5\n" + fields, "a.txt:2: after 5: time: missing unit"},
		{"no time", "x\n  after  -1s\n" + fields, "a.txt:2: after -1s: no time"},
		{"an empty command", "x\n  given  SET k v; ; DEL k\n" + fields, "a.txt:2: given SET k v; ; DEL k: a command without"},
		{"an open quote", "x\n  do     SET k 'a b\n  want   1\n", "a.txt:2: do SET k 'a b: a quote is not closed"},
		{"an unknown name", "x\n  given  SET k $zoe\n" + fields, "a.txt:2: $zoe is not defined in cases/names.txt"},
		{"no time to live", "x\n  do     GET k\n  want   ttl<=5\n", "a.txt:3: want ttl<=5: time: missing unit"},
		{"all errors", "x\n  gives  y\n\ny\n  do     GET k\n", `a.txt:4: "y" has no field want`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readTable(fstest.MapFS{
				"cases/a.txt": {Data: []byte(c.text)},
				"cases/b.txt": {Data: []byte("in b\n" + fields)},
			})
			if err == nil || !strings.Contains(err.Error(), "cases/"+c.want) {
				t.Errorf("got %v, want cases/%s…", err, c.want)
			}
		})
	}
}

func TestMalformedNames(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no text", "ann\n", "1: ann stands for nothing"},
		{"twice", "ann  a\n\nann  b\n", "3: ann is defined twice"},
		{"not a name", "2nd  b\n", `1: "2nd" is no name`},
		{"used before it is defined", "annIn  $ann\nann  a\n", "1: $ann is not defined"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := readTable(fstest.MapFS{namesFile: {Data: []byte(c.text)}})
			if err == nil || !strings.HasPrefix(err.Error(), namesFile+":"+c.want) {
				t.Errorf("got %v, want %s:%s…", err, namesFile, c.want)
			}
		})
	}
}

func TestWants(t *testing.T) {
	for _, c := range []struct {
		reply   any
		want    string
		matches bool
	}{
		{nil, "nil", true},
		{int64(-2), "-2", true},
		{[]byte("two\n\"lines\"]"), `"two\n\"lines\"]"`, true},
		{"OK", "+OK", true},
		{errors.New("ERR no, 'not' so"), "error ERR no, 'not' so…", true},
		{errors.New("ERR no, 'not' so"), "error ERR…", true},
		{int64(8900), "ttl<=8.9s", true},
		{int64(7901), "ttl<=8.9s", true},
		{
			[]any{[]any{int64(1), []byte("bob"), int64(59_500)}, errors.New("ERR a]"), []any{}},
			`[[1 "bob" ttl<=1m] error ERR… []]`, true,
		},
		{int64(7900), "ttl<=8.9s", false},
		{int64(8901), "ttl<=8.9s", false},
		{int64(12), "1", false},
		{[]byte("OK"), "+OK", false},
		{errors.New("WRONGTYPE"), "error ERR…", false},
		{[]any{nil}, "[]", false},
		{[]any{nil, nil}, "nil nil", false},
	} {
		if w, err := parseWant(c.want); err != nil || w.matches(show(c.reply, nil)) != c.matches {
			t.Errorf("%s matches %s: want %t; %v", show(c.reply, nil), c.want, c.matches, err)
		}
	}
}
