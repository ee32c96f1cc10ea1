package protocol

import (
	"errors"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/quorumlock/redlock/internal/quorum"
)

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
		all := []*Command{
			AcquirePlain, Acquire, Raise, Extend, Adopt, Revert, Release, AcquireAll, Enqueue, Read, KeepReading, StopReading,
			Survey, Inspect, Once,
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
		if err != nil {
			return // its caller reads errors
		}
		if list, isList := reply.([]any); k.Script != nil && (!isList || len(list) == 0) {
			return // package redisconn accepts only a list with an element for each key
		}
		q := &Request{Kind: k}
		switch a := q.Read(reply); {
		case a.Vote >= quorum.VoteKinds:
			t.Errorf("command %d, %q: vote %d", which, wire, a.Vote)
		case a.Vote == quorum.Failed && a.Err == nil:
			t.Errorf("command %d, %q: failed without a reason", which, wire)
		case a.Vote == quorum.Granted && reply == nil:
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
	for n := range 5 {
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
	codes := map[*Command][]any{
		AcquirePlain: {"OK"}, Extend: {number}, KeepReading: {number}, Release: {number, int64(0)},
		StopReading: {number, int64(0)}, Once: {number}, Revoke: {number, int64(0)},
	}
	sevens := func(token any) bool {
		text, _ := token.([]byte)
		return len(text) > 0 && strings.Trim(string(text), "7") == ""
	}
	for _, k := range []*Command{
		AcquirePlain, Acquire, Raise, Extend, Release, Adopt, AcquireAll, Enqueue, Read, KeepReading, StopReading, Once,
		Revoke, Inspect, Survey, Revert,
	} {
		q := &Request{Kind: k}
		q.Hashes = q.hash[:]
		granted := 0
		for _, reply := range replies {
			whole := reply
			if k.Script != nil {
				whole = []any{reply}
			}
			a := q.Read(whole)
			l, _ := reply.([]any)
			_, place := at(l, len(l)-1).(int64)
			ok := slices.ContainsFunc(codes[k], func(code any) bool { return reflect.DeepEqual(reply, code) })
			switch {
			case k == Survey:
				ok = len(l) > 0 && !slices.ContainsFunc(l, func(v any) bool { _, is := v.(int64); return !is })
			case codes[k] == nil && k.read != nil && k != Inspect:
				ok = at(l, 0) == any(number) && (len(l) == 1 || len(l) == 2 && place) ||
					k != Read && at(l, 0) == any(int64(2)) && sevens(at(l, 1)) && (len(l) == 2 || len(l) == 3 && place)
			}
			if is := a.Vote == quorum.Granted || a.Vote == quorum.Outbid; is != ok {
				t.Fatalf("%s: %v is a grant: %t", k.Name(), reply, is)
			} else if is {
				granted++
			}
			if a.Vote != quorum.Failed || errors.Is(a.Err, ErrNoLock) || errors.Is(a.Err, ErrStale) {
				continue
			}
			if said := a.Err.Error(); !strings.Contains(said, "unexpected reply") || len(said) > 150 {
				t.Fatalf("%s: %v: %v", k.Name(), reply, a.Err)
			}
		}
		counted, tells := q.Read(nil).Vote == quorum.Granted, k == Inspect || k == Survey
		if k.Script != nil && counted == tells {
			t.Errorf("%s: a count is a grant: %t", k.Name(), counted)
		}
		if (granted == 0) != (k == Inspect || k == Revert) {
			t.Errorf("%s: %d grants of %d replies", k.Name(), granted, len(replies))
		}
	}
}

func at(l []any, i int) any {
	if i < 0 || i >= len(l) {
		return nil
	}
	return l[i]
}
