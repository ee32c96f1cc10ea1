package endpoint

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/quorumlock/redlock/internal/printable"
)

// What answers at an address is not what its URL says: no Redis server, no TLS, or a certificate that is not accepted.

// MismatchError says what answers in place of the server that the URL names.
type MismatchError struct {
	Kind MismatchKind
	text string
	err  error // on which the conclusion rests; nil: the text says all
}

// MismatchKind is what does not match.
type MismatchKind uint8

// The kinds of mismatches.
const (
	// NotRedis: what answers does not speak Redis's protocol.
	NotRedis MismatchKind = iota
	// NoTLS: the URL says TLS, and what answers does not speak it.
	NoTLS
	// PerhapsNoTLS: the URL says TLS, and the handshake has no answer, or is cut off, as by a proxy whose server is down.
	PerhapsNoTLS
	// PerhapsTLS: the URL says no TLS, and it hangs up without an answer, as with TLS, or as a proxy whose server is down.
	PerhapsTLS
	// Certificate: the server's certificate is not accepted.
	Certificate
	// OurCertificate: the server does not accept the certificate of this client, or wants one.
	OurCertificate
	// Alert: the server ends the TLS handshake for another reason, which may be its own.
	Alert
)

func (e MismatchError) Error() string {
	if e.err == nil || e.Kind != Certificate && hungUp(e.err) { // how it was closed does not matter
		return e.text
	}
	why := strings.TrimPrefix(strings.TrimPrefix(e.err.Error(), "x509: "), "tls: ") // and whatever a certificate says
	return e.text + ": " + printable.Beginning(why, printable.Most)
}

func (e MismatchError) Unwrap() error { return e.err }

// Lasts reports whether only a person can mend what err is about: a certain mismatch, or what Lasting has marked.
func Lasts(err error) bool {
	var mismatch MismatchError
	certain := []MismatchKind{NotRedis, NoTLS, Certificate, OurCertificate}
	return errors.As(err, new(lastingError)) || errors.As(err, &mismatch) && slices.Contains(certain, mismatch.Kind)
}

// Lasting marks an error for Lasts.
func Lasting(err error) error { return lastingError{err} }

type lastingError struct{ error }

func (e lastingError) Unwrap() error { return e.error }

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

// FirstBytes is a connection that remembers how the first reply begins.
type FirstBytes struct {
	net.Conn
	Secure bool // it speaks TLS

	seen []byte
}

func (f *FirstBytes) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	f.seen = append(f.seen, b[:min(n, 8-len(f.seen))]...)
	return n, err
}

// Explain explains an error before or in the handshake, if it shows what answers in place of the server.
func (f *FirstBytes) Explain(err error) error {
	switch first := string(f.seen); {
	case strings.HasPrefix(first, "HTTP/"), strings.HasPrefix(first, "<"):
		return MismatchError{Kind: NotRedis, text: "it is no Redis server, but answers HTTP: check host and port"}
	case first != "" && !strings.ContainsAny(first[:1], "+-:$*_#,(!=%~>|"):
		return MismatchError{Kind: NotRedis, text: "it is no Redis server: check host and port"}
	case first == "" && hungUp(err) && !f.Secure:
		const text = "it accepts the connection and closes it without an answer, as a proxy does whose server is down, " +
			"and a node that wants TLS (rediss://)"
		return MismatchError{PerhapsTLS, text, err}
	default:
		return alert(err)
	}
}
