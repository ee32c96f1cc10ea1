package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/lua"
)

// protocol.md is what clients in other languages are written from, so what it says of scripts and keys is compared with
// the code: a script, a part, a key or an argument more, and this fails until the page has it.

// scriptRow is a row of the page's table of scripts.
type scriptRow struct {
	files      []string
	keys, args int
	sha        string
}

func protocolPage(t *testing.T) string {
	t.Helper()
	text := cases.Must(os.ReadFile("protocol.md"))(t)
	return string(text)
}

var (
	tableRow = regexp.MustCompile(
		"(?m)^\\| `([a-z_]+)` \\| (`[a-z_]+\\.lua`.*?) \\| (.*?) \\| (.*?)\\| ([0-9a-f]{40}) \\|$")
	luaFile = regexp.MustCompile("`([a-z_]+)\\.lua`")
)

func scriptRows(t *testing.T) map[string]scriptRow {
	t.Helper()
	rows := map[string]scriptRow{}
	for _, m := range tableRow.FindAllStringSubmatch(protocolPage(t), -1) {
		var row scriptRow
		for _, f := range luaFile.FindAllStringSubmatch(m[2], -1) {
			row.files = append(row.files, f[1])
		}
		row.keys, row.sha = len(strings.Split(m[3], ", ")), m[5]
		if args := strings.TrimSpace(m[4]); args != "" {
			row.args = len(strings.Split(args, ", "))
		}
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

// What the code sends is what the page says: the same files in the same order, and as many arguments.
func TestProtocolHasWhatIsSent(t *testing.T) {
	rows := scriptRows(t)
	sent := sentScripts(t)
	for name, row := range rows {
		s, ok := sent[name]
		if !ok {
			t.Errorf("protocol.md: the code sends no script %s", name)
			continue
		}
		if !slices.Equal(row.files, s.files) {
			t.Errorf("protocol.md: %s: got the files %v, want %v", name, row.files, s.files)
		}
		if s.args >= 0 && row.args != s.args {
			t.Errorf("protocol.md: %s: got %d arguments, want %d", name, row.args, s.args)
		}
		keys, args := contract(t, name)
		if row.keys != keys {
			t.Errorf("protocol.md: %s: got %d keys, want %d", name, row.keys, keys)
		}
		if args >= 0 && row.args != args {
			t.Errorf("protocol.md: %s: got %d arguments, want %d as in the head of %s.lua", name, row.args, args, name)
		}
	}
	for name := range sent {
		if _, ok := rows[name]; !ok {
			t.Errorf("protocol.md lacks the script %s", name)
		}
	}
}

// sentScripts returns the files and the number of arguments of each script that the code sends; -1: it does not say.
func sentScripts(t *testing.T) map[string]scriptRow {
	t.Helper()
	found := map[string]scriptRow{}
	for _, file := range parsedFiles(t, "..", "../internal/agreement", "../internal/guard") {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			switch callee(call.Fun) {
			case "script", "urgent", "undo":
				if files, known := texts(call.Args[2:]); known {
					found[files[len(files)-1]] = scriptRow{files: files, args: arguments(t, call.Args[1])}
				}
			case "Load":
				if files, known := texts(call.Args); known {
					found[files[len(files)-1]] = scriptRow{files: files, args: -1}
				}
			}
			return true
		})
	}
	if len(found) < 15 {
		t.Fatalf("only %d scripts are found in the code", len(found))
	}
	return found
}

