package redlock

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/redisconn"
)

// What a Locker's other calls hold is "this process", whatever its label: two processes may have one label.
func TestTakenByThisProcess(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a", WithOwnerLabel("worker")), fl.locker("b", WithOwnerLabel("worker"))
		_ = must(a.Lock(t.Context(), "job"))(t)
		settleNetwork()
		for l, want := range map[*Locker]string{a: "taken by this process, ", b: "taken by worker, "} {
			failsSaying(t, errOf(l.TryLock(t.Context(), "job")), ErrTaken, want)
		}
	})
}

// The text of a QuorumError is one short line.
func TestQuorumErrorInOneLine(t *testing.T) {
	taken := func(by string, left time.Duration, at ...string) (nodes []NodeError) {
		for _, addr := range at {
			nodes = append(nodes, NodeError{Addr: addr, Outcome: outcomeTaken, Owner: "0190…", Label: by, Remaining: left})
		}
		return nodes
	}
	bad := func(err error, at ...string) (nodes []NodeError) {
		for _, addr := range at {
			nodes = append(nodes, NodeError{Addr: addr, Outcome: outcomeFailed, Err: err})
		}
		return nodes
	}
	plain := func(outcome string, at ...string) (nodes []NodeError) {
		for _, addr := range at {
			nodes = append(nodes, NodeError{Addr: addr, Outcome: outcome})
		}
		return nodes
	}
	join := func(parts ...[]NodeError) (nodes []NodeError) {
		for _, part := range parts {
			nodes = append(nodes, part...)
		}
		return nodes
	}
	down := fmt.Errorf("%w: %w", ErrNodeDown, errors.New("dial tcp: connection refused"))
	replica := fmt.Errorf("%w: %w: it is a replica of r9:1: use its master", ErrNodeDown, guard.ErrRefused)
	wrongPass := fmt.Errorf("%w: %w", ErrNodeDown, explained(redis.Error("WRONGPASS invalid username-password pair"), ""))
	unknown := func(dns *net.DNSError) error {
		return fmt.Errorf("%w: %w", ErrNodeDown, &net.OpError{Op: "dial", Err: dns})
	}
	noHost := unknown(&net.DNSError{Err: "no such host", Name: "r2", Server: "10.0.0.53:53", IsNotFound: true})
	noDNS := unknown(&net.DNSError{Err: "server misbehaving", Name: "r5", Server: "10.0.0.53:53", IsTemporary: true})
	restarted := &abstainError{reason: "restarted", until: time.Now(), remaining: 11500 * ms}
	lost := fmt.Errorf("%w: %w", context.Canceled, failed("hold", "outer job", ErrLost))
	for _, c := range []struct {
		e    QuorumError
		want string
	}{
		{
			QuorumError{Name: "stock:4711", reason: ErrTaken, Nodes: join(
				taken("web-3/812", 4100*ms, "r1", "r2"), taken("web-3/812", 3*time.Second, "r3"), plain(outcomeLate, "r4", "r5"))},
			"redlock: lock stock:4711: taken by web-3/812, 4.1 s left (3 of 5)",
		},
		{
			QuorumError{Name: "x", reason: ErrTaken, ctx: context.DeadlineExceeded, Nodes: join(
				taken("b", 0, "r1"), taken("a", 250*ms, "r2", "r3"))},
			"redlock: lock x: taken by a, 250 ms left (2 of 3), votes for b (1 of 3); context deadline exceeded",
		},
		{ // with both lists: b may hold the lock, with the new list alone; a and c have no majority of either
			QuorumError{Name: "x", reason: ErrTaken, Nodes: []NodeError{
				{Addr: "r1", List: inOldList, Outcome: outcomeTaken, Owner: "a", Remaining: time.Second},
				{Addr: "r2", List: inBothLists, Outcome: outcomeTaken, Owner: "a", Remaining: time.Second},
				{Addr: "r3", List: inOldList, Outcome: outcomeTaken, Owner: "c"},
				{Addr: "r4", List: inOldList, Outcome: outcomeGranted},
				{Addr: "r5", List: inOldList, Outcome: outcomeGranted},
				{Addr: "r6", List: inNewList, Outcome: outcomeTaken, Owner: "b"},
				{Addr: "r7", List: inNewList, Outcome: outcomeTaken, Owner: "b"},
			}},
			"redlock: lock x: taken by b (2 of 7), votes for a (2 of 7), votes for c (1 of 7)",
		},
		{
			QuorumError{Name: "x", reason: ErrTaken, Nodes: join(
				taken("a", time.Second, "r1", "r2"), taken("b", 0, "r3"), plain(outcomeLate, "r4"), plain(outcomeGranted, "r5"))},
			"redlock: lock x: taken by a, 1.0 s left (2 of 5), votes for b (1 of 5)",
		},
		{
			QuorumError{Name: "x", reason: ErrTaken, Nodes: join(
				taken("a", 0, "r1"), taken("b", 0, "r2"), taken("c", 0, "r3"), taken("d", 0, "r4"), taken("e", 0, "r5"))},
			"redlock: lock x: taken: votes for a (1 of 5), votes for b (1 of 5), votes for c (1 of 5), and 2 more",
		},
		{
			QuorumError{Name: "x", reason: ErrTaken, Nodes: []NodeError{
				{Addr: "r1", Outcome: outcomeTaken}, {Addr: "r2", Outcome: outcomeTaken, Owner: "readers"},
			}},
			"redlock: lock x: taken (1 of 2), by readers (1 of 2)",
		},
		{
			QuorumError{Name: "a, b", reason: ErrTaken, Nodes: []NodeError{
				{Addr: "r1", Outcome: outcomeTaken, Name: "a", Label: "w"}, {Addr: "r2", Outcome: outcomeTaken, Name: "b c"},
			}},
			"redlock: lock a, b: taken: a by w (1 of 2), b c (1 of 2)",
		},
		{
			QuorumError{Name: "list", reason: ErrTaken, Nodes: []NodeError{{Addr: "r1", Outcome: outcomeTaken, Err: errNoLock}}},
			"redlock: lock list: taken: the key is not a string, so it is not a lock (1 of 1)",
		},
		{
			QuorumError{Op: "adopt", Name: "x", reason: ErrTaken, Nodes: plain(outcomeAbsent, "r1", "r2", "r3")},
			"redlock: adopt x: taken: 3 of 3 do not have it",
		},
		{
			QuorumError{
				Name: "x", reason: ErrTaken, detail: "behind other callers in this process",
				ctx: context.Canceled, Nodes: plain(outcomeUnasked, "r1"),
			},
			"redlock: lock x: taken: behind other callers in this process; context canceled",
		},
		{
			QuorumError{Op: "extend", Name: "x", reason: ErrLost, Nodes: join(plain(outcomeAbsent, "r1"), taken("", 0, "r2"),
				plain(outcomeGranted, "r3"))},
			"redlock: extend x: lost: 2 of 3 do not have it",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: join(plain(outcomeGranted, "r1", "r2"), bad(down, "r3:6379"),
				bad(ErrNodeTimeout, "r4"), bad(errNodeBusy, "r5"))},
			"redlock: lock x: no quorum: 2 of 5 voted, r3:6379 unreachable, r4 silent, r5 busy",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: join(bad(down, "r1", "r3"), bad(noHost, "r2", "r4"),
				bad(noDNS, "r5"))},
			"redlock: lock x: no quorum: 0 of 5 voted, r1 r3 unreachable, r2 r4 unreachable: no such host, " +
				"r5 unreachable: lookup: server misbehaving",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: join(bad(down, "r1", "r2"), plain(outcomeLate, "r3"))},
			"redlock: lock x: no quorum: 1 of 3 can vote, r1 r2 unreachable",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, ctx: ErrMaxWait, Need: 3, Nodes: join(
				bad(down, "r1", "r2"), bad(ErrNodeTimeout, "r3"), plain(outcomeLate, "r4", "r5"))},
			"redlock: lock x: no quorum: 2 of 5 can vote, r1 r2 unreachable, r3 silent; waited for the longest time allowed",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: join(
				bad(down, "r1", "r2"), []NodeError{{Addr: "r3", Outcome: outcomeLate, Err: restarted}})},
			"redlock: lock x: no quorum: 0 of 3 voted, r1 r2 unreachable, r3 abstaining for 12 s",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: join(bad(down, "r1"), plain(outcomeLate, "r2", "r3"))},
			"redlock: lock x: no quorum: 0 of 3 voted, r1 unreachable",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, ctx: lost, Nodes: join(bad(down, "r1"), plain(outcomeLate, "r2", "r3"))},
			"redlock: lock x: no quorum: 0 of 3 voted, r1 unreachable, r2 r3 no answer yet; " +
				"context canceled: hold outer job: lost",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: join(
				plain(outcomeGranted, "r1", "r2"), taken("a", time.Second, "r3", "r4"),
				[]NodeError{{Addr: "r5", Outcome: outcomeAbstained, Err: restarted}})},
			"redlock: lock x: no quorum: 2 of 5 granted it, taken by a, 1.0 s left (2 of 5), r5 abstaining for 12 s",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: join(
				plain(outcomeGranted, "r1", "r2"), taken("a", 0, "r3"), taken("b", 0, "r4"), bad(down, "r5"))},
			"redlock: lock x: no quorum: 2 of 5 granted it, votes for a (1 of 5), votes for b (1 of 5), r5 unreachable",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: bad(replica, "r1", "r2")},
			"redlock: lock x: no quorum: 0 of 2 voted, r1 r2 refused: it is a replica of r9:1: use its master",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, Nodes: join(bad(replica, "r1"), bad(wrongPass, "r2"))},
			"redlock: lock x: no quorum: 0 of 2 voted, r1 refused, r2 WRONGPASS",
		},
		{
			QuorumError{Name: "x", reason: ErrNoQuorum, detail: "a majority came too late", Nodes: plain(outcomeGranted, "r1")},
			"redlock: lock x: no quorum: 1 of 1 voted; a majority came too late",
		},
		{
			QuorumError{Name: "two\nlines", reason: ErrTaken, Nodes: taken("a", 0, "r1")},
			`redlock: lock "two\nlines": taken by a (1 of 1)`,
		},
	} {
		if c.e.Op == "" {
			c.e.Op = "lock"
		}
		if got := c.e.Error(); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
		full := fmt.Sprintf("%+v", &c.e)
		if lines := strings.Split(full, "\n  "); lines[0] != c.want || len(lines) != 1+len(c.e.Nodes) {
			t.Errorf("in full: %s", full)
		}
	}
}

