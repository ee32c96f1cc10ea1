package redlock

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/quorum"
)

// Locks that are acquired in one batch have each their own TTL.
func TestLocksInOneBatchKeepTheirOwnTTL(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		const n = 50
		ttl := func(i int) time.Duration { return time.Duration(10+i%3) * time.Second }
		before := fl.nodes[0].Calls("evalsha")
		together(n, func(i int) { succeeds(t, errOf(l.TryLock(t.Context(), fmt.Sprint(i), WithTTL(ttl(i))))) })
		if calls := fl.nodes[0].Calls("evalsha") - before; calls == n {
			t.Error("no two locks were acquired in one batch: this proves nothing")
		}
		for i := range n {
			left, _ := fl.nodes[0].Do("PTTL", fmt.Sprint(i)).(int64)
			between(t, ttl(i)-time.Duration(left)*ms, 0, 500*ms, "what lock %d has no more of its TTL", i)
		}
	})
}

// Of the locks that are released in one batch, only those that were extended leave a larger token behind.
func TestReleasesInOneBatchLeaveTheirOwnTokens(t *testing.T) {
	bubble(t, 1, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		const n = 50
		var held []*Lock
		for i := range n {
			k := must(l.TryLock(t.Context(), fmt.Sprint(i)))(t)
			if i%3 == 1 {
				succeeds(t, k.Extend(t.Context()))
			}
			held = append(held, k)
		}
		before := fl.nodes[0].Calls("evalsha")
		together(len(held), func(i int) { succeeds(t, held[i].Unlock()) })
		if calls := fl.nodes[0].Calls("evalsha") - before; calls == n {
			t.Error("no two locks were released in one batch: this proves nothing")
		}
		for i, k := range held {
			want := fmt.Sprint(k.Token())
			if i%3 == 1 {
				want += ".5"
			}
			equals[any](t, fl.nodes[0].Do("ZSCORE", tokensName, fmt.Sprint(i)), want, "the token of lock %d", i)
		}
	})
}

// The value of a key that is no lock may be large. Nodes return it as the owner of the holder, and that must not end
// the connection.
func TestALargeForeignValueDoesNotEndTheConnection(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		fl.nodes.do("SET", "cache", long)
		for range 3 {
			fails(t, errOf(l.TryLock(t.Context(), "cache")), ErrTaken, "the name of the large key")
			succeeds(t, must(l.TryLock(t.Context(), "another"))(t).Unlock())
		}
	})
}

// Surveys of many large semaphores in one batch have the longest reply of all.
func TestManySurveysInOneReply(t *testing.T) {
	bubble(t, 3, func(t *testing.T, fl *fleet) {
		l := fl.locker("a")
		var all sync.WaitGroup
		for i := range sized(64, 16) {
			s := l.Semaphore(fmt.Sprint("s", i), 1000)
			s.slots.Contend(time.Now().Add(time.Hour)) // so that it begins with a survey
			all.Go(func() { succeeds(t, errOf(s.TryAcquire(t.Context()))) })
		}
		all.Wait()
	})
}

// Any reply of a node yields an answer, and a reply that is nil or an error never yields a grant.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{
		":1\r\n", ":3\r\n", ":0\r\n", "+OK\r\n", "$-1\r\n", "*1\r\n*1\r\n:1\r\n",
		"*1\r\n*2\r\n:2\r\n$16\r\n1766620800172208\r\n",
		"*1\r\n*3\r\n:0\r\n$5\r\nowner\r\n:250\r\n", "*1\r\n*4\r\n:0\r\n$5\r\nowner\r\n:-1\r\n:7\r\n",
		"*1\r\n*3\r\n:0\r\n$0\r\n\r\n:-2\r\n",
		"*3\r\n:1\r\n:2\r\n:0\r\n", "-NOSCRIPT No matching script\r\n", "-MISCONF x\r\n",
		"*2\r\n$10\r\n1766620800\r\n$6\r\n172208\r\n",
		"*1\r\n*2\r\n:2\r\n$5\r\n1e300\r\n", "*1\r\n*2\r\n:2\r\n$3\r\nnan\r\n", "*-1\r\n", "*1\r\n*0\r\n", "$3\r\nabc\r\n",
	} {
		for which := range uint8(15) {
			f.Add(seed, which)
		}
	}
	f.Fuzz(func(t *testing.T, wire string, which uint8) {
		all := []*command{
			acquirePlain, acquire, raise, extend, adopt, revert, release, acquireAll, enqueue, read, keepReading, stopReading,
			surveySlots, inspect, once,
		}
		k := all[int(which)%len(all)]
		if regexp.MustCompile(`[*$]\+?\d{5}`).MatchString(wire) {
			return // package redisconn limits announced lengths; redigo, which reads here, does not
		}
		ours, node := net.Pipe()
		go func() {
			_, _ = node.Write([]byte(wire))
			_ = node.Close()
		}()
		reply, err := redis.NewConn(ours, 0, 0).Receive()
		_ = ours.Close()
		var refusal redis.Error
		if err != nil && !errors.As(err, &refusal) {
			return // the connection is closed
		}
		if list, isList := reply.([]any); k.Script != nil && err == nil && (!isList || len(list) == 0) {
			return // package redisconn accepts only a list with an element for each key
		}
		q := &request{command: k}
		switch a := q.read(reply, err); {
		case a.Vote >= quorum.VoteKinds:
			t.Errorf("command %d, %q: vote %d", which, wire, a.Vote)
		case a.Vote == quorum.Failed && a.Err == nil:
			t.Errorf("command %d, %q: failed without a reason", which, wire)
		case a.Vote == quorum.Granted && (err != nil || reply == nil):
			t.Errorf("command %d, %q: granted", which, wire)
		case a.Vote == quorum.Outbid && (a.Token < 0 || a.Token >= 1<<53):
			t.Errorf("command %d, %q: outbid by %d, which is no token", which, wire, a.Token)
		}
	})
}

