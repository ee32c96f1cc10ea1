package protocol

import (
	"errors"
	"time"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/token"
)

// Why a node's answer is no grant, where its vote alone does not say it.
var (
	ErrNoLock = errors.New("the key is not a string, so it is not a lock")
	ErrNoTTL  = errors.New("the key has no TTL, so no lock has set it: delete it, or call ForceUnlock")
	ErrStale  = errors.New("the entry arrived after its end, by the node's clock")
	// ErrRevoked is also a waiter's cue to draw another owner.
	ErrRevoked = errors.New("an administrator has taken it from this owner: see ForceUnlock")

	errOutbidAgain = errors.New("it knows a larger token than it told a moment before")
)

var (
	granted = quorum.Answer{Vote: quorum.Granted}
	absent  = quorum.Answer{Vote: quorum.Absent}
	taken   = quorum.Answer{Vote: quorum.Taken}
	// again: the node has the key again but did not have it all the time, so this is no vote.
	again = quorum.Answer{Vote: quorum.Absent}
	// badReply is what a reader returns for a reply that is not of its command's kind.
	badReply = quorum.Answer{Vote: quorum.Failed}
)

// The readers of replies that are numbers from 0.
var (
	readExtend  = numbered(taken, granted, again, quorum.Answer{Vote: quorum.Taken, Err: ErrRevoked})
	readRelease = numbered(granted, granted, taken) // 0: gone before, 1: released
	readOnce    = numbered(taken, granted, absent, quorum.Answer{Vote: quorum.Failed, Err: ErrStale})
	readRevoke  = numbered(granted, granted) // either way the node does not have the lock under that owner
)

var (
	readShared    = unlessOutbid(badReply) // a reader has no token that a larger one could be known beside
	readLastRaise = unlessOutbid(quorum.Answer{Vote: quorum.Failed, Err: errOutbidAgain})
)

// numbered returns the reader of a reply that is the index of an answer.
func numbered(answers ...quorum.Answer) func(reply any) quorum.Answer {
	return func(reply any) quorum.Answer {
		if n, is := reply.(int64); is && n >= 0 && n < int64(len(answers)) {
			return answers[n]
		}
		return badReply
	}
}

func readSet(reply any) quorum.Answer {
	switch reply {
	case "OK":
		return granted
	case nil:
		return taken
	}
	return badReply
}

func readAcquire(reply any) quorum.Answer {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return badReply
	}
	switch parts[0] {
	case int64(1):
		if ahead, ok := readAhead(parts[1:]); ok {
			return quorum.Answer{Vote: quorum.Granted, Ahead: ahead}
		}
	case int64(2):
		if len(parts) >= 2 {
			text, _ := parts[1].([]byte)
			known, isToken := token.Parse(string(text))
			if ahead, ok := readAhead(parts[2:]); ok && isToken {
				return quorum.Answer{Vote: quorum.Outbid, Token: known, Ahead: ahead}
			}
		}
	case int64(3):
		return absent
	case int64(4):
		return quorum.Answer{Vote: quorum.Taken, Err: ErrRevoked, Revoked: true}
	case int64(0):
		return readTaken(parts)
	}
	return badReply
}

// readTaken reads who has the lock instead, as far as the entry says that.
func readTaken(parts []any) quorum.Answer {
	a := taken
	if len(parts) < 3 {
		return a
	}
	owner, isText := parts[1].([]byte)
	ms, isNumber := parts[2].(int64)
	if !isText || !isNumber {
		return badReply
	}
	a.Owner, a.Remaining = string(owner), Left(ms)
	if len(parts) >= 4 {
		a.Label = agreement.ReadLabel(parts[3])
	}
	a.Ahead, _ = readAhead(parts[min(4, len(parts)):])
	switch {
	case ms == -2:
		return absent
	case a.Owner == "":
		a.Err = ErrNoLock
	case ms < 0:
		a.Err = ErrNoTTL
	}
	return a
}

// unlessOutbid returns the reader of a reply that must not say that a larger token is known.
func unlessOutbid(instead quorum.Answer) func(reply any) quorum.Answer {
	return func(reply any) quorum.Answer {
		if a := readAcquire(reply); a.Vote != quorum.Outbid {
			return a
		}
		return instead
	}
}

// readAhead reads how many waiters are ahead, if the rest of an entry says so; ok: it says nothing else. Whatever a
// node says, it is neither negative nor so much that a pause, which grows with it, overflows.
func readAhead(rest []any) (ahead int, ok bool) {
	if len(rest) == 0 {
		return 0, true
	}
	n, isNumber := rest[0].(int64)
	return int(min(max(n, 0), 1<<20)), isNumber && len(rest) == 1
}

// Left converts what a node says is left of a key's TTL, in ms: it is -1 ms, for none, to 34 years. A key that others
// have set may have a TTL with which pauses would overflow.
func Left(ms int64) time.Duration { return time.Duration(min(max(ms, -1), 1<<40)) * time.Millisecond }

// readSurvey reads a list of numbers. Its caller checks their count, since only that knows how many slots there are.
func readSurvey(reply any) quorum.Answer {
	parts, ok := reply.([]any)
	numbers := make([]int64, len(parts))
	for i, p := range parts {
		var is bool
		numbers[i], is = p.(int64)
		ok = ok && is
	}
	if !ok || len(parts) == 0 {
		return badReply
	}
	return quorum.Answer{Vote: quorum.Granted, Reply: numbers}
}
