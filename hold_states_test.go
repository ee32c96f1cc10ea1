package redlock

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The drawing in docs/architecture.md has the transitions of the code, and no others.
func TestTheDrawingOfAHoldsLife(t *testing.T) {
	var coded, drawn []string
	for from, all := range transitions {
		for _, to := range all {
			coded = append(coded, state(from).String()+" --> "+to.String())
		}
	}
	text := string(must(os.ReadFile("docs/architecture.md"))(t))
	for _, m := range regexp.MustCompile(`(?m)^  (\w+) --> (\w+)`).FindAllStringSubmatch(text, -1) {
		drawn = append(drawn, strings.ReplaceAll(m[1]+" --> "+m[2], "handedOver", "handed over"))
	}
	slices.Sort(coded)
	slices.Sort(drawn)
	equals(t, strings.Join(drawn, "\n"), strings.Join(coded, "\n"), "the drawing")
}

// A transition that is none is a defect, and is not passed over.
func TestAHoldThatHasEndedDoesNotEndAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "job"))(t)
		must(k.Ticket())(t)
		defer func() {
			equals[any](t, recover(), "redlock: a hold that is handed over cannot become lost", "the panic")
		}()
		k.hold.becomeLost(ErrLost)
	})
}
