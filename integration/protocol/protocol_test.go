// Package protocol_test proves that docs/protocol.md is enough: a client that was written from that page contends with
// Lockers on real masters.
package protocol_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock"
	"github.com/quorumlock/redlock/finding"
	"github.com/quorumlock/redlock/integration/fleet"
	"github.com/quorumlock/redlock/integration/masters"
)

func TestMain(m *testing.M) { fleet.Main(m) }

const (
	name = "stock:4711"
	soon = 30 * time.Second
)

// foreign returns a client whose settings are those of the fleet's Lockers, but for the TTL.
func foreign(t *testing.T, f fleet.Fleet, ttl time.Duration) *client {
	t.Helper()
	return start(t, f, config{ttl: ttl, retention: time.Minute, timeout: 5 * time.Second})
}

func start(t *testing.T, f fleet.Fleet, o config) *client {
	t.Helper()
	c := newClient(masters.URLs(f.Nodes), o)
	t.Cleanup(c.kill)
	return c
}

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// held is a hold, whoever has it.
type held struct {
	owner  string
	token  int64
	unlock func() error
}

// A contender locks the name that all want.
type contender func(context.Context) (held, error)

func byLocker(l *redlock.Locker) contender {
	return func(ctx context.Context) (held, error) {
		k, err := l.Lock(ctx, name)
		if err != nil {
			return held{}, err
		}
		return held{k.Owner(), k.Token(), func() error { return k.Unlock() }}, nil
	}
}

func (c *client) contend(ctx context.Context) (held, error) {
	h, err := c.lock(ctx, name)
	if err != nil {
		return held{}, err
	}
	return held{h.owner, h.token, h.unlock}, nil
}

func (c *client) contendByTrying(ctx context.Context) (held, error) {
	for ; ; time.Sleep(4 * time.Millisecond) {
		if h, err := c.tryLock(name); err == nil {
			return held{h.owner, h.token, h.unlock}, nil
		}
		if err := ctx.Err(); err != nil {
			return held{}, err
		}
	}
}

// Lockers and foreign clients take turns, some of them by trying. Nobody holds beside another, and each token is larger
// than the one before.
func TestTurns(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	const each = 100
	var holding atomic.Int32
	var last int64 // guarded by the lock
	turn := func(who string, token int64) {
		if holding.Add(1) != 1 {
			fleet.Unsafe(t, "%s holds the lock beside another", who)
		}
		if token <= last {
			fleet.Unsafe(t, "%s has token %d after %d", who, token, last)
		}
		last = token
		time.Sleep(time.Millisecond)
		holding.Add(-1)
	}
	var all sync.WaitGroup
	contend := func(who string, lock contender) {
		ctx := within(t, 4*soon)
		all.Go(func() {
			for n := range each {
				h, err := lock(ctx)
				if err != nil {
					t.Errorf("%s, turn %d: %v", who, n, err)
					return
				}
				turn(who, h.token)
				if err := h.unlock(); err != nil {
					t.Errorf("%s, unlock: %v", who, err)
				}
			}
		})
	}
	for _, behind := range []time.Duration{0, 500 * time.Millisecond} { // the second proposes what is too small, always
		contend("a Locker", byLocker(f.Locker(t)))
		c := foreign(t, f, 10*time.Second)
		c.behind = behind.Microseconds()
		contend("a foreign client", c.contend)
	}
	contend("one that tries", foreign(t, f, 10*time.Second).contendByTrying)
	all.Wait()
	f.WantClean(t)
}

