package protocol

import (
	"strings"

	"github.com/google/uuid"

	"github.com/quorumlock/redlock/internal/agreement"
	"github.com/quorumlock/redlock/internal/quorum"
	"github.com/quorumlock/redlock/internal/token"
)

// Message is what a node publishes on a client's channel, about one lock.
type Message struct {
	Kind   MessageKind
	Key    string
	Owner  uuid.UUID     // of all but Changed: for whom it is
	Answer quorum.Answer // of HandedOver and Next: what counts as the node's answer to the owner
	Shared bool          // of HandedOver: the owner is a reader
}

// MessageKind is what a message says.
type MessageKind uint8

// The kinds of messages.
const (
	Changed    MessageKind = iota // "- changed key": somebody has taken or left the lock
	Revoked                       // "owner revoked key": an administrator has taken it from the owner
	Next                          // "owner next key": the owner, a writer, is next behind readers
	HandedOver                    // "owner known key": the owner has it now
)

// ParseMessage reads a message. In a hand-over, known is empty if the node accepted the waiter's token, the larger
// token that the node knows if not, or ReaderToken if the waiter is a reader.
func ParseMessage(text string) (m Message, ok bool) {
	parts := strings.SplitN(text, " ", 3)
	if len(parts) != 3 {
		return m, false
	}
	known := parts[1]
	if m.Key = parts[2]; parts[0] == "-" {
		return m, true
	}
	m.Owner, ok = agreement.ParseOwner(parts[0])
	switch known {
	case "revoked":
		m.Kind = Revoked
	case "next":
		m.Kind, m.Answer = Next, quorum.Answer{Vote: quorum.Taken, Owner: quorum.Marker}
	case "", ReaderToken:
		m.Kind, m.Answer, m.Shared = HandedOver, quorum.Answer{Vote: quorum.Granted}, known != ""
	default:
		larger, isToken := token.Parse(known)
		m.Kind, m.Answer, ok = HandedOver, quorum.Answer{Vote: quorum.Outbid, Token: larger}, ok && isToken
	}
	return m, ok
}