// With %+v, and in a log, each node has a line of its own.
func TestQuorumErrorInFull(t *testing.T) {
	e := &QuorumError{Op: "lock", Name: "x", reason: ErrTaken, Nodes: []NodeError{
		{Addr: "r1:1", Outcome: outcomeTaken, Owner: "0190", Label: "web-3/812", Remaining: 4100 * ms},
		{Addr: "r2:1", Outcome: outcomeFailed, Err: fmt.Errorf("%w: %w", ErrNodeDown, errors.New("refused"))},
		{Addr: "r3:1", Outcome: outcomeLate},
	}}
	const want = "redlock: lock x: taken by web-3/812, 4.1 s left (1 of 3)\n" +
		"  r1:1 taken by web-3/812 (0190), 4.1 s left\n  r2:1 failed: not connected: refused\n  r3:1 no answer yet"
	equals(t, fmt.Sprintf("%+v", e), want, "in full")
	equals(t, fmt.Sprintf("%s|%v|%q", e, e, e), e.Error()+"|"+e.Error()+`|"`+e.Error()+`"`, "in one line")
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("no", "error", e)
	const logged = `"error":{"text":"redlock: lock x: taken by web-3/812, 4.1 s left (1 of 3)","nodes":[` +
		`"r1:1 taken by web-3/812 (0190), 4.1 s left","r2:1 failed: not connected: refused","r3:1 no answer yet"]}`
	if !strings.Contains(log.String(), logged) {
		t.Errorf("%s\nlacks %s", log.String(), logged)
	}
}

