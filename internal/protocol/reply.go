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

// badReply is what a reader returns for a reply that is not of its command's kind.
var badReply = quorum.Answer{Vote: quorum.Failed}

func readSet(reply any) quorum.Answer {
	switch reply {
	case "OK":
		return quorum.Answer{Vote: quorum.Granted}
	case nil:
		return quorum.Answer{Vote: quorum.Taken}
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
		if endsWithAhead(parts[1:]) {
			return quorum.Answer{Vote: quorum.Granted, Ahead: readAhead(parts[1:])}
		}
	case int64(2):
		if len(parts) >= 2 && endsWithAhead(parts[2:]) {
			text, _ := parts[1].([]byte)
			if known, ok := token.Parse(string(text)); ok {
				return quorum.Answer{Vote: quorum.Outbid, Token: known, Ahead: readAhead(parts[2:])}
			}
		}
	case int64(3):
		return quorum.Answer{Vote: quorum.Absent}
	case int64(4):
		return quorum.Answer{Vote: quorum.Taken, Err: ErrRevoked, Revoked: true}
	case int64(0):
		return readTaken(parts)
	}
	return badReply
}

// readTaken reads who has the lock instead, as far as the entry says that.
func readTaken(parts []any) quorum.Answer {
	a := quorum.Answer{Vote: quorum.Taken}
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
	a.Ahead = readAhead(parts[min(4, len(parts)):])
	switch {
	case ms == -2:
		return quorum.Answer{Vote: quorum.Absent}
	case a.Owner == "":
		a.Err = ErrNoLock
	case ms < 0:
		a.Err = ErrNoTTL
	}
	return a
}

// readShared reads the reply to a reader, who has no token that a larger one could be known beside.
func readShared(reply any) quorum.Answer {
	if a := readAcquire(reply); a.Vote != quorum.Outbid {
		return a
	}
	return badReply
}

func readLastRaise(reply any) quorum.Answer {
	a := readAcquire(reply)
	if a.Vote == quorum.Outbid {
		return quorum.Answer{Vote: quorum.Failed, Err: errOutbidAgain}
	}
	return a
}

// endsWithAhead reports whether the rest of a granting entry is how many waiters are ahead, or nothing.
func endsWithAhead(rest []any) bool {
	if len(rest) == 0 {
		return true
	}
	_, isNumber := rest[0].(int64)
	return isNumber && len(rest) == 1
}

// readAhead reads how many waiters are ahead, if the rest of an entry says so. Whatever a node says, it is neither
// negative nor so much that a pause, which grows with it, overflows.
func readAhead(rest []any) int {
	if len(rest) == 0 {
		return 0
	}
	ahead, _ := rest[0].(int64)
	return int(min(max(ahead, 0), 1<<20))
}

// Left converts what a node says is left of a key's TTL, in ms: it is -1 ms, for none, to 34 years. A key that
// others have set may have a TTL with which pauses would overflow.
func Left(ms int64) time.Duration {
	return time.Duration(min(max(ms, -1), 1<<40)) * time.Millisecond
}

func readExtend(reply any) quorum.Answer {
	switch reply {
	case int64(1):
		return quorum.Answer{Vote: quorum.Granted}
	case int64(2):
		// The node has the key again but did not have it all the time: no vote in this round.
		return quorum.Answer{Vote: quorum.Absent}
	case int64(0):
		return quorum.Answer{Vote: quorum.Taken}
	case int64(3):
		return quorum.Answer{Vote: quorum.Taken, Err: ErrRevoked}
	}
	return badReply
}

func readRelease(reply any) quorum.Answer {
	switch reply {
	case int64(1), int64(0): // released, or gone before
		return quorum.Answer{Vote: quorum.Granted}
	case int64(2):
		return quorum.Answer{Vote: quorum.Taken}
	}
	return badReply
}

func readOnce(reply any) quorum.Answer {
	switch reply {
	case int64(1):
		return quorum.Answer{Vote: quorum.Granted}
	case int64(0):
		return quorum.Answer{Vote: quorum.Taken}
	case int64(2):
		return quorum.Answer{Vote: quorum.Absent}
	case int64(3):
		return quorum.Answer{Vote: quorum.Failed, Err: ErrStale}
	}
	return badReply
}

// readRevoke reads the reply: either way the node does not have the lock under that owner.
func readRevoke(reply any) quorum.Answer {
	switch reply {
	case int64(1), int64(0):
		return quorum.Answer{Vote: quorum.Granted}
	}
	return badReply
}

// readSurvey reads a list of numbers. Its caller checks their count, since only the Semaphore knows how many slots it
// has.
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
