package main

import "testing"

func TestSlips(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"a", "", 1},
		{"kitten", "sitting", 3},
		{"wait", "wait", 0},
		{"nowait", "no-wait", 1},
		{"rnu", "run", 1},
		{"ab", "ba", 1},
	} {
		if got := slips(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: got %d, want %d", c.a, c.b, got, c.want)
		}
	}
}

func TestHasSemicolon(t *testing.T) {
	for node, want := range map[string]bool{
		"a": false, "a;b": true, "redis://a;b:6380": true, "redis://u:p@a;redis://u:p@b": true, "redis://u:p;w@a;b": true,
		"redis://u:p;w@a": false, "unix:///run/a;b.sock": false, "a;": true,
	} {
		if got := hasSemicolon(node); got != want {
			t.Errorf("%s: got %v, want %v", node, got, want)
		}
	}
}