// Without tokens, clients and Lockers exclude each other, too.
func TestPlainTurns(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	l, c := f.Locker(t, redlock.WithoutFencing()), foreign(t, f, 10*time.Second)
	var holding atomic.Int32
	var all sync.WaitGroup
	contend := func(try func() (unlock func() error, err error)) {
		ctx := within(t, 4*soon)
		all.Go(func() {
			for turns := 0; turns < 40; time.Sleep(time.Millisecond) {
				if ctx.Err() != nil {
					t.Errorf("only %d turns", turns)
					return
				}
				unlock, err := try()
				if err != nil {
					continue
				}
				turns++
				if holding.Add(1) != 1 {
					fleet.Unsafe(t, "two hold the lock")
				}
				holding.Add(-1)
				if err := unlock(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	contend(func() (func() error, error) {
		k, err := l.TryLock(t.Context(), name)
		return func() error { return k.Unlock() }, err
	})
	for range 2 {
		contend(func() (func() error, error) {
			h, err := c.tryPlain(name)
			if err == nil {
				err = h.extend()
			}
			return func() error { return h.unlock() }, err
		})
	}
	if all.Wait(); t.Failed() {
		return
	}
	f.WantClean(t)
}

// What another has on three of five nodes, a foreign client does not get, and it takes back what it got on the others.
// What another has on two, it gets.
func TestAForeignClientNeedsAMajority(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	c := foreign(t, f, fleet.Long)
	fleet.Put(t, name, "somebody", fleet.Long, f.Nodes[:3]...)
	if _, err := c.tryLock(name); err == nil {
		fleet.Unsafe(t, "got the lock on two of five nodes")
	}
	fleet.Eventually(t, "the attempt is undone", func() bool { return f.Holders(t, name, "") == 2 })
	if n := f.Holders(t, name, "somebody"); n != 3 {
		fleet.Unsafe(t, "the other has the lock on %d nodes, not on 3", n)
	}
	_, err := f.Nodes[0].Do("DEL", name)
	fleet.Must(t, err)
	h, err := c.tryLock(name)
	fleet.Must(t, err)
	fleet.Must(t, h.unlock())
}

// heldEverywhere waits until the holder has the lock on all nodes. A majority is enough for the holder, and where its
// request is late, whoever asks next is granted the lock and not queued.
func heldEverywhere(t *testing.T, f fleet.Fleet) {
	t.Helper()
	fleet.Eventually(t, "the lock is held on all nodes", func() bool {
		return !slices.ContainsFunc(f.Nodes, func(n *masters.Node) bool { return fleet.Holder(t, n, name) == "" })
	})
}

// queued waits until n wait on every node.
func queued(t *testing.T, f fleet.Fleet, n int) {
	t.Helper()
	fleet.Eventually(t, "all nodes have the waiters", func() bool {
		return !slices.ContainsFunc(f.Nodes, func(node *masters.Node) bool {
			waiting, err := redis.Int(node.Do("ZCARD", "redlock:wait:"+name))
			return err != nil || waiting != n
		})
	})
}

// What a Locker releases is handed to a foreign client that waits, and the reverse: it is not free in between.
func TestHandOvers(t *testing.T) {
	for what, who := range map[string]func(t *testing.T, f fleet.Fleet) (holder, waiter contender){
		"from a Locker": func(t *testing.T, f fleet.Fleet) (holder, waiter contender) {
			return byLocker(f.Locker(t, redlock.WithTTL(fleet.Long))), foreign(t, f, fleet.Long).contend
		},
		"to a Locker": func(t *testing.T, f fleet.Fleet) (holder, waiter contender) {
			return foreign(t, f, fleet.Long).contend, byLocker(f.Locker(t, redlock.WithTTL(fleet.Long)))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := fleet.Start(t, 5)
			holder, waiter := who(t, f)
			first, err := holder(t.Context())
			fleet.Must(t, err)
			heldEverywhere(t, f)
			ctx, got := within(t, soon), make(chan held, 1)
			go func() { // until it is sent
				h, err := waiter(ctx)
				if err != nil {
					t.Error(err)
				}
				got <- h
			}()
			queued(t, f, 1)
			fleet.Must(t, first.unlock())
			for _, n := range f.Nodes {
				if fleet.Holder(t, n, name) == "" {
					t.Errorf("%s: the lock is free although somebody waits", n.Addr())
				}
			}
			next := <-got
			if next.unlock == nil {
				t.FailNow()
			}
			if next.token <= first.token {
				fleet.Unsafe(t, "got token %d after %d", next.token, first.token)
			}
			if n := f.Holders(t, name, next.owner); n < 3 {
				fleet.Unsafe(t, "got the lock on %d nodes", n)
			}
			fleet.Must(t, next.unlock())
			f.WantClean(t)
		})
	}
}

// A foreign client that gives up leaves the queue.
func TestAForeignClientGivesUp(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	k, err := f.Locker(t, redlock.WithTTL(fleet.Long)).Lock(t.Context(), name)
	fleet.Must(t, err)
	heldEverywhere(t, f)
	c := foreign(t, f, fleet.Long)
	ctx, giveUp := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // until it is sent
		_, err := c.lock(ctx, name)
		ended <- err
	}()
	queued(t, f, 1)
	giveUp()
	if err := <-ended; err == nil {
		fleet.Unsafe(t, "got the lock that another holds")
	}
	queued(t, f, 0)
	fleet.Must(t, k.Unlock())
	f.WantClean(t)
}

// began returns the time in an owner, in ms.
func began(t *testing.T, owner string) int64 {
	t.Helper()
	ms, err := strconv.ParseInt(owner[:8]+owner[9:13], 16, 64)
	fleet.Must(t, err)
	return ms
}

// Where votes are split and an older owner has some, a foreign client gives its own back and comes again, under
// another owner and at the same place in the queues. When the others are gone, it gets the lock.
func TestAForeignClientGivesWay(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	fleet.Put(t, name, "00000000-0000-7000-8000-000000000001", fleet.Long, f.Nodes[0], f.Nodes[1])
	fleet.Put(t, name, "00000000-0000-7000-8000-000000000002", fleet.Long, f.Nodes[2])
	c, got := foreign(t, f, fleet.Long), make(chan *hold, 1)
	ctx := within(t, 4*soon)
	go func() { // until it is sent
		h, err := c.lock(ctx, name)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	var owners []string
	fleet.Eventually(t, "it has given votes back and come again", func() bool {
		if owner := fleet.Holder(t, f.Nodes[3], name); owner != "" && !slices.Contains(owners, owner) {
			owners = append(owners, owner)
		}
		return len(owners) > 1
	})
	if first, next := began(t, owners[0]), began(t, owners[1]); next < first || next > first+1 {
		t.Errorf("began to wait at %d ms, and then at %d ms: it has lost its place", first, next)
	}
	for _, n := range f.Nodes[:3] {
		_, err := n.Do("DEL", name)
		fleet.Must(t, err)
	}
	h := <-got
	if h == nil {
		t.FailNow()
	}
	fleet.Must(t, h.unlock())
	f.WantClean(t)
}

// A Locker sees who holds, and can take it away.
func TestALockerSeesAForeignHolder(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	c, l := foreign(t, f, fleet.Long), f.Locker(t)
	h, err := c.tryLock(name)
	fleet.Must(t, err)
	for _, n := range f.Nodes {
		_, err := n.Do("SET", "redlock:label:"+h.owner[19:28], "foreign/1", "PX", 120000)
		fleet.Must(t, err)
	}
	if _, err := l.TryLock(t.Context(), name); err == nil {
		fleet.Unsafe(t, "a Locker got the lock that a foreign client holds")
	}
	i, err := l.Inspect(t.Context(), name)
	fleet.Must(t, err)
	if i.Owner != h.owner || i.Token != h.token || i.Label != "foreign/1" {
		t.Errorf("got %s, token %d, label %q, want %s, %d, foreign/1", i.Owner, i.Token, i.Label, h.owner, h.token)
	}
	listed := 0
	for i, err := range l.List(t.Context(), "stock:") {
		fleet.Must(t, err)
		if listed++; i.Name != name || i.Owner != h.owner {
			t.Errorf("got %+v, want the lock of %s", i, h.owner)
		}
	}
	if listed != 1 {
		t.Errorf("got %d locks, want 1", listed)
	}
	fleet.Must(t, l.ForceUnlock(t.Context(), name, h.owner))
	if err := h.extend(); err != errLost { //nolint:errorlint // our own
		t.Errorf("extending what was taken away: got %v, want %v", err, errLost)
	}
	for _, n := range f.Nodes {
		if left := fleet.Holder(t, n, name); left != "" {
			fleet.Unsafe(t, "%s: %s has what was taken away", n.Addr(), left)
		}
	}
}

// An extension restores what a node has lost, and a release is confirmed.
func TestAForeignClientExtends(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	h, err := foreign(t, f, fleet.Long).tryLock(name)
	fleet.Must(t, err)
	for _, n := range f.Nodes[:2] {
		_, err := n.Do("DEL", name)
		fleet.Must(t, err)
	}
	begun := h.start
	fleet.Must(t, h.extend())
	if !h.start.After(begun) {
		t.Error("the validity has not begun anew")
	}
	fleet.Eventually(t, "all nodes have the lock again", func() bool { return f.Holders(t, name, h.owner) == 5 })
	fleet.Must(t, h.extend())
	fleet.Must(t, h.unlock())
	f.WantClean(t)
	for _, n := range f.Nodes {
		known, err := redis.String(n.Do("ZSCORE", tokensKey, name))
		if fleet.Must(t, err); known != h.tokenText()+".5" {
			t.Errorf("%s knows %s, want half a step above %d", n.Addr(), known, h.token)
		}
	}
	if h.extend() == nil { // as one that arrives late, over a connection that broke
		fleet.Unsafe(t, "extended after the release")
	}
	f.WantClean(t)
}

// A foreign client that is killed, while it holds and while it waits, is in nobody's way for longer than its TTL. Its
// place in a queue goes with the next release there: where its lock expired, there was none yet.
func TestAForeignClientIsKilled(t *testing.T) {
	t.Parallel()
	f := fleet.Start(t, 5)
	const ttl = 5 * time.Second // nobody is idle for so long before both are killed
	holder, waiter := foreign(t, f, ttl), foreign(t, f, ttl)
	h, err := holder.tryLock(name)
	fleet.Must(t, err)
	heldEverywhere(t, f)
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { // until it is sent
		_, err := waiter.lock(ctx, name)
		ended <- err
	}()
	queued(t, f, 1)
	waiter.kill()
	holder.kill()
	end()
	<-ended
	l := f.Locker(t)
	fleet.Eventually(t, "releases have left nothing", func() bool {
		k, err := l.Lock(within(t, soon), name)
		fleet.Must(t, err)
		if k.Token() <= h.token {
			fleet.Unsafe(t, "got token %d after %d", k.Token(), h.token)
		}
		fleet.Must(t, k.Unlock())
		return len(f.Leftovers(t)) == 0
	})
}

// Masters that have just been started grant a foreign client nothing. What it notices of them, a Locker learns.
func TestTheGuard(t *testing.T) {
	t.Parallel()
	f := fleet.StartSpec(t, 5, masters.Spec{})
	const long = time.Hour
	if _, err := start(t, f, config{time.Second, long, 3 * long, 5 * time.Second}).tryLock(name); err == nil {
		fleet.Unsafe(t, "got the lock from masters that have just been started")
	}
	f.WantClean(t)
	c := start(t, f, config{2 * time.Second, 4 * time.Second, time.Minute, 5 * time.Second})
	fleet.Eventually(t, "the masters vote", func() bool {
		h, err := c.tryLock(name)
		return err == nil && h.unlock() == nil
	})
	emptied := f.Nodes[1]
	_, err := emptied.Do("FLUSHALL")
	fleet.Must(t, err)
	for i, n := range c.nodes {
		n.probeSoon()
		fleet.Eventually(t, "the client has told its settings, and written a record", func() bool {
			known, err := redis.Int(f.Nodes[i].Do("EXISTS", "redlock:node", "redlock:settings"))
			return err == nil && known == 2
		})
	}
	l := f.Guarded(t, long)
	for i, s := range l.Status(t.Context()) {
		if noted := s.Err != nil && strings.Contains(s.Err.Error(), "as another client noted"); noted != (i == 1) {
			t.Errorf("node %d: got %v, noted by another client: want %v", i, s.Err, i == 1)
		}
		if !slices.ContainsFunc(s.Findings, func(f finding.Finding) bool { return f.Code == "settings" }) {
			t.Errorf("node %d: nobody says that the foreign client has another guard: %v", i, s.Findings)
		}
	}
}

var example = regexp.MustCompile("(?s)## A worked example.*?```text\n(.*?)```")

// The page's example is what a master really replies.
func TestTheWorkedExample(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/protocol.md")
	fleet.Must(t, err)
	text := example.FindSubmatch(page)
	if text == nil {
		t.Fatal("there is no example")
	}
	n := fleet.Start(t, 1).Nodes[0]
	conn, err := redis.DialURL(n.URL())
	fleet.Must(t, err)
	defer conn.Close()
	for _, s := range scripts {
		fleet.Must(t, s.Load(conn))
	}
	steps := strings.Split(strings.TrimPrefix(string(text[1]), "> "), "\n> ")
	if len(steps) < 9 {
		t.Fatalf("only %d steps", len(steps))
	}
	for _, step := range steps {
		command, want, _ := strings.Cut(strings.TrimSpace(step), "\n")
		words := strings.Fields(command)
		args := make([]any, len(words)-1)
		for i, w := range words[1:] {
			args[i] = strings.Trim(w, "'")
		}
		reply, err := n.Do(words[0], args...)
		fleet.Must(t, err)
		if got := shown(reply, ""); steady(got) != steady(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", command, got, want)
		}
	}
}

var remaining = regexp.MustCompile(`\(integer\) \d{4,5}\b`)

// steady replaces what is left of a TTL.
func steady(shown string) string { return remaining.ReplaceAllString(shown, "(integer) …") }

// shown writes a reply as redis-cli does.
func shown(reply any, indent string) string {
	switch v := reply.(type) {
	case int64:
		return fmt.Sprintf("(integer) %d", v)
	case []byte:
		return strconv.Quote(string(v))
	case string:
		return v
	case []any:
		var lines []string
		for i, e := range v {
			number := fmt.Sprintf("%d) ", i+1)
			line := number + shown(e, indent+strings.Repeat(" ", len(number)))
			if i > 0 {
				line = indent + line
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	return fmt.Sprintf("%v", reply)
}
