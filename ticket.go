package redlock

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/token"
)

// ticketPrefix marks a ticket and its version.
const ticketPrefix = "redlock1."

// Ticket ends the hold in this process, with [ErrHandedOver], and returns a text
// with which another can go on: see [Locker.Adopt]. The nodes keep the lock until
// the hold's Until, and nobody renews it meanwhile. Unlock then returns nil and leaves the
// lock alone, so a deferred Unlock does no harm. The text has the lock's owner in
// it: who reads it can take the lock. Calling Ticket again returns the same.
//
// A hold of several names (see [Locker.LockAll]) and a read hold (see [RWMutex]) cannot be handed over: the error
// satisfies errors.Is for [ErrInvalid], and the hold goes on. Where the hold has ended, there is nothing to hand over,
// and the error satisfies errors.Is for what [Lock.Err] returns.
func (k *Lock) Ticket() (string, error) {
	h := k.hold
	switch {
	case h.names != nil:
		return "", failed("ticket", h.name, invalid("a hold of several names cannot be handed over"))
	case h.shared:
		return "", failed("ticket", h.name, invalid("a read hold cannot be handed over"))
	}
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	if ended := h.ended(); ended != nil && !errors.Is(ended, ErrHandedOver) {
		return "", h.over("ticket", ended)
	} else if ended == nil {
		if h.place != nowhere {
			h.locker.listeners.handOver(h.owner.String(), h.end())
			h.place = nowhere
		}
		h.finish(ErrHandedOver, false)
	}
	deadline := h.until().UnixMilli()
	text := fmt.Sprintf("%s %d %d %s", h.owner, h.token, deadline, h.name)
	return ticketPrefix + base64.RawURLEncoding.EncodeToString([]byte(text)), nil
}

// ticket is what the text says.
type ticket struct {
	owner    uuid.UUID
	token    int64
	deadline time.Time // by the clock of who wrote it: for people alone
	name     string
}

func parseTicket(text string) (ticket, error) {
	bad := invalid("not a ticket")
	packed, ok := strings.CutPrefix(text, ticketPrefix)
	if !ok {
		return ticket{}, bad
	}
	raw, err := base64.RawURLEncoding.DecodeString(packed)
	if err != nil {
		return ticket{}, bad
	}
	parts := strings.SplitN(string(raw), " ", 4)
	if len(parts) != 4 || parts[3] == "" || len(parts[0]) != ownerLen {
		return ticket{}, bad
	}
	t := ticket{name: parts[3]}
	var wrong [3]error
	t.owner, wrong[0] = uuid.Parse(parts[0])
	t.token, wrong[1] = strconv.ParseInt(parts[1], 10, 64)
	deadline, err := strconv.ParseInt(parts[2], 10, 64)
	wrong[2] = err
	if errors.Join(wrong[:]...) != nil || t.token < 0 || t.token >= 1<<53 {
		return ticket{}, bad
	}
	t.deadline = time.UnixMilli(deadline)
	return t, nil
}

// Adopt goes on with a hold that another process handed over with
// [Lock.Ticket], whose text it takes: it asks the nodes, once and within the node timeout, to replace the
// former owner by a new one, for a new TTL and with a larger token. So what the
// former holder may still send is refused by whatever checks tokens, and of several
// processes with one ticket a single one can adopt: the others' error satisfies
// errors.Is for [ErrTaken], as it does where the lock has expired.
func (l *Locker) Adopt(ctx context.Context, text string, opts ...Option) (*Lock, error) {
	t, err := parseTicket(text)
	if err != nil {
		return nil, &opError{op: "adopt", reason: err}
	}
	key, err := l.heldKey(t.name)
	if err != nil {
		return nil, &opError{op: "adopt", reason: err}
	}
	l.tokens.See(min(t.token, l.tokens.time(l.opts.clock.now())+token.MaxAhead.Microseconds()))
	w := acquireRequest{op: "adopt", name: t.name, key: key, from: t.owner.String()}
	return l.call(ctx, &w, opts, func(o *options) (*hold, error) {
		h, err := l.attempt(ctx, w, o)
		if err == nil {
			// From now on it is a hold like any other, and its release lets go of what the former owner has, too.
			h.from = nil
			h.former = t.owner
		}
		return h, err
	})
}