func parsedFiles(t *testing.T, dirs ...string) (files []*ast.File) {
	t.Helper()
	for _, dir := range dirs {
		paths := cases.Must(filepath.Glob(filepath.Join(dir, "*.go")))(t)
		for _, path := range paths {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			file := cases.Must(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
			files = append(files, file)
		}
	}
	return files
}

func callee(f ast.Expr) string {
	switch f := f.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// texts returns the names of files that an expression stands for: literals, queueing(name) and append of these. It
// returns false for anything else.
func texts(args []ast.Expr) (names []string, known bool) {
	for _, arg := range args {
		switch arg := arg.(type) {
		case *ast.BasicLit:
			name, err := strconv.Unquote(arg.Value)
			if err != nil {
				return nil, false
			}
			names = append(names, name)
		case *ast.CompositeLit:
			inner, ok := texts(arg.Elts)
			if !ok {
				return nil, false
			}
			names = append(names, inner...)
		case *ast.CallExpr:
			inner, ok := texts(arg.Args)
			if !ok {
				return nil, false
			}
			if callee(arg.Fun) == "queueing" {
				names = append(names, "revoked", "label", "readers", "queue", "join", "watchers")
			}
			names = append(names, inner...)
		default:
			return nil, false
		}
	}
	return names, len(names) > 0
}

// arguments returns how many arguments a function of commands.go encodes for one lock, those included that may be left
// out.
func arguments(t *testing.T, of ast.Expr) int {
	t.Helper()
	switch of := of.(type) {
	case *ast.Ident:
		if n, known := map[string]int{"columns": 5, "toRelease": 3, "rowsThenValues": 4}[of.Name]; known {
			return n
		}
	case *ast.CallExpr:
		n := cases.Must(strconv.Atoi(of.Args[0].(*ast.BasicLit).Value))(t)
		if callee(of.Fun) == "rowForAll" {
			return n + 3 // the number of keys, that of former owners, and these
		}
		return n
	}
	t.Fatalf("how many arguments does %T encode? Say it here, and on the page", of)
	return 0
}

var (
	keyIndex  = regexp.MustCompile(`KEYS\[(i|n\+1|\d)\]`)
	argRow    = regexp.MustCompile(`ARGV\[(\d?)i(?:-\d)?\]`)
	argIndex  = regexp.MustCompile(`ARGV\[(\d)\]`)
	irregular = []string{"acquire", "acquire_all", "extend", "release"} // their arguments are not row by row
)

// contract returns how many keys and arguments the head of a script gives for one lock; -1: that cannot be counted.
func contract(t *testing.T, name string) (keys, args int) {
	t.Helper()
	var head []string
	for line := range strings.Lines(lua.Load(name).Source) {
		if !strings.HasPrefix(line, "--") {
			break
		}
		head = append(head, line)
	}
	seen := map[string]bool{}
	for _, m := range keyIndex.FindAllStringSubmatch(strings.Join(head, ""), -1) {
		seen[m[1]] = true
	}
	text := strings.Join(head, "")
	for _, m := range argRow.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(m[1])
		args = max(args, n, 1)
	}
	if args == 0 {
		for _, m := range argIndex.FindAllStringSubmatch(text, -1) {
			n, _ := strconv.Atoi(m[1])
			args = max(args, n)
		}
	}
	if slices.Contains(irregular, name) {
		args = -1
	}
	return len(seen), args
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

// Texts that clients must share are on the page as in the code.
func TestProtocolHasTheTexts(t *testing.T) {
	page := protocolPage(t)
	constants := map[string]string{}
	for _, file := range parsedFiles(t, "..", "../internal/agreement", "../internal/quorum") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != len(spec.Names) {
				return true
			}
			for i, name := range spec.Names {
				if lit, ok := spec.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
					constants[name.Name], _ = strconv.Unquote(lit.Value)
				}
			}
			return true
		})
	}
	for _, name := range []string{"ownNames", "Marker", "readerToken", "ticketPrefix"} {
		if text := constants[name]; text == "" || !strings.Contains(page, "`"+text+"`") {
			t.Errorf("protocol.md lacks %s, which is %q", name, text)
		}
	}
	format := strings.ReplaceAll(regexp.QuoteMeta(constants["settingsFormat"]), "%d", `\d+`)
	if constants["settingsFormat"] == "" || !regexp.MustCompile("`"+format+"`").MatchString(page) {
		t.Errorf("protocol.md lacks settings in the form %q", constants["settingsFormat"])
	}
}

var vector = regexp.MustCompile("(?m)^\\| (?:`(.*?)`)? ?\\| `(@.*?)` \\| `(.*?)` \\|$")

// The test vectors of the page are cases of the conformance suite.
func TestProtocolsVectorsAreCases(t *testing.T) {
	vectors := vector.FindAllStringSubmatch(protocolPage(t), -1)
	if len(vectors) < 10 {
		t.Fatalf("only %d vectors are read", len(vectors))
	}
	var all strings.Builder
	for _, f := range cases.Must(filepath.Glob("../internal/sim/conformance/cases/*.txt"))(t) {
		all.Write(cases.Must(os.ReadFile(f))(t))
	}
	for _, m := range vectors {
		for i := range m {
			m[i] = strings.ReplaceAll(m[i], `\|`, "|")
		}
		block := fmt.Sprintf("  do     %s\n  want   %s\n", m[2], m[3])
		if m[1] != "" {
			block = "  given  " + m[1] + "\n" + block
		} else {
			block = "\n" + block
		}
		if !strings.Contains(all.String(), block) {
			t.Errorf("protocol.md: no case is\n%s", block)
		}
	}
}
