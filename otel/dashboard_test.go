package redlockotel_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/cases"
)

// board is what a Grafana dashboard must have to load and to show something.
type board struct {
	Title, UID    string
	SchemaVersion int
	Panels        []struct {
		ID          int
		Type, Title string
		Datasource  struct{ UID string }
		GridPos     struct{ X, Y, W, H int }
		Targets     []struct{ Expr, RefID string }
	}
	Templating struct {
		List []struct{ Name, Type, Definition string }
	}
}

func readBoard(t *testing.T, file string) board {
	t.Helper()
	text := cases.Must(os.ReadFile(file))(t)
	var b board
	cases.NoError(t, json.Unmarshal(text, &b))
	return b
}

var variable = regexp.MustCompile(`\$\{?(\w+)`)

// Each panel has a place of its own, a title, a known kind and queries; what they refer to is there.
func TestDashboardIsWhole(t *testing.T) {
	b := readBoard(t, filepath.Join("..", "docs", "observability", "dashboard.json"))
	if b.Title == "" || b.UID == "" || b.SchemaVersion < 30 {
		t.Errorf("title %q, uid %q, schema version %d", b.Title, b.UID, b.SchemaVersion)
	}
	known := map[string]bool{"__rate_interval": true, "__range": true} // Grafana's own
	for _, v := range b.Templating.List {
		known[v.Name] = true
	}
	ids, cells := map[int]bool{}, map[[2]int]string{}
	for _, p := range b.Panels {
		if p.Title == "" || ids[p.ID] || p.Type != "stat" && p.Type != "timeseries" {
			t.Errorf("panel %d %q of type %q: no title, an id that is taken, or an unknown type", p.ID, p.Title, p.Type)
		}
		ids[p.ID] = true
		at := p.GridPos
		if at.W < 1 || at.H < 1 || at.X < 0 || at.X+at.W > 24 {
			t.Errorf("panel %q is at %+v", p.Title, at)
		}
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := cells[[2]int{x, y}]; other != "" {
					t.Fatalf("panels %q and %q overlap", p.Title, other)
				}
				cells[[2]int{x, y}] = p.Title
			}
		}
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks for nothing", p.Title)
		}
		texts, refs := []string{p.Datasource.UID}, map[string]bool{}
		for _, target := range p.Targets {
			if !strings.Contains(target.Expr, "redlock_") || target.RefID == "" || refs[target.RefID] {
				t.Errorf("panel %q: query %q with the refId %q", p.Title, target.Expr, target.RefID)
			}
			refs[target.RefID] = true
			texts = append(texts, target.Expr)
		}
		for _, text := range texts {
			for _, m := range variable.FindAllStringSubmatch(text, -1) {
				if !known[m[1]] {
					t.Errorf("panel %q: there is no variable %s", p.Title, m[1])
				}
			}
		}
	}
}
