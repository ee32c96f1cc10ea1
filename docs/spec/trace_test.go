package spec

import (
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/sim/simtest"
)

var (
	first = flag.Uint64("first", 1, "the first seed whose history is checked")
	seeds = flag.Uint64("seeds", 40, "how many histories are checked")
)

// record lets the simulation run a seed, and returns what happened to one lock.
func record(t *testing.T, seed uint64) (r *simtest.Result) {
	t.Helper()
	synctest.Test(t, func(*testing.T) { r = simtest.Run(simtest.ActionsScenario(seed)) })
	return r
}

var words = map[string]string{
	"acquire": "ACQUIRE", "acquire or join": "ACQUIRE_OR_JOIN", "acquire_all": "ASK_AGAIN", "enqueue": "ENQUEUE",
	"raise": "RAISE", "extend": "EXTEND", "release": "RELEASE", "release and leave": "LEAVE",
	"hand over": "HAND_OVER", "pass over": "PASS_OVER", "trim": "TRIM", "lose": "LOSE",
	"restart": "RESTART", "hold": "HOLD",
}

// promela writes a history as a process that sends it. Owners are numbered; times are counted from the first, and so
// are tokens, which are µs, in halves: what a release makes known is between two.
func promela(t *testing.T, actions []simtest.Action) (text string, owned int) {
	t.Helper()
	owners := map[string]int{"": 0}
	number := func(owner string) int {
		if _, known := owners[owner]; !known {
			owners[owner] = len(owners)
		}
		return owners[owner]
	}
	clock, first := int64(math.MaxInt64), math.Inf(1)
	for _, a := range actions {
		if a.Clock > 0 {
			clock = min(clock, a.Clock)
		}
		for _, token := range []float64{a.Token, a.Entry, a.Said.Known} {
			if token > 0 {
				first = min(first, token)
			}
		}
	}
	half := func(token float64) int {
		if token == 0 {
			return 0
		}
		return int(2 * (token - first + 1))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "active proctype History() {\n")
	for _, a := range actions {
		word := words[a.What]
		if word == "" {
			t.Fatalf("the model has no step %q", a.What)
		}
		who, other := a.Owner, half(a.Said.Known)
		if a.To != "" {
			who = a.To
		}
		if a.Said.Holder != "" {
			other = number(a.Said.Holder)
		}
		fmt.Fprintf(&b, "\tstep!%s,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d,%d;\n", word, a.Node, a.At.Milliseconds(),
			max(0, a.Clock-clock), number(who), half(a.Token), a.TTL, a.Said.Code, other, number(a.Has), half(a.Entry),
			max(0, half(a.Floor)))
	}
	fmt.Fprintf(&b, "\tstep!END,0,0,0,0,0,0,0,0,0,0,0\n}\n")
	return b.String(), len(owners)
}

