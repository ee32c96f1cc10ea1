package tokens

import (
	"testing"
	"time"
)

// What the judge itself finds is tested where it is: here, that it is told of a history what it should know.
func TestJudge(t *testing.T) {
	in := func(name string, token int64, asked, granted, ended time.Duration) Hold {
		return Hold{Name: name, Reads: token == 0, Token: token, Asked: asked, Granted: granted, Ended: ended}
	}
	for _, c := range []struct {
		what              string
		holds             []Hold
		always, exclusive int // violations
	}{
		{"none", nil, 0, 0},
		{"in order", []Hold{in("a", 1, 0, 1, 2), in("b", 9, 0, 1, 9), in("a", 5, 5, 6, 7)}, 0, 0},
		{"the same token", []Hold{in("a", 7, 0, 2, 3), in("a", 7, 1, 4, 5)}, 1, 2},
		{"a smaller token, asked for later", []Hold{in("a", 7, 0, 1, 2), in("a", 6, 3, 4, 5)}, 1, 2},
		{"a smaller token, granted later", []Hold{in("a", 7, 0, 2, 3), in("a", 6, 1, 4, 5)}, 0, 1},
		{"the same, of one that was over before it was known", []Hold{in("a", 7, 0, 3, 2), in("a", 6, 1, 4, 5)}, 0, 0},
		{"an overlap", []Hold{in("a", 6, 0, 1, 4), in("a", 7, 2, 3, 5)}, 0, 1},
		{"readers", []Hold{in("a", 0, 0, 0, 9), in("a", 0, 0, 1, 2), in("a", 5, 7, 9, 10)}, 0, 0},
		{"a writer beside a reader", []Hold{in("a", 0, 0, 0, 9), in("a", 5, 7, 8, 10)}, 0, 1},
	} {
		for exclusive, want := range map[bool]int{false: c.always, true: c.exclusive} {
			if v := Judge(c.holds, exclusive); len(v.Broken) != want {
				t.Errorf("%s, exclusive: %t: got %v, want %d", c.what, exclusive, v, want)
			}
		}
	}
}
