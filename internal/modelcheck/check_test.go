package modelcheck

import (
	"strings"
	"testing"
)

// check is an exploration and what it must find: no violation, in so many states at least, since a model that goes
// nowhere is clean, too; or a violation of a property, in exactly so many steps.
type check struct {
	name   string
	model  interface{ explore() result }
	states int
	broken string
	steps  int
}

func explored(t *testing.T, checks []check) {
	t.Helper()
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			got := c.model.explore()
			t.Log(got)
			switch {
			case c.broken == "" && got.broken != "":
				t.Errorf("got %s, want clean", got.broken)
			case c.broken == "" && got.states < c.states:
				t.Errorf("got %d states, want at least %d", got.states, c.states)
			case !strings.HasPrefix(got.broken, c.broken):
				t.Errorf("got %q, want a violation of %q", got.broken, c.broken)
			case c.broken != "" && len(got.trace) != c.steps:
				t.Errorf("got %d steps, want %d", len(got.trace), c.steps)
			}
		})
	}
}

func clean(name string, states int, model interface{ explore() result }) check {
	return check{name: name, model: model, states: states}
}

func breaks(name, broken string, steps int, model interface{ explore() result }) check {
	return check{name: name, model: model, broken: broken, steps: steps}
}