// A Lock in a text or a log shows no internals, and not the owner.
func TestALockInWords(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		k := must(fl.locker("a").Lock(t.Context(), "stock:4711"))(t)
		var log bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&log, nil))
		logger.Info("held", "lock", k)
		text := fmt.Sprintf("%v %+v %s", k, k, k)
		want := fmt.Sprintf("stock:4711, token %d, until %s", k.Token(), k.Deadline().Format("15:04:05.000"))
		equals(t, text, want+" "+want+" "+want, "three times")
		succeeds(t, k.Unlock())
		equals(t, k.String(), fmt.Sprintf("stock:4711, token %d, unlocked", k.Token()), "text")
		logger.Info("ended", "lock", k)
		token := fmt.Sprintf("lock.token=%d", k.Token())
		for _, part := range []string{"lock.name=stock:4711", token, "lock.until=", "lock.ended=unlocked"} {
			if !strings.Contains(log.String(), part) {
				t.Errorf("%s\nlacks %s", log.String(), part)
			}
		}
		if strings.Contains(log.String()+text, k.Owner()) {
			t.Error("the owner is shown")
		}
	})
}

// Refusals, Inspect and its readers show who the holder is.
func TestLabels(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a", WithOwnerLabel("web-3/812")), fl.locker("b", WithOwnerLabel(""))
		k := must(a.Lock(t.Context(), "job"))(t)
		wants := func(err error, who string) {
			t.Helper()
			var q *QuorumError
			if !errors.As(err, &q) || !errors.Is(err, ErrTaken) || !strings.Contains(err.Error(), "taken"+who+" (") &&
				!strings.Contains(err.Error(), "taken"+who+", ") {
				t.Errorf("got %v, want taken%s", err, who)
			}
		}
		_, err := b.TryLock(t.Context(), "job")
		wants(err, " by web-3/812")
		ctx := expiring(t, time.Second)
		_, err = b.Lock(ctx, "job")
		wants(err, " by web-3/812")
		_, err = b.TryLockAll(t.Context(), []string{"job", "other"})
		wants(err, ": job by web-3/812")
		_, err = b.TryLock(t.Context(), "job", WithoutFencing())
		wants(err, "") // SET does not say who has it
		i := must(b.Inspect(t.Context(), "job"))(t)
		if i.Label != "web-3/812" || i.Nodes[0].Label != "web-3/812" || i.Owner != k.Owner() {
			t.Errorf("got %+v", i)
		}
		ticket := must(k.Ticket())(t)
		adopted := must(b.Adopt(t.Context(), ticket))(t)
		_, err = a.TryLock(t.Context(), "job")
		wants(err, " by "+adopted.Owner()) // b has no label
		succeeds(t, adopted.Unlock())

		reader := must(a.RLock(t.Context(), "doc"))(t)
		i = must(b.Inspect(t.Context(), "doc"))(t)
		if len(i.Readers) != 1 || i.Readers[0] != reader.Owner() || i.ReaderLabels[0] != "web-3/812" {
			t.Errorf("readers: got %+v", i)
		}
		_, err = b.TryLock(t.Context(), "doc")
		wants(err, " by readers")
	})
}

