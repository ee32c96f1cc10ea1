package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/redlock/internal/sim"
)

// Each command that the library sends, or that its scripts call, is refused on its own: by an ACL, or since the server
// does not know it, as rename-command has taken it away. testdata/refusals.txt says what then fails, and what the
// findings are. No error quotes a script.
func TestRefusals(t *testing.T) {
	for at, line := range scenarios(t, "testdata/refusals.txt") {
		cells := strings.Split(line, "|")
		if len(cells) != 3 {
			t.Fatalf("%s: bad line: %s", at, line)
		}
		for some, want := range map[int]string{1: cells[1], 3: cells[2]} {
			for command := range strings.FieldsSeq(cells[0]) {
				for how, refuse := range map[string]func(n *sim.Node, commands ...string){
					"unknown": (*sim.Node).Disable, "forbidden": (*sim.Node).Deny,
				} {
					var got string
					bubble(t, 3, func(t *testing.T, fl *fleet) {
						for _, n := range fl.nodes[:some] {
							refuse(n, command)
						}
						got = fl.underRefusal(t)
					})
					if got != strings.TrimSpace(want) {
						t.Errorf("%s: %s %s on %d nodes: got %q", at, command, how, some, got)
					}
				}
			}
		}
	}
}

// Some servers refuse that scripts use keys which they do not declare. Dragonfly does not if the script asks for it.
func TestUndeclaredKeys(t *testing.T) {
	for _, c := range []struct {
		honoured string
		some     int
		want     string
	}{
		{"", 1, "finding undeclared"},
		{"", 3, "finding undeclared, lock"},
		{"--!df flags=allow-undeclared-keys\n", 3, "-"},
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			for _, n := range fl.nodes[:c.some] {
				n.Strict(c.honoured)
			}
			if got := fl.underRefusal(t); got != c.want {
				t.Errorf("%d nodes, honoured %q: got %q, want %q", c.some, c.honoured, got, c.want)
			}
		})
	}
}

// underRefusal says what does not work.
func (fl *fleet) underRefusal(t *testing.T) string {
	t.Helper()
	var fails []string
	failed := func(what string, err error) {
		var e *QuorumError
		if err == nil {
			return
		}
		if text := fmt.Sprintf("%+v", err); strings.Contains(text, "local ") || strings.Contains(text, "beginning with") {
			t.Errorf("%s: the error quotes what was sent: %s", what, text)
		}
		told := " untold"
		if errors.As(err, &e) {
			for _, n := range e.Nodes {
				var reply *ReplyError
				if errors.As(n.Err, &reply) {
					told = ""
				}
			}
		}
		fails = append(fails, what+told)
	}
	a, b := fl.locker("a"), fl.locker("b")
	k, err := a.TryLock(t.Context(), "job")
	failed("lock", err)
	if err == nil {
		waited := make(chan error, 1)
		go func() {
			k, err := b.Lock(t.Context(), "job", WithMaxWait(3*time.Second))
			if err == nil {
				err = k.Unlock(t.Context())
			}
			waited <- err
		}()
		time.Sleep(time.Second)
		failed("extend", k.Extend(t.Context()))
		failed("unlock", k.Unlock(t.Context()))
		failed("wait", <-waited)
		settleNetwork()
		if len(fl.leftovers()) > 0 {
			fails = append(fails, "leftovers")
		}
	}
	for _, n := range a.Nodes(t.Context()) {
		for _, f := range n.Findings {
			code, _, _ := strings.Cut(f.Code, "-") // reply-noperm or reply-err
			fails = append(fails, "finding "+code)
			if strings.Contains(f.Text, "local ") || strings.Contains(f.Text, "beginning with") {
				t.Errorf("the finding quotes what was sent: %s", f.Text)
			}
		}
	}
	slices.Sort(fails)
	return cmp.Or(strings.Join(slices.Compact(fails), ", "), "-")
}
