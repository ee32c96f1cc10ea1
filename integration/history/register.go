package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// The lock as a register that tokens fence: it has nobody's token or its holder's, and remembers the largest it ever
// had. To acquire is to write one's token where there is none, and only one above all before; to let go is to take it
// away.
type register struct {
	held    int64 // 0: free
	highest int64
}

// step is one operation on it.
type step struct {
	acquire bool
	token   int64
}

var model = porcupine.Model{
	Init: func() any { return register{} },
	Step: func(state, input, _ any) (bool, any) {
		r, s := state.(register), input.(step)
		switch {
		case s.acquire && (r.held != 0 || s.token <= r.highest), !s.acquire && r.held != s.token:
			return false, r
		case s.acquire:
			return true, register{s.token, s.token}
		default:
			return true, register{0, r.highest}
		}
	},
	DescribeOperation: func(input, _ any) string {
		if s := input.(step); s.acquire {
			return fmt.Sprintf("acquire with token %d", s.token)
		}
		return fmt.Sprintf("let go of token %d", input.(step).token)
	},
	DescribeState: func(state any) string {
		if r := state.(register); r.held != 0 {
			return fmt.Sprintf("held by token %d", r.held)
		}
		return fmt.Sprintf("free; highest %d", state.(register).highest)
	},
}

// part is how many holds are judged together. What the search costs grows fast with it, and the order between
// parts is the judge of tokens' business.
const part = 100

// linear is what porcupine says of a history.
type linear struct {
	parts, illegal, unknown int
	view                    string // the file with the first part that is illegal
}

// linearize judges a history, name by name and part by part, and shows the first illegal part in dir.
func linearize(history []record, dir string, patience time.Duration) (linear, error) {
	var l linear
	byName := map[string][]record{}
	for _, r := range history {
		if r.valid() && r.Kind != reading {
			byName[r.Name] = append(byName[r.Name], r)
		}
	}
	for _, holds := range byName {
		slices.SortFunc(holds, func(a, b record) int { return cmp.Compare(a.Granted, b.Granted) })
		for piece := range slices.Chunk(holds, part) {
			l.parts++
			result, info := porcupine.CheckOperationsVerbose(model, operations(piece), patience)
			switch result {
			case porcupine.Ok:
			case porcupine.Unknown:
				l.unknown++
			case porcupine.Illegal:
				l.illegal++
				if l.view != "" {
					continue
				}
				l.view = filepath.Join(dir, "history.html")
				if err := porcupine.VisualizePath(model, info, l.view); err != nil {
					return l, err
				}
			}
		}
	}
	return l, nil
}

func operations(holds []record) []porcupine.Operation {
	var all []porcupine.Operation
	clients := map[string]int{}
	for _, h := range holds {
		id, ok := clients[h.Client]
		if !ok {
			id = len(clients)
			clients[h.Client] = id
		}
		all = append(all,
			porcupine.Operation{ClientId: id, Input: step{true, h.Token}, Call: h.Asked, Return: h.Granted},
			porcupine.Operation{ClientId: id, Input: step{false, h.Token}, Call: h.Ended, Return: h.Released})
	}
	return all
}
