package redlock

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/cases"
	"github.com/quorumlock/redlock/internal/guard"
	"github.com/quorumlock/redlock/internal/protocol"
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
	down := func(err error) error { return fmt.Errorf("%w: %w", ErrNodeDown, err) }
	lookup := func(dns *net.DNSError) error { return down(&net.OpError{Op: "dial", Err: dns}) }
	outcomes := map[string]string{
		"granted": outcomeGranted, "outbid": outcomeOutbid, "taken": outcomeTaken, "absent": outcomeAbsent,
		"abstained": outcomeAbstained, "late": outcomeLate, "unasked": outcomeUnasked,
	}
	errs := map[string]error{
		"down": down(errors.New("dial tcp: connection refused")), "silent": ErrNodeTimeout, "busy": errNodeBusy,
		"replica":    down(fmt.Errorf("%w: it is a replica of r9:1: use its master", guard.ErrRefused)),
		"wrong-pass": down(explained(redis.Error("WRONGPASS invalid username-password pair"), "")),
		"no-host":    lookup(&net.DNSError{Err: "no such host", Name: "r2", Server: "10.0.0.53:53", IsNotFound: true}),
		"no-dns":     lookup(&net.DNSError{Err: "server misbehaving", Name: "r5", Server: "10.0.0.53:53", IsTemporary: true}),
		"restarted":  &abstainError{reason: "restarted", until: time.Now(), remaining: 11500 * ms},
		"no-lock":    protocol.ErrNoLock,
	}
	ends := map[string]QuorumError{
		"-": {}, "deadline": {ctx: context.DeadlineExceeded}, "max": {ctx: ErrMaxWait},
		"late":             {detail: "a majority came too late"},
		"lost":             {ctx: fmt.Errorf("%w: %w", context.Canceled, failed("hold", "outer job", ErrLost))},
		"unasked canceled": {ctx: context.Canceled, detail: "behind other callers in this process"},
	}
	for at, cells := range cases.Rows(t, "testdata/quorum_error.txt", 5) {
		e := ends[cells[2]]
		e.reason = map[string]error{"taken": ErrTaken, "no quorum": ErrNoQuorum, "lost": ErrLost}[cells[1]]
		e.Op, e.Name, _ = strings.Cut(cells[0], " ")
		if name, err := strconv.Unquote(e.Name); err == nil {
			e.Name = name
		}
		for group := range strings.SplitSeq(cells[3], ";") {
			n, addrs := NodeError{Outcome: outcomeFailed}, []string(nil)
			for word := range strings.FieldsSeq(group) {
				key, arg, _ := strings.Cut(word, "=")
				switch n.Outcome, n.Err = cmp.Or(outcomes[key], n.Outcome), cmp.Or(n.Err, errs[key]); key {
				case "by":
					n.Owner, n.Label = "0190…", arg
				case "owner":
					n.Owner = arg
				case "left":
					n.Remaining = must(time.ParseDuration(arg))(t)
				case "name":
					n.Name = strings.ReplaceAll(arg, "_", " ")
				case "in":
					n.List = map[string]string{"old": inOldList, "new": inNewList, "both": inBothLists}[arg]
				default:
					if outcomes[key] == "" && errs[key] == nil {
						addrs = append(addrs, word)
					}
				}
			}
			for _, n.Addr = range addrs {
				e.Nodes = append(e.Nodes, n)
			}
		}
		want := "redlock: " + cells[0] + ": " + cells[4]
		equals(t, e.Error(), want, "%s", at)
		full := fmt.Sprintf("%+v", &e)
		if lines := strings.Split(full, "\n  "); lines[0] != want || len(lines) != 1+len(e.Nodes) {
			t.Errorf("%s in full: %s", at, full)
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
			r.Kind, r.nodes = protocol.Acquire, l.nodes
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
