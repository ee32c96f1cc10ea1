package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```")

// exported is what a package shows: its names, and the methods of its types as "Type.Name".
type exported map[string]bool

func exports(t *testing.T, dir string) exported {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	found := exported{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed := cases.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution))(t)
		for _, d := range parsed.Decls {
			found.add(d)
		}
	}
	return found
}

func (e exported) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of := d.Recv.List[0].Type
			if pointer, ok := of.(*ast.StarExpr); ok {
				of = pointer.X
			}
			if of, ok := of.(*ast.Ident); ok {
				name = of.Name + "." + name
			}
		}
		e[name] = true
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				e[s.Name.Name] = true
			case *ast.ValueSpec:
				for _, n := range s.Names {
					e[n.Name] = true
				}
			}
		}
	}
}

// variables are what fragments call things of ours, with their types.
var variables = map[string]string{
	"locker": "Locker", "lock": "Lock", "permit": "Lock", "k": "Lock", "encoders": "Semaphore",
	"inspector": "Inspector", "monitor": "Inspector",
}

// The Go code in the documentation is Go, and what it uses exists. Whole files are vetted; fragments are parsed, and
// their names looked up.
func TestSnippets(t *testing.T) {
	packages := map[string]exported{
		"redlock": exports(t, "."), "redlocktest": exports(t, "redlocktest"),
		"election": exports(t, "election"), "finding": exports(t, "finding"), "redlockotel": exports(t, "otel"),
		"redlockgocron": exports(t, "gocron"), "redlockgoredis": exports(t, "goredis"),
		"fence": exports(t, "fence"), "fencetest": exports(t, "fence/fencetest"),
	}
	for name := range packages["redlock"] {
		if method, ok := strings.CutPrefix(name, "core."); ok { // which both embed
			packages["redlock"]["Locker."+method], packages["redlock"]["Inspector."+method] = true, true
		}
	}
	whole, fragments := 0, 0
	for name, text := range read(t).texts {
		for _, m := range goBlock.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(m[1], "package ") {
				whole++
				vet(t, name, m[1])
				continue
			}
			fragments++
			parsed, err := parseFragment(m[1])
			if err != nil {
				t.Errorf("%s: %v in\n%s", name, err, m[1])
				continue
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				selector, ok := n.(*ast.SelectorExpr)
				if !ok {
					return true
				}
				of, ok := selector.X.(*ast.Ident)
				if !ok {
					return true
				}
				if p := packages[of.Name]; p != nil && !p[selector.Sel.Name] {
					t.Errorf("%s: there is no %s.%s", name, of.Name, selector.Sel.Name)
				}
				if v := variables[of.Name]; v != "" && !packages["redlock"][v+"."+selector.Sel.Name] {
					t.Errorf("%s: %s has no %s", name, v, selector.Sel.Name)
				}
				return true
			})
		}
	}
	if whole < 3 || fragments < 12 {
		t.Errorf("%d whole files and %d fragments: this has read too little", whole, fragments)
	}
}

// Misuses that a type excludes.
func TestMisuseDoesNotCompile(t *testing.T) {
	run := "func(ctx context.Context, lock *redlock.Lock) error { return nil }"
	for _, misuse := range []string{
		`locker.Lock(ctx, "job", redlock.WithPrefix("app:"))`,
		`locker.TryLock(ctx, "job", redlock.WithMaxRuns(1))`,
		`locker.Once(ctx, "job", ` + run + `, redlock.WithNodeTimeout(1))`,
		`locker.Forget(ctx, "job", redlock.WithMaxTTL(1))`,
		`inspector.Lock(ctx, "job")`,
		`inspector.Once(ctx, "job", ` + run + `)`,
		`locker.Do(ctx, "job", func(ctx context.Context) error { return nil })`,
		`lock.Unlock(ctx)`,
		`redlock.New(nil, redlock.Option{})`,
		`_ = finding.Setings`,
	} {
		source := "package p\nimport (\"context\"; \"github.com/quorumlock/redlock\"; " +
			"\"github.com/quorumlock/redlock/finding\")\nvar _ = finding.Note\n" +
			"func _(ctx context.Context, locker *redlock.Locker, inspector *redlock.Inspector, lock *redlock.Lock) {\n"
		for code, fails := range map[string]bool{misuse: true, `locker.Lock(ctx, "job", redlock.WithTTL(1))`: false} {
			file := cases.Must(parser.ParseFile(fset, "misuse.go", source+code+"\n}\n", 0))(t)
			_, err := (&types.Config{Importer: sources}).Check("p", fset, []*ast.File{file}, nil)
			if (err != nil) != fails {
				t.Errorf("%s: %v", code, err)
			}
		}
	}
}

var indentation = regexp.MustCompile(`(?m)^\t+`)

// What a page quotes from an example is what the example says.
func TestQuotedExamples(t *testing.T) {
	r := read(t)
	for page, example := range map[string]string{"docs/operations.md## Sentinel": "example_sentinel_test.go"} {
		page, section, _ := strings.Cut(page, "#")
		_, text, _ := strings.Cut(r.texts[page], "\n#"+section+"\n")
		text, _, _ = strings.Cut(text, "\n## ")
		blocks := goBlock.FindAllStringSubmatch(text, -1)
		if len(blocks) == 0 {
			t.Errorf("%s quotes nothing", page)
		}
		source := indentation.ReplaceAllString(r.gos[example], "")
		for _, m := range blocks {
			if !strings.Contains(source, indentation.ReplaceAllString(m[1], "")) {
				t.Errorf("%s: this is not in %s:\n%s", page, example, m[1])
			}
		}
	}
}

// vet compiles a file as if it stood in this module.
func vet(t *testing.T, page, source string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if strings.Contains(source, `"testing"`) {
		file = strings.Replace(file, "main.go", "main_test.go", 1)
	}
	cases.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	command := exec.Command("go", "vet", file)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%s: %v\n%s", page, err, out)
	}
}

// parseFragment reads statements or declarations. Imports may stand before either, and … for what is left out.
func parseFragment(source string) (*ast.File, error) {
	source = strings.ReplaceAll(source, "…\n", "\n")
	imports := ""
	if strings.HasPrefix(source, "import (") {
		before, after, _ := strings.Cut(source, "\n)\n")
		imports, source = before+"\n)\n", after
	}
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "fragment.go", "package p\n"+imports+"func _() {\n"+source+"\n}\n",
		parser.SkipObjectResolution)
	if err != nil {
		declared, other := parser.ParseFile(fset, "fragment.go", "package p\n"+imports+source, parser.SkipObjectResolution)
		if other == nil {
			return declared, nil
		}
	}
	return parsed, err
}
