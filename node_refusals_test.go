package redlock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/sim"
)

// Each command that the library sends, or that its scripts call, is refused on its own: by an ACL, or since the server
// does not know it, as rename-command has taken it away. testdata/refusals.txt says what then fails, and what the
// findings are. No error quotes a script.
func TestRefusals(t *testing.T) {
	for at, cells := range cases.Rows(t, "testdata/refusals.txt", 3) {
		for some, want := range map[int]string{1: cells[1], 3: cells[2]} {
			for command := range strings.FieldsSeq(cells[0]) {
				for how, refuse := range map[string]func(n *sim.Node, commands ...string){
					"unknown": (*sim.Node).Disable, "forbidden": (*sim.Node).Deny,
				} {
					var got string
					bubble(t, 3, func(t *testing.T, fl *fleet) {
						for _, n := range fl.nodes[:some] {
							refuse(n, strings.Split(command, "+")...)
						}
						got = fl.underRefusal(t)
					})
					equals(t, got, want, "%s: %s %s on %d nodes", at, command, how, some)
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
		{"", 3, "finding undeclared, lock, unavailable"},
		{"--!df flags=allow-undeclared-keys\n", 3, "-"},
	} {
		bubble(t, 3, func(t *testing.T, fl *fleet) {
			for _, n := range fl.nodes[:c.some] {
				n.Strict(c.honoured)
			}
			equals(t, fl.underRefusal(t), c.want, "%d nodes, honoured %q", c.some, c.honoured)
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
				err = k.Unlock()
			}
			waited <- err
		}()
		time.Sleep(time.Second)
		failed("extend", k.Extend(t.Context()))
		failed("unlock", k.Unlock())
		failed("wait", <-waited)
		settleNetwork()
		if len(fl.leftovers()) > 0 {
			fails = append(fails, "leftovers")
		}
	}
	for _, n := range a.Status(t.Context()) {
		for _, f := range n.Findings {
			code, _, _ := strings.Cut(string(f.Code), "-") // reply-noperm or reply-err
			fails = append(fails, "finding "+code)
			if f.Severity == finding.Unavailable {
				fails = append(fails, "unavailable")
			}
			if strings.Contains(f.Text, "local ") || strings.Contains(f.Text, "beginning with") {
				t.Errorf("the finding quotes what was sent: %s", f.Text)
			}
		}
	}
	slices.Sort(fails)
	all := cmp.Or(strings.Join(slices.Compact(fails), ", "), "-")
	none := strings.Contains(all, "lock") || strings.Contains(all, "available")
	if err := a.Ready(cancelled(t)); (err != nil) != none {
		t.Errorf("Ready: %v, and of the rest: %s", err, all)
	}
	return all
}

// Each command that the library sends gets a reply that is late, empty or of another type, on one node or on all.
// testdata/replies.txt says what then fails, and what the findings are. No lock is granted twice, nothing is left for
// good, and errors show no script, no password and little of a reply.
func TestOddReplies(t *testing.T) {
	odd := sized(strings.Fields(`7 ["odd"] null "odd" [["odd","odd"]]`), []string{`["odd"]`})
	type oddity struct{ command, reply string }
	want := map[oddity][]string{}
	for _, own := range []bool{false, true} { // a line of its own replaces what the line of all odd ones says
		for at, cells := range cases.Rows(t, "testdata/replies.txt", 4) {
			replies := odd
			if cells[1] != "odd" {
				replies = strings.Fields(cells[1])
			} else if own {
				continue
			}
			for command := range strings.FieldsSeq(cells[0]) {
				for _, reply := range replies {
					want[oddity{command, reply}] = []string{at, cells[2], cells[3]}
				}
			}
		}
	}
	for of, cells := range want {
		if of.reply == "late" && sized(false, true) {
			continue
		}
		for i, want := range cells[1:] {
			if want == "=" {
				continue
			}
			o := &oddReplies{command: of.command, reply: of.reply, some: 1 + 2*i}
			bubble(t, 3, o.run)
			slices.Sort(o.fails)
			if got := cmp.Or(strings.Join(slices.Compact(o.fails), ", "), "-"); got != want {
				t.Errorf("%s: %s to %s on %d nodes: got %q\n%s",
					cells[0], o.reply, o.command, o.some, got, strings.Join(o.said, "\n"))
			}
		}
	}
}

// oddReplies says what does not work if some nodes reply something else to a command.
type oddReplies struct {
	*fleet
	command, reply string
	some           int // nodes

	sent, dials atomic.Int64
	fails       []string // what does not work; in capitals what must not be
	said        []string // the errors, for people
}

func (o *oddReplies) run(t *testing.T, fl *fleet) {
	t.Helper()
	o.fleet = fl
	for i, n := range fl.nodes {
		n.SetPassword("secret")
		fl.urls[i] = "redis://:secret@" + n.Addr()
		if i < o.some {
			n.Alter(o.alter)
		}
	}
	begun := time.Now()
	a, b := o.locker("a"), o.locker("b")
	o.use(t, a, b)
	time.Sleep(time.Second)
	for _, key := range fl.leftovers() {
		_, name, _ := strings.Cut(key, " ")
		if !slices.Contains([]string{"redlock:once:once", "redlock:revoked", "kept", "gone", "force"}, name) {
			o.note("leftovers", key)
		}
	}
	for _, l := range []*Locker{a, b} {
		for _, n := range l.Status(t.Context())[:o.some] {
			for _, f := range n.Findings {
				o.note("finding "+string(f.Code), f.Text)
			}
		}
	}
	took := time.Since(begun)
	if took > 30*time.Second {
		o.note("SLOW", "")
	}
	if o.dials.Load() > int64(12*(8+2*took.Seconds())) { // main and second connections, and their pauses
		o.note(fmt.Sprint("DIALS ", o.dials.Load()), "")
	}
	if o.sent.Load() == 0 {
		o.note("NOT SENT", "")
	}
	_, _ = a.Close(), b.Close()
	time.Sleep(3 * time.Minute)
	if left := fl.leftovers(); len(left) > 0 || fl.net.Open(sim.Link{}) > 0 {
		o.note("LEFT FOR GOOD", fmt.Sprint(left))
	}
}

// scriptHead is the beginning of a script's comment: its name.
var scriptHead = regexp.MustCompile(`(?m)^-- ([a-z_]+): `)

// alter changes a node's reply to the command.
func (o *oddReplies) alter(c sim.Command) (reply any, other bool, late time.Duration) {
	name := strings.ToLower(c.Args[0])
	if name == "eval" || name == "evalsha" {
		if head := scriptHead.FindStringSubmatch(c.Args[1]); head != nil {
			name = head[1] // of one that is not loaded
		}
		for _, s := range allScripts() {
			if s.SHA == c.Args[1] || s.Source == c.Args[1] {
				name = s.Name
			}
		}
	}
	if name != o.command {
		return nil, false, 0
	}
	o.sent.Add(1)
	if o.reply == "late" {
		return nil, false, 400 * time.Millisecond // the node timeout is 250
	}
	if err := json.Unmarshal([]byte(o.reply), &reply); err != nil {
		panic(err)
	}
	return likeRedis(reply), true, 0
}

// likeRedis makes a reply of JSON: a text that begins with a plus is a status, one behind a # as it is, and another one
// is long.
func likeRedis(v any) any {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case []any:
		for i := range v {
			v[i] = likeRedis(v[i])
		}
	case string:
		if status, is := strings.CutPrefix(v, "+"); is {
			return sim.Status(status)
		}
		if text, is := strings.CutPrefix(v, "#"); is {
			return text
		}
		return strings.Repeat(v+" ", 100*min(len(v), 1))
	}
	return v
}

func (o *oddReplies) locker(client string) *Locker {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		o.dials.Add(1)
		return o.net.Dial(ctx, client, address)
	}
	opts := []Option{WithMaxWait(3 * time.Second), WithDoneTTL(time.Minute), dialing(dial)}
	if o.command == "set" {
		opts = append(opts, WithoutFencing())
	}
	return o.fleet.locker(client, opts...)
}

// use makes the Lockers send every command.
func (o *oddReplies) use(t *testing.T, a, b *Locker) {
	t.Helper()
	ctx := t.Context()
	hold := func(what string, k *Lock, err error, hand func() (*Lock, error)) {
		if o.failed(what, err) {
			return
		}
		settleNetwork() // a majority was enough: else b may get the lock on a node that has not got the request yet
		name, _, _ := strings.Cut(k.Name(), ",")
		if _, err := b.TryLock(ctx, name); err == nil {
			o.note(what+" UNSAFE", "")
		}
		waited := make(chan error, 1)
		go func() {
			k, err := hand()
			if err == nil {
				err = k.Unlock()
			}
			waited <- err
		}()
		time.Sleep(time.Second)
		o.failed("extend "+what, k.Extend(ctx))
		o.failed("unlock "+what, k.Unlock())
		o.failed("wait "+what, <-waited)
	}
	if o.command != "set" {
		for _, n := range o.nodes {
			n.Do("ZADD", tokensName, a.tokens.time(a.opts.clock.now())+500_000, "job") // to be raised
		}
	}
	k, err := a.TryLock(ctx, "job")
	hold("lock", k, err, func() (*Lock, error) { return b.Lock(ctx, "job") })
	if o.command == "raise" {
		return
	}
	k, err = a.TryLockAll(ctx, []string{"x", "y"})
	hold("all", k, err, func() (*Lock, error) { return b.LockAll(ctx, []string{"y", "z"}) })
	k, err = a.TryRLock(ctx, "book")
	hold("read", k, err, func() (*Lock, error) { return b.Lock(ctx, "book") })
	k, err = a.Semaphore("gpu", 1).TryAcquire(ctx)
	hold("permit", k, err, func() (*Lock, error) { return b.Semaphore("gpu", 1).Acquire(ctx) })
	if o.command == "set" {
		return
	}
	once, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	o.failed("once", a.Once(once, "once", func(context.Context, *Lock) error { return nil }))
	for _, name := range []string{"kept", "gone"} {
		k, err = a.TryLock(ctx, name)
		if err != nil {
			continue
		}
		time.Sleep(50 * time.Millisecond)
		ticket := must(k.Ticket())(t)
		if name == "gone" {
			_, _ = o.nodes[1].Do("DEL", name), o.nodes[2].Do("DEL", name)
		}
		if k, err = b.Adopt(ctx, ticket); name == "kept" {
			o.failed("adopt", err)
		}
		if err == nil {
			o.failed("unlock adopted", k.Unlock())
		}
	}
	if k, err = a.TryLock(ctx, "force"); err == nil {
		_, err = a.Inspect(ctx, "force")
		o.failed("inspect", err)
		for _, err := range a.List(ctx, "") {
			o.failed("list", err)
		}
		o.failed("force", a.ForceUnlock(ctx, "force", k.Owner()))
	}
}

// failed notes that something fails. The error must name a node and the command, if the reply is not late.
func (o *oddReplies) failed(what string, err error) bool {
	if err == nil {
		return false
	}
	named := false
	said := fmt.Sprintf("%+v", err)
	for line := range strings.Lines(said) {
		for _, n := range o.nodes[:o.some] {
			odd := strings.Contains(line, "unexpected reply") || strings.Contains(line, "INFO lacks")
			named = named || strings.Contains(line, n.Addr()) && (o.reply == "late" && strings.Contains(line, "answer") ||
				odd && strings.Contains(strings.ToLower(line), o.command))
		}
	}
	if !named {
		what += " UNTOLD"
	}
	o.note(what, said)
	return true
}

// note notes what is the case and the text that says so, which tells no more than it should.
func (o *oddReplies) note(what, text string) {
	for line := range strings.Lines(text) {
		if len(line) > 400 {
			what += " LONG"
		}
	}
	for _, never := range []string{"local ", "beginning with", "secret", "redigo"} {
		if strings.Contains(text, never) {
			what += " TELLS"
		}
	}
	bad := what != strings.ToLower(what)
	finding, late := strings.HasPrefix(what, "finding"), o.reply == "late"
	switch {
	case bad:
	case late && (finding || what == "leftovers"), o.some == 3 && (late || o.command == "enqueue"),
		what == "finding record" && o.command == "node":
		return // it depends on the moment
	}
	o.fails, o.said = append(o.fails, what), append(o.said, what+": "+text)
}
