package tokens

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// A judge that finds nothing proves nothing, unless it finds what is planted.
func TestJudgeFindsWhatIsPlanted(t *testing.T) {
	in := func(name string, token int64, asked, granted, ended time.Duration) Hold {
		return Hold{Name: name, Token: token, Asked: asked, Granted: granted, Ended: ended}
	}
	reads := func(granted, ended time.Duration) Hold {
		return Hold{Name: "a", Reads: true, Granted: granted, Ended: ended}
	}
	for _, c := range []struct {
		what  string
		holds []Hold
		want  [4]int // duplicates, inversions, late grants, overlaps
	}{
		{"in order", []Hold{in("a", 1, 0, 1, 2), in("a", 2, 0, 3, 4), in("a", 5, 5, 6, 7)}, [4]int{}},
		{"names do not concern each other", []Hold{in("a", 9, 0, 1, 2), in("b", 2, 3, 4, 5), in("c", 9, 0, 1, 9)}, [4]int{}},
		{"the same token", []Hold{in("a", 7, 0, 1, 2), in("a", 7, 3, 4, 5)}, [4]int{1, 0, 0, 0}},
		{"a smaller token, asked for later", []Hold{in("a", 7, 0, 1, 2), in("a", 6, 3, 4, 5)}, [4]int{0, 1, 1, 0}},
		{"a smaller token, granted later", []Hold{in("a", 7, 0, 2, 3), in("a", 6, 1, 4, 5)}, [4]int{0, 0, 1, 0}},
		{"an overlap", []Hold{in("a", 6, 0, 1, 4), in("a", 7, 2, 3, 5)}, [4]int{0, 0, 0, 1}},
		{
			"an overlap with one long ago",
			[]Hold{in("a", 1, 0, 1, 9), in("a", 2, 2, 3, 4), in("a", 3, 5, 6, 7)},
			[4]int{0, 0, 0, 2},
		},
		{"readers", []Hold{reads(0, 9), reads(1, 2), in("a", 5, 7, 9, 10), reads(10, 11)}, [4]int{}},
		{"a writer beside a reader", []Hold{reads(0, 9), reads(1, 2), in("a", 5, 7, 8, 10)}, [4]int{0, 0, 0, 1}},
		{"a reader beside a writer", []Hold{in("a", 5, 0, 1, 10), reads(9, 11), reads(10, 11)}, [4]int{0, 0, 0, 1}},
		{"late by two", []Hold{in("a", 7, 0, 1, 2), in("a", 8, 3, 4, 5), in("a", 6, 6, 7, 8)}, [4]int{0, 1, 1, 0}},
	} {
		rand.Shuffle(len(c.holds), func(i, j int) { c.holds[i], c.holds[j] = c.holds[j], c.holds[i] })
		v := Judge(c.holds)
		if got := [4]int{v.Duplicates, v.Inversions, v.LateGrants, v.Overlaps}; got != c.want {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
	}
}

// One wrong token among very many is found, wherever it is, and against a
// definition that compares every pair.
func TestJudgeAgreesWithTheDefinition(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		var holds []Hold
		for range 2 + random.IntN(30) {
			asked := time.Duration(random.IntN(40))
			granted := asked + time.Duration(random.IntN(10))
			holds = append(holds, Hold{
				Name: fmt.Sprint(random.IntN(2)), Token: int64(granted) + int64(random.IntN(4)),
				Asked: asked, Granted: granted, Ended: granted,
			})
		}
		wrong := 0
		for _, b := range holds {
			for _, a := range holds {
				if a.Name == b.Name && a.Granted < b.Asked && a.Token > b.Token {
					wrong++
					break
				}
			}
		}
		if got := Judge(holds).Inversions; got != wrong {
			t.Errorf("seed %d: got %d out of order, want %d", seed, got, wrong)
		}
	}
}
