package lua_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	gopher "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/quorumlock/redlock/internal/cases"
)

// given are the globals of Lua and Redis that the scripts use.
var given = strings.Fields("ARGV KEYS ipairs math pairs pcall redis string table tonumber tostring type unpack")

var (
	scripts = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]*) \\| [0-9a-f]{40} \\|$")
	head    = regexp.MustCompile(`(?m)^-- ([a-z_]+): `) // by this the simulation recognizes a script
	follows = regexp.MustCompile(`(?m)^-- Follows (.*\n(?:-- .*\n)*)`)
	part    = regexp.MustCompile(`(\w+) \(([^)]+)\)`)
)

// The locals that a file uses of files before it are those that its head names, each with the file that declares it, in
// every script that the file is part of. The scripts are read from protocol.md; a test in docs compares the page with
// what the code sends. And no local hides a global, on which whoever adds a line may rely.
func TestHeadsSayWhatTheyFollow(t *testing.T) {
	all := scripts.FindAllStringSubmatch(text(t, "../../docs/protocol.md"), -1)
	if len(all) < 15 {
		t.Fatalf("only %d scripts are read from protocol.md: has the table changed?", len(all))
	}
	for _, script := range all {
		var files []string
		for name := range strings.FieldsSeq(strings.NewReplacer("`", "", "–", "").Replace(script[2] + " " + script[1])) {
			files = append(files, name+".lua")
		}
		for i, name := range files {
			is := head.FindStringSubmatch(text(t, name))
			if last := i == len(files)-1; last != (is != nil) || last && is[1]+".lua" != name {
				t.Errorf("%v: the head of %s has %q: want a name and a colon of the last file alone", files, name, is)
			}
			var got, want []string
			for _, m := range part.FindAllStringSubmatch(follows.FindString(text(t, name)), -1) {
				for local := range strings.SplitSeq(m[2], ", ") {
					got = append(got, local+" of "+m[1]+".lua")
				}
			}
			used, locals := namesIn(t, text(t, name))
			for _, local := range used {
				before := slices.Clone(files[:i])
				slices.Reverse(before) // a later local hides an earlier one
				at := slices.IndexFunc(before, func(file string) bool {
					used, _ := namesIn(t, text(t, file)+"\nreturn "+local)
					return !slices.Contains(used, local)
				})
				if at >= 0 {
					want = append(want, local+" of "+before[at])
				} else if !slices.Contains(given, local) {
					t.Errorf("%v: %s uses %s, which nothing before it declares", files, name, local)
				}
			}
			slices.Sort(got)
			if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("%v: %s uses %q, and its head says %q", files, name, want, got)
			}
			for _, local := range locals {
				if slices.Contains(given, local) {
					t.Errorf("%s has a local %s", name, local)
				}
			}
		}
	}
}

var (
	loop  = regexp.MustCompile(`(?m)^\s*(for|while|repeat)\b`)
	whole = regexp.MustCompile(`RANGE'.*, 0, -1\)`)
)

// What others store on a node must not make a call as long as they like.
func TestLoopsAreBounded(t *testing.T) {
	for _, name := range cases.Must(filepath.Glob("*.lua"))(t) {
		source := text(t, name)
		if loop.MatchString(source) && !strings.Contains(source, "Bound: ") {
			t.Errorf("%s has a loop, and does not say its bound", name)
		}
		if all := whole.FindString(source); all != "" {
			t.Errorf("%s reads a whole set: %s", name, all)
		}
	}
}

func text(t *testing.T, file string) string {
	t.Helper()
	content := cases.Must(os.ReadFile(file))(t)
	return string(content)
}

// namesIn returns the names that a source uses where it has no local with that name, and its locals.
func namesIn(t *testing.T, source string) (used, locals []string) {
	t.Helper()
	chunk := cases.Must(parse.Parse(strings.NewReader(source), ""))(t)
	whole := cases.Must(gopher.Compile(chunk, ""))(t)
	for all := []*gopher.FunctionProto{whole}; len(all) > 0; all = all[1:] {
		all = append(all, all[0].FunctionPrototypes...)
		for _, instruction := range all[0].Code {
			switch int(instruction >> 26) { // its operation; the last 18 bits say which constant has the name
			case gopher.OP_GETGLOBAL, gopher.OP_SETGLOBAL:
				used = append(used, all[0].Constants[instruction&(1<<18-1)].String())
			}
		}
		for _, local := range all[0].DbgLocals {
			locals = append(locals, local.Name)
		}
	}
	slices.Sort(used)
	return slices.Compact(used), locals
}
