package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/quorumlock/redlock/internal/token"
)

// What a node replied, read: one function for each form of reply. What the numbers mean stands in the scripts' heads, in internal/lua/.

func readSet(reply any) answer {
	switch reply {
	case "OK":
		return answer{vote: voteGranted}
	case nil:
		return answer{vote: voteTaken}
	}
	return garbled(reply)
}

func readAcquire(reply any) answer {
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return garbled(reply)
	}
	switch parts[0] {
	case int64(1):
		return answer{vote: voteGranted}
	case int64(2):
		if len(parts) == 2 {
			text, _ := parts[1].([]byte)
			if known, ok := token.Parse(string(text)); ok {
				return answer{vote: voteOutbid, token: known}
			}
		}
	case int64(3):
		return answer{vote: voteAbsent}
	case int64(0):
		a := answer{vote: voteTaken}
		if len(parts) >= 3 {
			owner, _ := parts[1].([]byte)
			ms, _ := parts[2].(int64)
			a.owner, a.remaining = string(owner), time.Duration(ms)*time.Millisecond
			if len(parts) == 4 {
				place, _ := parts[3].(int64)
				a.place = int(place)
			}
			switch {
			case ms == -2:
				return answer{vote: voteAbsent}
			case a.owner == "":
				a.err = errNoLock
			case ms < 0:
				a.err = errNoTTL
			}
		}
		return a
	}
	return garbled(reply)
}

// together is the answer about several locks, drawn from those about each: the worst, and the largest token.
func together(k *kind, replies []any) (all answer) {
	highest := int64(0)
	for i, reply := range replies {
		a := k.read(reply)
		highest = max(highest, a.token)
		if a.vote > all.vote {
			all, all.which = a, i
		}
	}
	all.token = highest
	return all
}

func readExtend(reply any) answer {
	switch reply {
	case int64(1):
		return answer{vote: voteGranted}
	case int64(2):
		// It is ours again but has not been all the time: no vote in this round.
		return answer{vote: voteAbsent}
	case int64(0):
		return answer{vote: voteTaken}
	}
	return garbled(reply)
}

func readRelease(reply any) answer {
	switch reply {
	case int64(1), int64(0): // let go of, or gone before
		return answer{vote: voteGranted}
	case int64(2):
		return answer{vote: voteTaken}
	}
	return garbled(reply)
}

// readRevert never gets a list: the script has nothing to tell.
func readRevert(reply any) answer { return garbled(reply) }

var (
	errNoLock = errors.New("the key is not a string, so it is no lock")
	errNoTTL  = errors.New("the key has no TTL: it was not set by a lock and will not go away")
)

func unexpected(reply any) error { return fmt.Errorf("unexpected reply %v", reply) }

func garbled(reply any) answer { return answer{vote: voteFailed, err: unexpected(reply)} }
