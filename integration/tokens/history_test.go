package tokens

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A judge that finds nothing proves nothing, unless it finds what is planted.
func TestJudgeFindsWhatIsPlanted(t *testing.T) {
	in := func(name int32, token int64, asked, granted, ended time.Duration) Hold {
		return Hold{name, token, asked, granted, ended}
	}
	for _, c := range []struct {
		what  string
		holds []Hold
		want  [4]int // duplicates, inversions, late grants, overlaps
	}{
		{"in order", []Hold{in(1, 1, 0, 1, 2), in(1, 2, 0, 3, 4), in(1, 5, 5, 6, 7)}, [4]int{}},
		{"names do not concern each other", []Hold{in(1, 9, 0, 1, 2), in(2, 2, 3, 4, 5), in(3, 9, 0, 1, 9)}, [4]int{}},
		{"the same token", []Hold{in(1, 7, 0, 1, 2), in(1, 7, 3, 4, 5)}, [4]int{1, 0, 0, 0}},
		{"a smaller token, asked for later", []Hold{in(1, 7, 0, 1, 2), in(1, 6, 3, 4, 5)}, [4]int{0, 1, 1, 0}},
		{"a smaller token, granted later", []Hold{in(1, 7, 0, 2, 3), in(1, 6, 1, 4, 5)}, [4]int{0, 0, 1, 0}},
		{"an overlap", []Hold{in(1, 6, 0, 1, 4), in(1, 7, 2, 3, 5)}, [4]int{0, 0, 0, 1}},
		{"an overlap with one long ago", []Hold{in(1, 1, 0, 1, 9), in(1, 2, 2, 3, 4), in(1, 3, 5, 6, 7)}, [4]int{0, 0, 0, 2}},
		{"late by two", []Hold{in(1, 7, 0, 1, 2), in(1, 8, 3, 4, 5), in(1, 6, 6, 7, 8)}, [4]int{0, 1, 1, 0}},
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
			holds = append(holds, Hold{int32(random.IntN(2)), int64(granted) + int64(random.IntN(4)), asked, granted, granted})
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
