package lua_test

import (
	"testing"

	"github.com/quorumlock/redlock/internal/lua"
)

// The SHA is the server's name for a script: the hexadecimal SHA-1 of its source.
func TestNew(t *testing.T) {
	s := lua.New("return 1")
	if want := "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; s.SHA != want {
		t.Errorf("got %s, want %s", s.SHA, want)
	}
}

func TestLoadJoinsTheFiles(t *testing.T) {
	want := "--!df flags=allow-undeclared-keys\n"
	for _, name := range []string{"readers", "queue", "join", "read"} {
		want += text(t, name+".lua")
	}
	if s := lua.Load("readers", "queue", "join", "read"); s.Source != want {
		t.Errorf("got %d bytes, want the %d of the files in order", len(s.Source), len(want))
	}
}

func TestLoadKnowsNoOtherFiles(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a script without a file was loaded")
		}
	}()
	lua.Load("none")
}
