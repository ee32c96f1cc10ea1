package redlock

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/token"
)

// ticketPrefix marks a ticket and its version.
const ticketPrefix = "redlock1."

// Ticket ends the hold in this process, with [ErrUnlocked], and returns a text with which another process can continue
// it: see [Locker.Adopt]. The nodes keep the lock until the hold's Deadline; it is not renewed meanwhile. Unlock then
// returns nil and leaves the lock alone, so a deferred Unlock does no harm. Keep the text secret: it contains the
// lock's owner, with which any client can take the lock. Calling Ticket again returns the same text.
//
// A hold of several names (see [Locker.LockAll]) and a read hold (see [Locker.RLock]) cannot be handed over: the error
// satisfies errors.Is for [ErrInvalid], and the hold continues. If the hold has ended, there is nothing to hand over,
// and the error satisfies errors.Is for what [Lock.Err] returns.
func (k *Lock) Ticket() (string, error) {
	h := k.hold
	switch {
	case h.names != nil:
		return "", failed("ticket", h.name, invalid("a hold of several names cannot be handed over"))
	case h.shared:
		return "", failed("ticket", h.name, invalid("a read hold cannot be handed over"))
	}
	if h.leased() {
		_ = k.Extend(context.Background()) // else there would be a second to adopt it; without a majority, that is all
	}
	now := h.locker.opts.clock.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.expireAt(now)
	switch h.state {
	case handedOver:
	case held:
		h.becomeHandedOver()
	default:
		return "", h.endedError("ticket", h.ended())
	}
	deadline := h.until().UnixMilli()
	text := fmt.Sprintf("%s %d %d %s", h.owner, h.token, deadline, h.name)
	return ticketPrefix + base64.RawURLEncoding.EncodeToString([]byte(text)), nil
}

// ticket is the content of a ticket's text. That also has the hold's end, by the writer's clock, for people alone.
type ticket struct {
	owner uuid.UUID
	token int64
	name  string
}

func parseTicket(text string) (ticket, error) {
	bad := invalid("not a ticket")
	packed, ok := strings.CutPrefix(text, ticketPrefix)
	raw, err := base64.RawURLEncoding.DecodeString(packed)
	parts := strings.SplitN(string(raw), " ", 4)
	if !ok || err != nil || len(parts) != 4 || parts[3] == "" {
		return ticket{}, bad
	}
	owner, ok := agreement.ParseOwner(parts[0])
	number, err := strconv.ParseInt(parts[1], 10, 64)
	_, wrong := strconv.ParseInt(parts[2], 10, 64)
	if !ok || errors.Join(err, wrong) != nil || number < 0 || number >= 1<<53 {
		return ticket{}, bad
	}
	return ticket{owner, number, parts[3]}, nil
}

// Adopt continues a hold that another process handed over: text is what [Lock.Ticket] returned. It asks the nodes once,
// within the node timeout, to replace the former owner by a new one, for a new TTL and with a larger token. So a
// resource that checks tokens refuses what the former holder may still send. Of several processes that use one ticket,
// one at most can adopt it: the others' error satisfies errors.Is for [ErrTaken], also if the lock has expired.
func (l *Locker) Adopt(ctx context.Context, text string, opts ...LockOption) (*Lock, error) {
	t, err := parseTicket(text)
	if err != nil {
		return nil, notAcquiredError{&opError{op: "adopt", reason: err}}
	}
	key, err := l.heldKey(t.name)
	if err != nil {
		return nil, notAcquiredError{&opError{op: "adopt", reason: err}}
	}
	l.tokens.Observe(min(t.token, l.tokens.time(l.opts.clock.now())+token.MaxAhead.Microseconds()))
	p := plan{op: "adopt", name: t.name, key: key, mode: adopted, former: t.owner}
	return l.call(ctx, p, opts, (*Locker).try)
}