// labelKey returns the key of the label of a hold's Locker.
func labelKey(k *Lock) string { return ownNames + "label:" + k.Owner()[19:28] }

// A label stays as long as its Locker is there, and outlives a lock of a Locker that has crashed, but not by much.
func TestLabelsAreKeptAndGo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a", WithOwnerLabel("web-3/812")), fl.locker("b", WithOwnerLabel(""))
		label := func() string {
			t.Helper()
			return must(b.Inspect(t.Context(), "job"))(t).Label
		}
		k := must(a.Lock(t.Context(), "job", WithTTL(30*time.Second)))(t)
		defer runtime.KeepAlive(k) // or it would not be renewed
		for range 10 {
			time.Sleep(time.Minute)
			equals(t, label(), "web-3/812", "while its Locker is there")
		}
		fl.nodes.do("DEL", labelKey(k))
		time.Sleep(time.Minute)
		equals(t, label(), "web-3/812", "after it was deleted")
		_ = a.Close() // which leaves the lock, as a crash does
		time.Sleep(19 * time.Second)
		equals(t, label(), "web-3/812", "as long as the lock")
		time.Sleep(2 * time.Minute)
		equals[any](t, fl.nodes[0].Do("EXISTS", labelKey(k)), int64(0), "the label stays")
	})
}

