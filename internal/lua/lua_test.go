package lua_test

import (
	"crypto/sha1"
	"regexp"
	"strings"
	"testing"

	"github.com/quorumlock/redlock/internal/lua"
	"github.com/quorumlock/redlock/internal/sim"
)

// The SHA is the server's name for a script: the hexadecimal SHA-1 of its source.
func TestNew(t *testing.T) {
	s := lua.New("return 1")
	if want := "e0e1f9fabfc9d4800c877a703b823ac0578ff8db"; s.SHA != want {
		t.Errorf("got %s, want %s", s.SHA, want)
	}
}

// The digest is SHA-1, whatever the length: the end of a text may need a block of its own.
func TestSHA1(t *testing.T) {
	for n := range 200 {
		text := strings.Repeat("a\xff", n)[:n]
		if got, want := lua.SHA1(text), sha1.Sum([]byte(text)); got != want {
			t.Errorf("%d bytes: got %x, want %x", n, got, want)
		}
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

// Whatever stands in a queue: a release takes it out and frees the lock, and proposes no token but a member's.
func FuzzMembers(f *testing.F) {
	const ann = "aaaaaaaa-aaaa-7aaa-8aaa-aaaaaaaaaaaa"
	for _, seed := range []string{
		"", "x", ann, ann + " 0000000000000006 0000000010000 ch", ann + " reading--------- 0000000010000 ch:500",
		ann + " 9999999999999999 9999999999999 ch:99999999999999999999", ann + " 0000000000000006 0000000010000 ",
		"{" + ann[2:] + "} 0000000000000006 0000000010000 ch", ann + " 000000000000006x 0000000010000 ch",
		ann + " 0000000000000006 0000000000000 ch",
	} {
		f.Add(seed)
	}
	member := regexp.MustCompile(`(?s)^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12} (\d*[1-9]\d*) (\d*[1-9]\d*) .`)
	release := lua.Load("free", "readers", "propose", "queue", "watchers", "value", "release")
	f.Fuzz(func(t *testing.T, text string) {
		n := sim.NewNode("n:6379", 1)
		defer n.Close()
		n.Do("SET", "job", "me", "PX", 1_000_000)
		n.Do("SADD", "redlock:waiting", "job")
		n.Do("ZADD", "redlock:wait:job", 0, text)
		got := n.Do("EVAL", release.Source, 2, "job", "redlock:tokens", "me")
		left := n.Do("EXISTS", "job", "redlock:wait:job")
		if got != int64(1) || left != int64(0) {
			t.Errorf("%q: the release says %v, and leaves %v keys", text, got, left)
		}
		m := member.FindStringSubmatch(text)
		is := m != nil && len(m[2]) == 16 && len(m[3]) == 13
		if proposed := n.Do("ZSCORE", "redlock:tokens", "job") != nil; proposed != is {
			t.Errorf("%q: a member: %t; proposed: %t", text, is, proposed)
		}
	})
}
