package lua_test

import (
	"os"
	"path/filepath"
	"strings"
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
		text, err := os.ReadFile(name + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		want += string(text)
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

// The head of a script says what it is sent and what it replies.
func TestEveryScriptBeginsWithItsContract(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	if err != nil || len(files) < 20 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "-- ") {
			t.Errorf("%s begins without a comment", file)
		}
	}
}