// Whatever a node replies, no reader panics, takes for a grant what is none, or shows more than the beginning.
func TestNoOddReplyIsAGrant(t *testing.T) {
	number, text, list := int64(1), []byte(strings.Repeat("7", 1000)), []any{int64(1)}
	few := []any{nil, number, int64(2), []byte("7"), list}
	more := append(few, int64(-1), int64(0), int64(3), int64(4), int64(5), "OK", []byte(nil), text, []any{})
	lists := [][]any{{}}
	replies := slices.Clone(more)
	for n := range sized(5, 3) {
		var longer [][]any
		for _, l := range lists {
			for _, last := range [...][]any{more, few, few}[n/2] {
				longer = append(longer, append(slices.Clip(l), last))
			}
		}
		for lists = longer; len(longer) > 0; longer = longer[1:] {
			replies = append(replies, longer[0])
		}
	}
	codes := map[*command][]any{
		acquirePlain: {"OK"}, extend: {number}, keepReading: {number}, release: {number, int64(0)},
		stopReading: {number, int64(0)}, once: {number}, revoke: {number, int64(0)},
	}
	sevens := func(token any) bool {
		text, _ := token.([]byte)
		return len(text) > 0 && strings.Trim(string(text), "7") == ""
	}
	for _, k := range []*command{
		acquirePlain, acquire, raise, extend, release, adopt, acquireAll, enqueue, read, keepReading, stopReading, once,
		revoke, inspect, surveySlots, revert,
	} {
		q := &request{command: k}
		q.Hashes = q.hash[:]
		granted := 0
		for _, reply := range replies {
			whole := reply
			if k.Script != nil {
				whole = []any{reply}
			}
			a := q.read(whole, nil)
			l, _ := reply.([]any)
			_, place := at(l, len(l)-1).(int64)
			ok := slices.ContainsFunc(codes[k], func(code any) bool { return reflect.DeepEqual(reply, code) })
			switch {
			case k == surveySlots:
				ok = len(l) > 0 && !slices.ContainsFunc(l, func(v any) bool { _, is := v.(int64); return !is })
			case codes[k] == nil && k.read != nil && k != inspect:
				ok = at(l, 0) == any(number) && (len(l) == 1 || len(l) == 2 && place) ||
					k != read && at(l, 0) == any(int64(2)) && sevens(at(l, 1)) && (len(l) == 2 || len(l) == 3 && place)
			}
			if is := a.Vote == quorum.Granted || a.Vote == quorum.Outbid; is != ok {
				t.Fatalf("%s: %v is a grant: %t", k.name(), reply, is)
			} else if is {
				granted++
			}
			if a.Vote != quorum.Failed || errors.Is(a.Err, errNoLock) || errors.Is(a.Err, errStale) {
				continue
			}
			if said := a.Err.Error(); !strings.Contains(said, "unexpected reply") || len(said) > 150 {
				t.Fatalf("%s: %v: %v", k.name(), reply, a.Err)
			}
		}
		counted, tells := q.read(nil, nil).Vote == quorum.Granted, k == inspect || k == surveySlots
		if k.Script != nil && counted == tells {
			t.Errorf("%s: a count is a grant: %t", k.name(), counted)
		}
		if (granted == 0) != (k == inspect || k == revert) {
			t.Errorf("%s: %d grants of %d replies", k.name(), granted, len(replies))
		}
	}
}

func at(l []any, i int) any {
	if i < 0 || i >= len(l) {
		return nil
	}
	return l[i]
}
