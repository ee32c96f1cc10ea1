package redisconn

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/gomodule/redigo/redis"
)

// What answers at an address is not what its URL says: no Redis server, no TLS, or a certificate that is not accepted.

// MismatchError says what answers in place of the server that the URL names.
type MismatchError struct {
	Kind MismatchKind
	text string
	err  error // nil: the text says all
}

// MismatchKind is what does not match.
type MismatchKind uint8

// The kinds of mismatches.
const (
	// NotRedis: what answers does not speak Redis's protocol.
	NotRedis MismatchKind = iota
	// NoTLS: the URL says TLS, and what answers does not speak it.
	NoTLS
	// PerhapsNoTLS: the URL says TLS, and nothing answers the handshake, or the server ends the connection in it, as a
	// proxy does whose server is down.
	PerhapsNoTLS
	// PerhapsTLS: the URL says no TLS, and what accepts the connection closes it without an answer. A server that speaks
	// TLS does so, and so does a proxy whose server is down: nothing tells which.
	PerhapsTLS
	// Certificate: the server's certificate is not accepted.
	Certificate
	// OurCertificate: the server does not accept the certificate of this client, or wants one.
	OurCertificate
	// Alert: the server ends the TLS handshake for another reason, which may be its own.
	Alert
)

// Error says what answers, and what to write instead.
func (e MismatchError) Error() string {
	if e.err == nil || e.Kind != Certificate && hungUp(e.err) { // how it was closed does not matter
		return e.text
	}
	return e.text + ": " + strings.TrimPrefix(strings.TrimPrefix(e.err.Error(), "x509: "), "tls: ")
}

// Unwrap returns the error on which the conclusion rests, or nil.
func (e MismatchError) Unwrap() error { return e.err }

// Lasting reports whether no time removes the mismatch: it is certain, and somebody has to change something.
func (e MismatchError) Lasting() bool {
	switch e.Kind {
	case NotRedis, NoTLS, Certificate, OurCertificate:
		return true
	default:
		return false
	}
}

// tlsError says what is wrong where a TLS handshake has failed.
func tlsError(err error) error {
	var record tls.RecordHeaderError
	var refused *tls.CertificateVerificationError
	switch {
	case errors.As(err, new(CredentialsError)):
		return err
	case errors.As(err, &refused): // before what its cause may look like
		return MismatchError{Certificate, "its certificate is not accepted", refused.Err}
	case errors.As(err, &record):
		return MismatchError{Kind: NoTLS, text: "it does not speak TLS: write redis://, or check the port"}
	case hungUp(err):
		const text = "it closes the connection in the TLS handshake (a node that does not speak TLS wants redis://)"
		return MismatchError{PerhapsNoTLS, text, err}
	case errors.Is(err, ErrTimeout):
		const text = "no answer to the TLS handshake (a node that does not speak TLS wants redis://)"
		return MismatchError{PerhapsNoTLS, text, err}
	default:
		return alert(err)
	}
}

// alert explains the alert by which a server ends a TLS connection. It may come at the first command.
func alert(err error) error {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return err
	}
	kind := Alert
	if strings.Contains(op.Err.Error(), "certificate") {
		kind = OurCertificate
	}
	return MismatchError{kind, "it does not accept the TLS handshake", op.Err}
}

// hungUp reports whether err says that the other side has closed the connection.
func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// firstBytes remembers how the first reply begins.
type firstBytes struct {
	net.Conn

	mu   sync.Mutex // guards seen: redigo may still read when its DialContext has returned because ctx is done
	seen []byte
}

func (f *firstBytes) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.mu.Lock()
	defer f.mu.Unlock()
	if have := len(f.seen); have < 8 {
		f.seen = append(f.seen, b[:min(n, 8-have)]...)
	}
	return n, err
}

func (f *firstBytes) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return string(f.seen)
}

// mismatch explains an error before or in the handshake, if it shows what answers in place of the server.
func (l *link) mismatch(err error, secure bool) error {
	switch first := l.first.String(); {
	case strings.HasPrefix(first, "HTTP/"), strings.HasPrefix(first, "<"):
		return MismatchError{Kind: NotRedis, text: "it is no Redis server, but answers HTTP: check host and port"}
	case first != "" && !strings.ContainsAny(first[:1], "+-:$*_#,(!=%~>|"):
		return MismatchError{Kind: NotRedis, text: "it is no Redis server: check host and port"}
	case first == "" && hungUp(err) && !secure:
		const text = "it accepts the connection and closes it without an answer, as a proxy does whose server is down, " +
			"and a node that wants TLS (rediss://)"
		return MismatchError{PerhapsTLS, text, err}
	default:
		return alert(err)
	}
}

// UnexpectedError says that a reply is not of the kind that its command has. What sends it is no Redis server, or
// something between changes what the server says.
type UnexpectedError struct{ reply string }

// Unexpected returns the error for such a reply. It has no more than the beginning: a reply may be long, or a secret.
func Unexpected(reply any) error {
	var b strings.Builder
	describe(&b, reply)
	return UnexpectedError{b.String()}
}

// Error shows the beginning of the reply.
func (e UnexpectedError) Error() string { return "unexpected reply " + e.reply }

// shownReply is how many bytes of a reply are shown, about; shownText is how many of each text in it.
const shownReply, shownText = 60, 30

func describe(b *strings.Builder, reply any) {
	switch v := reply.(type) {
	case []any:
		b.WriteByte('[')
		for i, element := range v {
			if i > 0 {
				b.WriteByte(' ')
			}
			if b.Len() >= shownReply {
				b.WriteString("…")
				break
			}
			describe(b, element)
		}
		b.WriteByte(']')
	case redis.Error:
		b.WriteString("an error") // its text may quote what was sent
	case []byte:
		b.WriteString(beginning(string(v)))
	case string:
		if quoted := beginning(v); quoted != `"`+v+`"` {
			b.WriteString(quoted)
		} else {
			b.WriteString(v) // a status
		}
	default:
		text := fmt.Sprint(v)
		b.WriteString(text[:min(len(text), shownReply)])
	}
}

func beginning(text string) string {
	if len(text) <= shownText {
		return strconv.Quote(text)
	}
	return strconv.Quote(text[:shownText]) + "…"
}