// judge asks Spin whether the model can take these steps. If not, it returns the one that it cannot take, and which
// assertion says so.
func judge(t *testing.T, s simtest.Scenario, actions []simtest.Action) string {
	t.Helper()
	dir := t.TempDir()
	history, owners := promela(t, actions)
	files := map[string]string{"history.pml": history}
	for _, name := range []string{"trace.pml", "node.pml"} {
		files[name] = string(cases.Must(os.ReadFile(name))(t))
	}
	for name, text := range files {
		cases.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	cmd := exec.CommandContext(t.Context(), "spin", "-T", "-B", fmt.Sprintf("-DGUARD=%d", s.Guard.Milliseconds()),
		fmt.Sprintf("-DOWNERS=%d", owners), "trace.pml")
	cmd.Dir = dir
	out, _ := cmd.CombinedOutput() // an assertion that is broken is an error, too
	text := string(out)
	if strings.Contains(text, "the model takes all steps") {
		return ""
	}
	steps := stepLine.FindAllString(text, -1)
	_, verdict, broken := strings.Cut(text, "text of failed assertion: ")
	if !broken || len(steps) == 0 {
		t.Fatalf("spin: %s", text)
	}
	assertion, _, _ := strings.Cut(verdict, "\n")
	return fmt.Sprintf("step %d: %+v\n%s", len(steps), actions[len(steps)-1], assertion)
}

var stepLine = regexp.MustCompile(`(?m)^\s*\d+$`)

// What the library does in the simulation is what the model may do.
func TestHistories(t *testing.T) {
	steps := map[string]int{}
	checked := []uint64{163, 346, 458} // in which somebody asks again, as in few
	for seed := range *seeds {
		checked = append(checked, *first+seed)
	}
	for _, seed := range checked {
		r := record(t, seed)
		for _, a := range r.Actions {
			steps[a.What]++
		}
		if broken := judge(t, r.Scenario, r.Actions); broken != "" {
			t.Errorf("seed %d: %s", seed, broken)
		}
	}
	t.Logf("%d histories: %v", len(checked), steps)
	for what := range words {
		if steps[what] == 0 {
			t.Errorf("no history has a step %q", what)
		}
	}
}

// forgeries are what no node and no client may do: each finds a step in a history that it can forge, and returns the
// history with it forged, or nothing.
var forgeries = []struct {
	name  string
	forge func(h []simtest.Action) []simtest.Action
}{
	{"a lock that another has is given", changed(func(a *simtest.Action) bool {
		a.Said.Code, a.Has, a.Entry = 1, a.Owner, max(a.Entry, a.Token)
		return a.What == "acquire" && a.Said.Holder != ""
	})},
	{"the answer names another holder", changed(func(a *simtest.Action) bool {
		was := a.Said.Holder
		a.Said.Holder = a.Owner
		return was != ""
	})},
	{"a token that is not larger is accepted", changed(func(a *simtest.Action) bool {
		was := a.Said.Code
		a.Said.Code = 1
		return was == 2 && a.What == "acquire"
	})},
	{"another token is known than the node has", changed(func(a *simtest.Action) bool {
		a.Said.Known++
		return a.Said.Code == 2 && a.What != "extend" && a.What != "release"
	})},
	{"a raise for a lock that is another's is accepted", changed(func(a *simtest.Action) bool {
		was := a.Said.Code
		a.Said.Code, a.Entry = 1, max(a.Entry, a.Token)
		return was == 0 && a.What == "raise"
	})},
	{"an extension takes the lock from another", changed(func(a *simtest.Action) bool {
		was, has := a.Said.Code, a.Has
		a.Said.Code, a.Has = 1, a.Owner
		return was == 0 && has != "" && a.What == "extend"
	})},
	{"an extension sets a key again in spite of a larger token", changed(func(a *simtest.Action) bool {
		was, has := a.Said.Code, a.Has
		a.Said.Code, a.Has = 2, a.Owner
		return was == 0 && has == "" && a.Entry > a.Token && a.What == "extend"
	})},
	{"a release takes the lock from another", changed(func(a *simtest.Action) bool {
		was := a.Said.Code
		a.Said.Code, a.Has = 1, ""
		return was == 2 && a.What == "release"
	})},
	{"a release makes nothing known", changed(func(a *simtest.Action) bool {
		was := a.Entry
		a.Entry = a.Token - 0.5
		return a.What == "release" && was == a.Token && a.Token != 0
	})},
	{"the lock is handed to one who does not wait", changed(func(a *simtest.Action) bool {
		a.To, a.Has = "somebody", "somebody"
		return a.What == "hand over"
	})},
	{"a node that was restarted without its data knows it", func(h []simtest.Action) []simtest.Action {
		for i, a := range h {
			later := slices.IndexFunc(h[i+1:], func(b simtest.Action) bool {
				return b.What != "restart" && b.What != "hold" && b.Node == a.Node
			})
			if a.What == "lose" && later >= 0 && h[i+1+later].What != "lose" && h[:i] != nil &&
				entryBefore(h[:i], a.Node) > max(h[i+1+later].Entry, h[i+1+later].Floor) { // which is not what trim does
				return slices.Delete(slices.Clone(h), i, i+1)
			}
		}
		return nil
	}},
	{"a key is gone before its time", func(h []simtest.Action) []simtest.Action {
		for i, a := range h {
			later := slices.IndexFunc(h[i+1:], func(b simtest.Action) bool { return b.What != "hold" && b.Node == a.Node })
			if later >= 0 && a.Has != "" && a.TTL > 0 && h[i+1+later].What == "acquire" && h[i+1+later].Said.Code == 1 {
				forged := slices.Clone(h)
				forged[i].TTL += 3_600_000
				return forged
			}
		}
		return nil
	}},
	{"a hold that one node supports", func(h []simtest.Action) []simtest.Action {
		for i, a := range h {
			if a.What == "acquire" && a.Said.Code == 1 && !slices.ContainsFunc(h[:i], func(b simtest.Action) bool {
				return b.Owner == a.Owner || b.To == a.Owner
			}) {
				return slices.Insert(slices.Clone(h), i+1, simtest.Action{What: "hold", At: a.At, Owner: a.Owner, Token: a.Token})
			}
		}
		return nil
	}},
	{"a hold with a token that nobody accepted", changed(func(a *simtest.Action) bool {
		a.Token++
		return a.What == "hold"
	})},
	{"a hold that was over is granted again", func(h []simtest.Action) []simtest.Action {
		if i := slices.IndexFunc(h, func(a simtest.Action) bool { return a.What == "hold" }); i >= 0 {
			again := h[i]
			again.At = h[len(h)-1].At
			return append(slices.Clone(h), again)
		}
		return nil
	}},
	{"votes of nodes that abstain count", func(h []simtest.Action) []simtest.Action {
		for _, hold := range h {
			var forged []simtest.Action
			for _, a := range h {
				if hold.What == "hold" && a.Owner == hold.Owner && a.What == "acquire" && a.Said.Code == 1 {
					forged = append(forged, simtest.Action{What: "lose", Node: a.Node, At: a.At},
						simtest.Action{What: "restart", Node: a.Node, At: a.At})
				}
				forged = append(forged, a)
			}
			if len(forged) > len(h)+2 {
				return forged
			}
		}
		return nil
	}},
}

// changed forges the first step of which change returns true: what it has made of it.
func changed(change func(a *simtest.Action) bool) func(h []simtest.Action) []simtest.Action {
	return func(h []simtest.Action) []simtest.Action {
		for i, a := range h {
			if change(&a) {
				forged := slices.Clone(h)
				forged[i] = a
				return forged
			}
		}
		return nil
	}
}

func entryBefore(h []simtest.Action, node int) (entry float64) {
	for _, a := range h {
		switch {
		case a.What == "lose" && a.Node == node:
			entry = 0
		case a.What != "hold" && a.What != "restart" && a.Node == node:
			entry = a.Entry
		}
	}
	return entry
}

// A history with one step forged is none of the model's.
func TestForgedHistoriesAreRefused(t *testing.T) {
	refused := map[string]bool{}
	for seed := uint64(1); seed <= 40 && len(refused) < len(forgeries); seed++ {
		r := record(t, seed)
		for _, f := range forgeries {
			forged := f.forge(r.Actions)
			if refused[f.name] || forged == nil {
				continue
			}
			refused[f.name] = true
			if broken := judge(t, r.Scenario, forged); broken == "" {
				t.Errorf("seed %d, %s: the model takes all steps", seed, f.name)
			} else {
				t.Logf("seed %d, %s: %s", seed, f.name, broken)
			}
		}
	}
	for _, f := range forgeries {
		if !refused[f.name] {
			t.Errorf("%s: no history has such a step", f.name)
		}
	}
}
