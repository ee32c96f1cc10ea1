// Package fence has what a lock protects reject a holder that comes too late.
//
// A holder that is paused beyond the end of its hold goes on with its work, next to the one that has the lock by then.
// Neither can know; what both write to can, by the fencing token, which is larger with each hold. The store keeps the
// largest token that it has seen, its mark, and rejects smaller ones. The mark rises when a holder comes to read, not
// only when it writes: otherwise a late write that comes in between is overwritten by work that did not see it.
//
// There is a form for SQL ([Postgres], [MySQL], [SQLite]: [SQL.Enter], [SQL.EnterRow]), for Redis ([RedisDo]), and for
// what can write on a condition, as object stores and etcd do ([ReadObject]). Package fencetest proves a store of your
// own.
//
// A holder that is late gets an error that satisfies errors.Is for [ErrOvertaken] and [redlock.ErrLost]. It must stop:
// nothing that it has read is true any more.
package fence

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/quorumlock/redlock"
)

// ErrOvertaken says that a later holder of the lock has been at the store.
var ErrOvertaken = errors.New("overtaken by a later holder")

// Holder is who reads and writes: a [redlock.Lock], or what [Parse] returns. A hold of several names, by
// [redlock.Locker.LockAll], comes as one holder for each of them, made by Parse: its own name is that of no other hold.
type Holder interface {
	Name() string // of the lock
	Token() int64 // fencing token
}

const (
	maxName  = 512         // bytes
	maxToken = 1<<53 - 1   // so that JavaScript and Lua count right
	late     = "OVERTAKEN" // how Redis says it
)

// handedOn is a holder in another process.
type handedOn struct {
	name  string
	token int64
}

func (h handedOn) Name() string { return h.name }
func (h handedOn) Token() int64 { return h.token }

// Parse returns the holder that has handed on its lock's name and token, as text, to the process that writes: in
// headers of HTTP, or in the environment, where redlock run leaves REDLOCK_NAME and REDLOCK_TOKEN. What is no name or
// token is a [redlock.ErrInvalid].
func Parse(name, token string) (Holder, error) {
	n, err := strconv.ParseInt(token, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("fence: the token %.40q is no number: %w", token, redlock.ErrInvalid)
	}
	h := handedOn{name, n}
	return h, check(h)
}

// check returns why a holder cannot be told from others by its token, or nil.
func check(h Holder) error {
	name, token := h.Name(), h.Token()
	switch {
	case name == "":
		return fmt.Errorf("fence: a lock without a name: %w", redlock.ErrInvalid)
	case len(name) > maxName:
		return fmt.Errorf("fence: a name of %d bytes, %d at most: %w", len(name), maxName, redlock.ErrInvalid)
	case token == 0:
		return fmt.Errorf("fence: %q has no token: readers and holds WithoutFencing have none: %w", name, redlock.ErrInvalid)
	case token < 0 || token > maxToken:
		return fmt.Errorf("fence: %q has the token %d, which no hold has: %w", name, token, redlock.ErrInvalid)
	}
	return nil
}

// overtaken is the error of a holder that is late.
type overtaken struct {
	name        string
	token, mark int64
}

func (e *overtaken) Error() string {
	return fmt.Sprintf("fence: %q: the token %d is overtaken by %d of a later holder", e.name, e.token, e.mark)
}

// Is says that the lock is lost, too.
func (e *overtaken) Is(target error) bool { return target == ErrOvertaken || target == redlock.ErrLost }

// pass returns an error if the mark is larger than the holder's token.
func pass(h Holder, mark int64) error {
	if mark > h.Token() {
		return &overtaken{h.Name(), h.Token(), mark}
	}
	return nil
}

// failed says for whom something went wrong.
func failed(h Holder, err error) error { return fmt.Errorf("fence: %q: %w", h.Name(), err) }