func TestLabelsAreChecked(t *testing.T) {
	_, err := New([]string{"redis://127.0.0.1:1"}, WithOwnerLabel("a\nb"))
	failsSaying(t, err, ErrInvalid, "cannot be printed")
}

// What somebody else has written under a label's key, or as an owner, garbles no terminal and no log.
func TestForeignLabelsAreHarmless(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		a, b := fl.locker("a"), fl.locker("b")
		k := must(a.Lock(t.Context(), "job"))(t)
		key := labelKey(k)
		for _, write := range [][]any{
			{"SET", key, "red\x1b[31m\nlock lost"}, {"SET", key, strings.Repeat("x", 1000)}, {"DEL", key}, {"LPUSH", key, "x"},
		} {
			fl.nodes.do(write...)
			_, err := b.TryLock(t.Context(), "job")
			if !errors.Is(err, ErrTaken) || !strings.HasPrefix(err.Error(), "redlock: lock job: taken by "+k.Owner()+", ") {
				t.Errorf("%q: got %v", write, err)
			}
			if i, err := b.Inspect(t.Context(), "job"); err != nil || i.Label != "" || i.Owner != k.Owner() {
				t.Errorf("%q: got %+v, %v", write, i, err)
			}
		}
		fl.nodes.do("SET", "other", "two\nlines", "PX", 5000)
		_, err := b.TryLock(t.Context(), "other")
		if text := err.Error(); !strings.HasPrefix(text, `redlock: lock other: taken by "two\nlines", `) {
			t.Errorf("got %s", text)
		}
		fl.nodes.do("SET", "long", strings.Repeat("x", 1<<16), "PX", 5000)
		if _, err := b.TryLock(t.Context(), "long"); len(err.Error()) > 1200 || !says(err, "xx…, ") {
			t.Errorf("got %d bytes: %v", len(err.Error()), err)
		}
	})
	zero := new(QuorumError)
	if text := fmt.Sprintf("%v %+v %v", zero, zero, zero.LogValue()); !errors.Is(zero, ErrNoQuorum) || text == "" {
		t.Errorf("got %s", text)
	}
}

// A failure is this process's where a majority may have refused if the process had not been late.
func TestWhoseFailureIsIt(t *testing.T) {
	bubble(t, 5, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		for _, c := range []struct {
			nodes string // each node's vote: taken, late, busy, silent, unanswered
			late  bool
		}{
			{"LLL..", true},
			{"LBL..", true},
			{"TLSS.", true},
			{"TTLSS", true},
			{"TLSSS", false},
			{"SSS..", false},
			{"TTS..", true}, // it is certain that the lock is not to be had, but not why
			{"TTSS.", true},
			{"T....", true},
			{"TTSSS", false},
			{"TTT..", false}, // a majority did refuse
		} {
			r := l.rounds.Get().(*round)
			r.command, r.nodes = acquire, l.nodes
			r.poll.Begin()
			for i, vote := range c.nodes {
				err, said := map[rune]error{
					'L': redisconn.ErrLate, 'B': errNodeBusy, 'S': ErrNodeTimeout, 'T': nil,
				}[vote]
				switch {
				case !said:
					continue
				case err == nil:
					r.poll.Cast(i, quorum.Answer{Vote: quorum.Taken})
				default:
					r.poll.Cast(i, quorum.Answer{Vote: quorum.Failed, Err: err})
				}
			}
			equals(t, r.failure("lock", "job", ErrTaken, r.poll.SoFar(), nil).late, c.late, "%s: late", c.nodes)
		}
	})
}
