package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/lua"
)

// protocol.md is what clients in other languages are written from, so what it says of scripts and keys is compared with
// the code: a part or a key more, and this fails until the page has it.

type scriptRow struct {
	files []string
	sha   string
}

func protocolPage(t *testing.T) string {
	t.Helper()
	return string(cases.Must(os.ReadFile("protocol.md"))(t))
}

var (
	tableRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([^|]*) \\| ([0-9a-f]{40}) \\|$")
	luaFile  = regexp.MustCompile("`([a-z_]+)`")
)

func scriptRows(t *testing.T) map[string]scriptRow {
	t.Helper()
	rows := map[string]scriptRow{}
	for _, m := range tableRow.FindAllStringSubmatch(protocolPage(t), -1) {
		var row scriptRow
		for _, f := range luaFile.FindAllStringSubmatch(m[2], -1) {
			row.files = append(row.files, f[1])
		}
		row.files, row.sha = append(row.files, m[1]), m[3]
		rows[m[1]] = row
	}
	if len(rows) < 15 {
		t.Fatalf("only %d scripts are read from protocol.md: has the table changed?", len(rows))
	}
	return rows
}

// Every file of internal/lua is part of a script on the page, and the digest is that of the files in their order.
func TestProtocolHasEveryScript(t *testing.T) {
	rows, on := scriptRows(t), map[string]bool{}
	for name, row := range rows {
		source := lua.Load(row.files...).Source
		if name == "node" {
			source += "-- \"\"\n"
		}
		if want := lua.New(source).SHA; row.sha != want {
			t.Errorf("protocol.md: %s: got SHA-1 %s, want %s", name, row.sha, want)
		}
		for _, f := range row.files {
			on[f] = true
		}
	}
	files, err := filepath.Glob("../internal/lua/*.lua")
	if err != nil || len(files) < 20 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".lua"); !on[name] {
			t.Errorf("protocol.md does not say which script %s.lua is part of", name)
		}
	}
}

var (
	luaKey = regexp.MustCompile(`(?:base|-7\)) \.\. '([a-z]+:?)'`)
	goKey  = regexp.MustCompile(`(?:ownNames \+ "|[pP]refix \+ "(?:redlock:)?|"redlock:|"%s)([a-z]+:?)`)
)

// Every key and channel that the code uses is on the page.
func TestProtocolHasEveryKey(t *testing.T) {
	page := protocolPage(t)
	used := map[string]string{} // by whom
	collect := func(pattern string, match *regexp.Regexp) {
		paths := cases.Must(filepath.Glob(pattern))(t)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			text := cases.Must(os.ReadFile(path))(t)
			for _, m := range match.FindAllStringSubmatch(string(text), -1) {
				used["redlock:"+m[1]] = path
			}
		}
	}
	collect("../internal/lua/*.lua", luaKey)
	for _, dir := range []string{"..", "../internal/agreement", "../internal/guard"} {
		collect(dir+"/*.go", goKey)
	}
	for _, key := range []string{
		"redlock:tokens", "redlock:wait:", "redlock:waiting", "redlock:node", "redlock:wake:", "redlock:label:",
	} {
		if used[key] == "" {
			t.Errorf("%s is not found in the code: this reads too little", key)
		}
	}
	options := string(cases.Must(os.ReadFile("../options.go"))(t))
	_, own, _ := strings.Cut(options, "ownKeys = ")
	own, _, _ = strings.Cut(own, "\n\n")
	for key, path := range used {
		if word := strings.Trim(key[len("redlock:"):], ":"); !regexp.MustCompile(`\b` + word + `\b`).MatchString(own) {
			t.Errorf("options.go: ownKeys lacks %s, which %s uses", key, path)
		}
		if !strings.Contains(page, "`"+key+"`") {
			t.Errorf("protocol.md lacks %s, which %s uses", key, path)
		}
	}
}
