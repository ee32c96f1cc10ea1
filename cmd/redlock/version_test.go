package main

import "testing"

func TestVersion(t *testing.T) {
	const revision = "550752e8d1f4a0b1c2d3e4f5a6b7c8d9e0f1a2b3"
	for _, c := range []struct{ version, revision, want string }{
		{"(devel)", "", "redlock version (devel), go1.26.8, linux/arm64"},
		{"v0.2.0", revision, "redlock version v0.2.0, revision 550752e8d1f4, go1.26.8, linux/arm64"},
		{
			"v0.0.0-20261123235959-550752e8d1f4", revision,
			"redlock version v0.0.0-20261123235959-550752e8d1f4, go1.26.8, linux/arm64",
		},
	} {
		b := build{Version: c.version, Revision: c.revision, Go: "go1.26.8", OS: "linux", Arch: "arm64"}
		if got := b.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
