package agreement

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Label says who a Locker is. The nodes keep its text under the id, which is part of all owners of the Locker. So it
// costs a lock nothing: it is sent with each new connection, and again now and then.
type Label struct {
	id   [4]byte // bytes 8 to 11 of every owner
	text string  // "": none
	kept time.Duration
	salt atomic.Uint32 // see Salt
}

// maxLabel is the longest label in bytes: every refusal contains the holder's label.
const maxLabel = 64

// DefaultLabel returns host/pid, shortened if the host's name is very long.
func DefaultLabel() string {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	pid := fmt.Sprintf("/%d", os.Getpid())
	text := host[:min(len(host), maxLabel-len(pid))] + pid
	if CheckLabel(text) != nil {
		return "?" + pid
	}
	return text
}

// CheckLabel returns what is wrong with the text of a label, or nil.
func CheckLabel(text string) error {
	switch {
	case len(text) > maxLabel:
		return fmt.Errorf("the owner label has %d bytes: at most %d", len(text), maxLabel)
	case !utf8.ValidString(text):
		return fmt.Errorf("the owner label %q is not UTF-8", text)
	case strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fmt.Errorf("the owner label %q has a character that cannot be printed", text)
	default:
		return nil
	}
}

// newLabel draws a Locker's id. Labels outlive locks of a crashed one: no TTL exceeds the guard, unless that is off.
func newLabel(text string, guard, ttl time.Duration) *Label {
	l := &Label{text: text, kept: max(2*time.Minute, 2*guard, 2*ttl)}
	_, _ = rand.Read(l.id[:]) // crypto/rand.Read never fails
	l.id[0] = l.id[0]&0x3f | 0x80
	return l
}

// ID returns the part that all owners of the Locker have, as it stands in them.
func (l *Label) ID() string { return fmt.Sprintf("%x-%x", l.id[:2], l.id[2:]) }

// Owner draws an owner: a UUID of version 7 (RFC 9562). Its first 60 bits tell the time, then 30 bits the Locker, and
// the last 32 bits are random. The time is the nodes' time in µs, so owners of all machines sort in the order in which
// they began. No µs is next to that of a fenced hold, which has a token: there are those of the others.
func (l *Label) Owner(micros int64, fenced bool) (id uuid.UUID) {
	time := uint64(micros/1000)<<16 | 0x7<<12 | uint64(micros%1000)<<12/1000
	if !fenced {
		time++
	}
	binary.BigEndian.PutUint64(id[:8], time)
	copy(id[8:], l.id[:])
	_, _ = rand.Read(id[12:])
	binary.BigEndian.PutUint32(id[12:], binary.BigEndian.Uint32(id[12:])+l.salt.Load())
	return id
}

// ParseOwner reads an owner as it is written: 36 bytes in lower case. uuid.Parse takes other forms, too.
func ParseOwner(text string) (uuid.UUID, bool) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 || text != strings.ToLower(text) {
		return uuid.Nil, false
	}
	return id, true
}

// Since returns when an owner began, and whether it is that of a fenced hold.
func Since(owner string) (micros int64, fenced bool) {
	id, ok := ParseOwner(owner)
	time := binary.BigEndian.Uint64(id[:8])
	within := (time&0xfff*1000 + 0xfff) >> 12
	return int64(time>>16*1000 + within), ok && id.Version() == 7 && within<<12/1000 == time&0xfff
}

// Drew reports whether an owner is one of the Locker's.
func (l *Label) Drew(owner string) bool {
	id, ok := ParseOwner(owner)
	return ok && [4]byte(id[8:12]) == l.id
}

// Salt makes the owners that are drawn from now on differ from those that a copy of this process draws, if a snapshot
// of its machine is started twice: both then have the same id, may read the same random bits, and go on with waits that
// began at one moment. A copy has no connection of its own, and a node shows no two connections the same time. The id
// remains, since the labels of both are the same, and the nodes would have to be told of another one.
func (l *Label) Salt(micros int64) { l.salt.Add(uint32(micros)) }

// ReadLabel reads a label in a reply. What nobody could have set, and might garble a terminal or a log, is none.
func ReadLabel(reply any) string {
	text, _ := reply.([]byte)
	if CheckLabel(string(text)) != nil {
		return ""
	}
	return string(text)
}
