package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a comment's words are taken for. A plain word is a name only where something marks it.
var (
	word      = regexp.MustCompile(`\w(?:[\w./-]*\w)?`)
	marked    = regexp.MustCompile(`\[\*?(\w+)\]|\b(\w+)\(\)|\b(?:see|guarded by) (\w+)(?:[,;:)]|\.(?: |$)|$)`)
	member    = regexp.MustCompile(`^(\w+)\.([A-Za-z]\w*)$`)
	mixedCase = regexp.MustCompile(`^(?:[a-z]+[A-Z]|[A-Z][a-z]+\d*[A-Z])\w*$`)
	beginning = regexp.MustCompile(`^[a-z]\w*\b[^/]`)
	forNil    = regexp.MustCompile(`(?s)\bnil \*(\w+) .*?(?:\.\s|$)`)
	quoted    = regexp.MustCompile(`(?m)^\t.*`)
	goDocs    = regexp.MustCompile(`\bdocs/[\w/.-]+\.md\b`)

	noNames = strings.Fields("GitHub OpenTelemetry processCommand below them") // Redis has a function processCommand
)

// vocabulary is what the files of a directory have.
type vocabulary struct {
	code     string          // without comments
	words    map[string]bool // of code and texts
	declared exported        // and members of types, as in "T.m"; "T.*": there may be others
}

// Names in comments exist: files; members of types and packages; words in mixed case, in brackets, before parentheses,
// behind "see". A comment that begins with a small letter begins with the name that it documents. And a method of which
// a type's comment says that it may be called on nil looks for that. Pages that texts in the code name exist, too.
func TestNamesInComments(t *testing.T) {
	r, fset, all := read(t), token.NewFileSet(), map[string]bool{}
	files, dirs := map[string]*ast.File{}, map[string]*vocabulary{}
	for name, content := range r.gos {
		parsed, err := parser.ParseFile(fset, name, content, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		v := dirs[path.Dir(name)]
		if v == nil {
			v = &vocabulary{words: map[string]bool{}, declared: exported{}}
			dirs[path.Dir(name)] = v
		}
		files[name] = parsed
		v.add(parsed, content)
		maps.Copy(all, v.words)
	}
	for name, parsed := range files {
		v := dirs[path.Dir(name)]
		known := func(word string) bool {
			return v.words[word] || ast.IsExported(word) && all[word] || slices.Contains(noNames, word)
		}
		exists := func(word string) bool {
			of := member.FindStringSubmatch(word)
			switch {
			case file.MatchString(word) || dir.MatchString(word):
				at, test, _ := strings.Cut(word, ".Test")
				return (r.bases[at] || r.paths[at] || r.paths[path.Join(path.Dir(name), at)]) &&
					(test == "" || r.tests["Test"+test])
			case mixedCase.MatchString(word):
				return known(word)
			case of == nil || v.declared[word] || !v.words[of[1]]:
				return true
			case v.declared[of[1]] && (ast.IsExported(of[1]) || !ast.IsExported(of[2])): // else a variable, as it seems
				return v.declared[of[1]+".*"] && all[of[2]]
			}
			return all[of[2]] || slices.ContainsFunc(parsed.Imports, func(i *ast.ImportSpec) bool {
				from := strings.Trim(i.Path.Value, `"`)
				return path.Base(from) == of[1] && !strings.HasPrefix(from, module)
			})
		}
		for _, page := range slices.DeleteFunc(goDocs.FindAllString(r.gos[name], -1), exists) {
			t.Errorf("%s: there is no %s", name, page)
		}
		for _, group := range parsed.Comments {
			text := strings.Join(strings.Fields(quoted.ReplaceAllString(group.Text(), "")), " ")
			text = strings.ReplaceAll(text, "https://"+module+"/blob/main/", "")
			missing := slices.DeleteFunc(word.FindAllString(text, -1), exists)
			for _, m := range marked.FindAllStringSubmatch(text, -1) {
				if is := m[1] + m[2] + m[3]; !known(is) {
					missing = append(missing, is)
				}
			}
			if len(missing) > 0 {
				t.Errorf("%s: there is no %s", fset.Position(group.Pos()), strings.Join(missing, ", "))
			}
			for _, m := range forNil.FindAllStringSubmatch(text, -1) {
				for _, method := range word.FindAllString(m[0], -1) {
					body := regexp.MustCompile(`(?s)\nfunc \(\w+ \*` + m[1] + `\) ` + method + `\(.*?\n}`).FindString(v.code)
					if body != "" && !strings.Contains(body, " nil") {
						t.Errorf("%s: %s.%s does not look for nil", fset.Position(group.Pos()), m[1], method)
					}
				}
			}
		}
		for _, d := range parsed.Decls {
			names, doc := exported{}, ""
			names.add(d)
			switch d := d.(type) {
			case *ast.FuncDecl:
				if !testName.MatchString(d.Name.Name) {
					doc, names[d.Name.Name] = d.Doc.Text(), true
				}
			case *ast.GenDecl:
				if !d.Lparen.IsValid() {
					doc = d.Doc.Text()
				}
			}
			if first := strings.Trim(beginning.FindString(doc), " ,:("); first != "" && !names[first] {
				t.Errorf("%s: the comment begins with %s", fset.Position(d.Pos()), first)
			}
		}
	}
}

func (v *vocabulary) add(parsed *ast.File, content string) {
	code := []byte(content)
	for _, group := range parsed.Comments {
		clear(code[group.Pos()-parsed.FileStart : group.End()-parsed.FileStart])
	}
	v.code += string(code)
	for _, chain := range regexp.MustCompile(`[\w.]+`).FindAllString(string(code), -1) {
		of := ""
		for is := range strings.SplitSeq(chain, ".") {
			v.words[is], v.declared[of+"."+is] = true, true
			of = is
		}
	}
	for _, d := range parsed.Decls {
		v.declared.add(d)
		name := "" // of a type or variable
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncType:
				return false // its parameters are no members
			case *ast.ValueSpec:
				v.declared[n.Names[0].Name+".*"] = true
			case *ast.TypeSpec:
				name = n.Name.Name
			case *ast.Field:
				v.declared[name+".*"] = v.declared[name+".*"] || n.Names == nil
				for _, is := range n.Names {
					v.declared[name+"."+is.Name] = true
				}
			}
			return true
		})
	}
}
